"""What can be asked of the generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


class NoGraphicsError(RuntimeError):
    """MuJoCo found no OpenGL to draw with; the message says what to install."""


@dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """One synthetic bench capture.

    Raises:
        ValueError: a field is out of its range.
    """

    seed: int = 0
    """Everything that varies follows from it; the same seed gives the same files on one machine."""
    seconds: float = 2.6
    """Length of the recording on the original clock; about 2.5 s remain that all cameras share."""
    width: int = 320
    """Pixels; with the height small enough that eight clips stay within a few MB."""
    height: int = 240
    """Pixels."""
    fps: float = 30.0
    """Frames per second of all cameras but the slow one, which has 25/30 of it."""
    supersample: int = 3
    """Samples per pixel side; odd, so that one lies at the pixel's centre: depth and masks are taken there."""
    crf: int = 11
    """x264 constant rate factor: 42.7 dB against the noisy source, 44.1 against the clean one, eight clips in 2 MB."""
    noise_8bit: float = 1.0
    """Standard deviation of the sensor noise in 8-bit steps."""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"the seed must be 0 or more; it is {self.seed}")
        if not 1.0 <= self.seconds <= 30.0:
            raise ValueError(f"seconds must be between 1 and 30; it is {self.seconds}")
        if self.width < 64 or self.height < 48:
            raise ValueError(f"the size must be at least 64x48; it is {self.width}x{self.height}")
        if self.supersample < 1 or self.supersample % 2 == 0:
            raise ValueError(f"supersample must be odd and positive; it is {self.supersample}")
        if not 5.0 <= self.fps <= 120.0:
            raise ValueError(f"fps must be between 5 and 120; it is {self.fps}")

    def rng(self, aspect: str, attempt: int = 0) -> np.random.Generator:
        """An independent stream per aspect, so that a change in one part leaves the others as they were."""
        return np.random.default_rng([self.seed, attempt, *aspect.encode()])
