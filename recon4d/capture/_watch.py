"""Looks at every frame while it passes by: black, still and exposure, in constant memory."""

from __future__ import annotations

import numpy as np

from recon4d.capture._findings import Inspection

_BLACK = 8.0
"""Mean level out of 255 under which a whole clip counts as black."""
_STILL_S = 1.0
"""An exact repetition of one picture for longer than this is no scene at rest: sensors are noisy."""
_STRIDE = 4
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


class PictureWatch:
    """Statistics of one camera's pictures."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0
        self._previous: np.ndarray | None = None
        self._run_start = 0
        self._longest = (0, 0)
        """First and last frame of the longest run of equal pictures."""

    def see(self, frame: np.ndarray) -> None:
        """Takes the next frame, uint8 [H, W, 3]."""
        small = frame[::_STRIDE, ::_STRIDE]
        self._sum += float((small.reshape(-1, 3).mean(0, dtype=np.float32) * _LUMA).sum())
        if self._previous is None or not np.array_equal(small, self._previous):
            self._previous = small.copy()
            self._run_start = self._count
        elif self._count - self._run_start > self._longest[1] - self._longest[0]:
            self._longest = (self._run_start, self._count)
        self._count += 1

    @property
    def brightness(self) -> float:
        """Mean level out of 255, over all frames."""
        return self._sum / max(self._count, 1)

    def conclude(self, times: np.ndarray, camera: str, file: str, inspection: Inspection) -> None:
        """Warns of a black clip and of a picture that stands still."""
        if self.brightness < _BLACK:
            inspection.warn(
                f"the video is black: its mean level is {self.brightness:.1f} of 255",
                "check the lens cap and the exposure",
                camera=camera,
                file=file,
            )
        first, last = self._longest
        if last > first and times[last] - times[first] > _STILL_S:
            inspection.warn(
                f"the picture stands still from {times[first]:.3f} to {times[last]:.3f} s:"
                f" {last - first + 1} equal frames",
                "check that the camera was not frozen",
                camera=camera,
                file=file,
            )


def check_exposure(brightness: dict[str, float], ratio: float, inspection: Inspection) -> None:
    """Warns when the cameras' mean levels differ by more than the ratio."""
    lit = {name: value for name, value in brightness.items() if value >= _BLACK}
    if len(lit) < 2:
        return
    dark, bright = min(lit, key=lit.__getitem__), max(lit, key=lit.__getitem__)
    if lit[bright] > ratio * lit[dark]:
        inspection.warn(
            f"the cameras' exposures differ: '{dark}' has a mean level of {lit[dark]:.0f} and '{bright}' of"
            f" {lit[bright]:.0f} of 255",
            "lock exposure, gain and white balance to the same values",
        )
