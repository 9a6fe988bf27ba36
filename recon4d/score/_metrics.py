"""The numbers of one image, and their means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

_WINDOW, _SIGMA_PX = 11, 1.5
_C1, _C2 = np.float32(0.01**2), np.float32(0.03**2)


@dataclass(frozen=True, kw_only=True)
class ImageScore:
    """How near an image comes to the truth."""

    psnr: float
    """Decibel over all valid pixels, of which there must be some."""
    psnr_moving: float | None
    """Decibel over moving pixels; None where too few move."""
    ssim: float | None
    """None where the image is smaller than the window."""


@dataclass
class Tally:
    """Scores by camera; its summary is the mean over images, then over cameras."""

    by_camera: dict[str, list[ImageScore]] = field(default_factory=dict)

    def add(self, camera: str, score: ImageScore) -> None:
        self.by_camera.setdefault(camera, []).append(score)

    def summary(self) -> dict[str, Any] | None:
        """``{psnr, psnr_moving, ssim, cameras: {name: {psnr, psnr_moving, ssim, images}}}``; None of nothing."""
        if not self.by_camera:
            return None
        cameras = {name: {**_means(scores), "images": len(scores)} for name, scores in self.by_camera.items()}
        return {**_means(cameras.values()), "cameras": cameras}


def compare(
    image: np.ndarray,
    truth: np.ndarray,
    *,
    moving: np.ndarray,
    valid: np.ndarray,
    min_moving_pixels: int,
    cap_db: float,
) -> ImageScore:
    """Scores an image against a frame.

    Args:
        image: float32 [H, W, 3] in [0, 1].
        truth: uint8 [H, W, 3].
        moving: bool [H, W].
        valid: bool [H, W]; pixels outside have no truth and are ignored, with every SSIM window that touches one.
        min_moving_pixels: with fewer moving pixels than this there is no moving score.
        cap_db: decibel that stand for an exact image, whose PSNR is infinite.
    """
    target = truth.astype(np.float32) / np.float32(255)
    squared = np.square(image - target).mean(-1, dtype=np.float64)
    moving = moving & valid
    return ImageScore(
        psnr=_psnr(squared[valid], cap_db),
        psnr_moving=_psnr(squared[moving], cap_db) if np.count_nonzero(moving) >= min_moving_pixels else None,
        ssim=_ssim(image, target, valid),
    )


def _psnr(squared_errors: np.ndarray, cap_db: float) -> float:
    return float(min(-10 * np.log10(max(squared_errors.mean(), 1e-30)), cap_db))


def _ssim(a: np.ndarray, b: np.ndarray, valid: np.ndarray) -> float | None:
    """Structural similarity (Wang et al. 2004), mean over all whole windows of valid pixels; None without any.

    The same measure as :func:`recon4d.loss.ssim`, which knows no mask; scoring a long clip needs it fast without
    gradients, and OpenCV's separable filter is some twenty times faster than convolutions in PyTorch.
    """
    inside = cv2.erode(valid.astype(np.uint8), np.ones((_WINDOW, _WINDOW), np.uint8), borderValue=0).astype(bool)
    if not inside.any():
        return None
    taps = cv2.getGaussianKernel(_WINDOW, _SIGMA_PX, cv2.CV_32F)

    def blur(x: np.ndarray) -> np.ndarray:
        return cv2.sepFilter2D(x, -1, taps, taps)

    mean_a, mean_b = blur(a), blur(b)
    var_a, var_b = blur(a * a) - mean_a**2, blur(b * b) - mean_b**2
    covariance = blur(a * b) - mean_a * mean_b
    similarity = (2 * mean_a * mean_b + _C1) * (2 * covariance + _C2)
    similarity /= (mean_a**2 + mean_b**2 + _C1) * (var_a + var_b + _C2)
    return float(similarity[inside].mean(dtype=np.float64))


def _means(scores: Iterable[ImageScore] | Iterable[dict[str, Any]]) -> dict[str, float | None]:
    rows = [vars(score) if isinstance(score, ImageScore) else score for score in scores]
    return {name: _mean([row[name] for row in rows]) for name in ("psnr", "psnr_moving", "ssim")}


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean of those there are."""
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else None
