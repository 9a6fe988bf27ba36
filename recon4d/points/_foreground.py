"""What moves: frames against the background that the static fit draws."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from recon4d.errors import ConfigError
from recon4d.types import Clip, ClipStatistics


@dataclass(frozen=True, kw_only=True)
class ForegroundConfig:
    """When a pixel counts as moving."""

    difference: float = 0.1
    """Largest channel difference from the background, in [0, 1], above which a pixel is foreground. Sensor noise
    and video coding stay below."""
    spread: float = 0.03
    """Temporal standard deviation below which a pixel never is: it did not change over the whole clip, so a
    difference there is an error of the background fit."""
    dilate_px: int = 2
    """Margin by which masks grow when other views are asked whether they see something move at a point."""

    def __post_init__(self) -> None:
        for name, high in (("difference", 1.0), ("spread", 1.0), ("dilate_px", 100)):
            if not 0 <= getattr(self, name) <= high:
                raise ConfigError(f"foreground.{name} is {getattr(self, name)}; it must lie between 0 and {high}")


class Foreground:
    """Foreground masks of every camera's frames, computed when asked for and remembered for a while.

    Args:
        clips: the training cameras' clips.
        statistics: their medians and spreads.
        backgrounds: [H, W, 3] float32 renders of the static pool, one a clip.
    """

    _REMEMBERED = 64

    def __init__(
        self,
        clips: Sequence[Clip],
        statistics: Sequence[ClipStatistics],
        backgrounds: Sequence[np.ndarray],
        config: ForegroundConfig | None = None,
    ) -> None:
        self.clips = tuple(clips)
        self.statistics = tuple(statistics)
        self.config = config or ForegroundConfig()
        self._backgrounds = [np.clip(np.rint(image * 255), 0, 255).astype(np.uint8) for image in backgrounds]
        self._varies = [s.spread > self.config.spread for s in statistics]
        self._masks: OrderedDict[tuple[int, int], np.ndarray] = OrderedDict()
        size = 2 * self.config.dilate_px + 1
        self._margin = np.ones((size, size), np.uint8)

    def mask(self, camera: int, frame: int) -> np.ndarray:
        """[H, W] uint8, 1 where the frame differs from the background; specks and pinholes removed."""
        key = (camera, frame)
        if key in self._masks:
            self._masks.move_to_end(key)
            return self._masks[key]
        difference = largest_difference(self.clips[camera].frames[frame], self._backgrounds[camera])
        moving = ((difference > self.config.difference * 255) & self._varies[camera]).astype(np.uint8)
        kernel = np.ones((3, 3), np.uint8)
        moving = cv2.morphologyEx(cv2.morphologyEx(moving, cv2.MORPH_CLOSE, kernel), cv2.MORPH_OPEN, kernel)
        self._masks[key] = moving
        if len(self._masks) > self._REMEMBERED:
            self._masks.popitem(last=False)
        return moving

    def dilated(self, camera: int, frame: int) -> np.ndarray:
        """The mask grown by the margin."""
        return cv2.dilate(self.mask(camera, frame), self._margin)

    def box(self, camera: int, frame: int, margin_px: int = 6) -> tuple[int, int, int, int] | None:
        """(x0, y0, x1, y1) around what moves or ever differs from the median; None when hardly anything does.

        Half a percent of stray pixels on each side is ignored.
        """
        moving = self.dilated(camera, frame).astype(bool)
        moving |= self.statistics[camera].moving(self.clips[camera].frames[frame])
        rows, columns = np.nonzero(moving)
        if len(rows) < 20:
            return None
        height, width = moving.shape
        x0, x1 = np.percentile(columns, [0.5, 99.5]).astype(int)
        y0, y1 = np.percentile(rows, [0.5, 99.5]).astype(int)
        return (
            max(0, int(x0) - margin_px),
            max(0, int(y0) - margin_px),
            min(width, int(x1) + margin_px + 1),
            min(height, int(y1) + margin_px + 1),
        )


def largest_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[H, W] uint8: of two uint8 images, the difference of the channel where it is largest."""
    red, green, blue = cv2.split(cv2.absdiff(a, b))  # Ten times as fast as a maximum over the last axis.
    return cv2.max(cv2.max(red, green), blue)
