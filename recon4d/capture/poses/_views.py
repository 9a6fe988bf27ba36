"""A few small, undistorted pictures of each camera: what a person looks at, and what poses are tried on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from recon4d.types import Camera

_WIDTH_PX = 960
"""Wider pictures are made this wide: enough to judge poses by, and twenty cameras stay under 100 MiB."""
_SHARES = (0.0, 0.5, 1.0)
"""Of the common time: its start, middle and end."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What was kept of one camera."""

    camera: Camera
    """Scaled to the size of the pictures."""
    pictures: tuple[np.ndarray, ...]
    """uint8 [H, W, 3] each, undistorted, in order of time; empty when the video could not be read."""
    times_s: tuple[float, ...]
    """Of each picture, on the original common clock."""
    valid: np.ndarray
    """[H, W] bool, False where undistortion found no pixel."""

    @property
    def name(self) -> str:
        return self.camera.name


class Shrinker:
    """Makes a camera, its pictures and its valid pixels small enough to be kept."""

    def __init__(self, camera: Camera, valid: np.ndarray) -> None:
        share = min(1.0, _WIDTH_PX / camera.width)
        self._size = max(1, round(camera.width * share)), max(1, round(camera.height * share))
        self.camera = camera.resized(*self._size)
        self.valid = cv2.resize(valid.astype(np.uint8), self._size, interpolation=cv2.INTER_NEAREST).astype(bool)

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        """uint8 [H, W, 3] to the small size; a copy in any case."""
        if frame.shape[1::-1] == self._size:
            return frame.copy()
        return cv2.resize(frame, self._size, interpolation=cv2.INTER_AREA)


def moments(times: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Of each camera: the frames nearest to start, middle and end of the time that all cover.

    Where the cameras share no time, those of the camera's own clip.
    """
    start = max((float(t[0]) for t in times.values()), default=0.0)
    end = min((float(t[-1]) for t in times.values()), default=0.0)
    return {name: _nearest(t, (start, end) if end > start else (t[0], t[-1])) for name, t in times.items()}


def _nearest(times: np.ndarray, span: Sequence[float]) -> tuple[int, ...]:
    wanted = [span[0] + share * (span[1] - span[0]) for share in _SHARES]
    return tuple(sorted({int(np.abs(times - instant).argmin()) for instant in wanted}))
