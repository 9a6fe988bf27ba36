"""Image measures for scoring."""

from __future__ import annotations

import torch
from torch import Tensor

from recon4d.loss._terms import WINDOW
from recon4d.loss.torch import ssim_map


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Structural similarity (Wang et al. 2004): Gaussian window of 11 taps and 1.5 px, mean over where it fits whole.

    Args:
        a: [..., H, W, 3] in [0, 1], float, or uint8 to be divided by 255.
        b: the same shape.

    Returns:
        [...], the mean over pixels and channels; a 0-dim tensor for one image.

    Raises:
        ValueError: shapes differ, or an image is smaller than the window.
    """
    a, b = _pair(a, b)
    if min(a.shape[-3:-1]) < WINDOW:
        raise ValueError(f"SSIM needs images of at least {WINDOW}x{WINDOW} pixels; got {a.shape[-2]}x{a.shape[-3]}")
    flat_a, flat_b = (image.reshape(-1, *image.shape[-3:]).permute(0, 3, 1, 2) for image in (a, b))
    return ssim_map(flat_a, flat_b, padding=0).mean((1, 2, 3)).reshape(a.shape[:-3])


def psnr(a: Tensor, b: Tensor, mask: Tensor | None = None) -> Tensor:
    """Peak signal-to-noise ratio in decibel, 10 log10(1 / MSE).

    Args:
        a: [..., H, W, 3] in [0, 1], float, or uint8 to be divided by 255.
        b: the same shape.
        mask: [..., H, W] bool, which pixels count; all without it.

    Returns:
        [...]; infinite where the images are equal, NaN where a mask is empty.

    Raises:
        ValueError: shapes differ, or the mask is not of their shape.
    """
    a, b = _pair(a, b)
    squared = (a - b).square().mean(-1)
    if mask is None:
        return -10 * torch.log10(squared.mean((-2, -1)))
    if mask.shape != squared.shape or mask.dtype != torch.bool:
        raise ValueError(f"the mask must be bool {list(squared.shape)}; it is {mask.dtype} {list(mask.shape)}")
    total = squared.where(mask, 0).sum((-2, -1))
    return -10 * torch.log10(total / mask.sum((-2, -1)))


def _pair(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    if a.shape != b.shape or a.ndim < 3 or a.shape[-1] != 3:
        raise ValueError(f"both images must be [..., H, W, 3] alike; they are {list(a.shape)} and {list(b.shape)}")
    a, b = (image.float() / 255 if image.dtype == torch.uint8 else image for image in (a, b))
    dtype = torch.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)
