"""What an image loss is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

WINDOW = 11
"""Taps of the SSIM window on either axis."""
SIGMA_PX = 1.5
"""Standard deviation of the SSIM window, pixels."""
C1, C2 = 0.01**2, 0.03**2
"""SSIM's constants for values in [0, 1] (Wang et al. 2004)."""


@dataclass(frozen=True, kw_only=True)
class LossTerms:
    """Weights of the terms of ``image_loss``; each is at least 0."""

    l1: float = 0.8
    """Weight of the absolute difference. 0.8 beside 0.2 of SSIM is the mix of 3D Gaussian splatting (Kerbl 2023)."""
    ssim: float = 0.2
    """Weight of 1 - SSIM; 0 skips all of its work."""
    l2: float = 0.0
    """Weight of the squared difference, which favours PSNR; off unless asked for."""

    def __post_init__(self) -> None:
        for name, value in (("l1", self.l1), ("ssim", self.ssim), ("l2", self.l2)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"LossTerms.{name} must be finite and at least 0; it is {value}")


def window() -> list[float]:
    """The taps of the SSIM window along one axis; they sum to 1."""
    half = WINDOW // 2
    taps = [math.exp(-((k - half) ** 2) / (2 * SIGMA_PX**2)) for k in range(WINDOW)]
    return [tap / sum(taps) for tap in taps]
