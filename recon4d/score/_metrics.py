"""The numbers of one image, and their means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from recon4d.loss import psnr, ssim


@dataclass(frozen=True, kw_only=True)
class ImageScore:
    """How near an image comes to the truth."""

    psnr: float
    """Decibel over all valid pixels."""
    psnr_moving: float | None
    """Decibel over moving pixels; None where too few move."""
    ssim: float


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
        valid: bool [H, W]; pixels outside have no truth and are ignored. For SSIM, whose window spans several
            pixels, they are made equal in both images.
        min_moving_pixels: with fewer moving pixels than this there is no moving score.
        cap_db: decibel that stand for an exact image, whose PSNR is infinite.
    """
    a = torch.from_numpy(np.where(valid[..., None], image, np.float32(0)))
    b = torch.from_numpy(np.where(valid[..., None], truth.astype(np.float32) / np.float32(255), np.float32(0)))
    moving = moving & valid
    return ImageScore(
        psnr=min(float(psnr(a, b, torch.from_numpy(valid))), cap_db),
        psnr_moving=min(float(psnr(a, b, torch.from_numpy(moving))), cap_db)
        if np.count_nonzero(moving) >= min_moving_pixels
        else None,
        ssim=float(ssim(a, b)),
    )


def _means(scores: Iterable[ImageScore] | Iterable[dict[str, Any]]) -> dict[str, float | None]:
    rows = [vars(score) if isinstance(score, ImageScore) else score for score in scores]
    return {name: _mean([row[name] for row in rows]) for name in ("psnr", "psnr_moving", "ssim")}


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean of those there are."""
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else None
