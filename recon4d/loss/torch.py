"""The loss in plain PyTorch, for any device."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from recon4d.loss._terms import C1, C2, WINDOW, LossTerms, window

device_types: tuple[str, ...] = ()


def image_loss(rgb: Tensor, target: Tensor, weight: Tensor | None, terms: LossTerms, factor: float) -> Tensor:
    """See :func:`recon4d.loss.image_loss`; uint8 targets become floats on the device."""
    target = target.to(rgb.dtype) / 255 if target.dtype == torch.uint8 else target.to(rgb.dtype)
    difference = rgb - target
    cost = terms.l1 * difference.abs()
    if terms.l2 > 0:
        cost = cost + terms.l2 * difference.square()
    if terms.ssim > 0:
        a, b = rgb.permute(0, 3, 1, 2), target.permute(0, 3, 1, 2)
        cost = cost + terms.ssim * (1 - ssim_map(a, b, padding=WINDOW // 2).permute(0, 2, 3, 1))
    if weight is not None:
        cost = cost * weight[..., None]
    return cost.sum() * factor


def ssim_map(a: Tensor, b: Tensor, padding: int) -> Tensor:
    """Structural similarity [B, C, H', W'] of images [B, C, H, W] in [0, 1] (Wang et al. 2004), zeros around them."""
    moments = torch.stack([a, b, a * a + b * b, a * b])
    blurred = blur(moments.reshape(-1, 1, *a.shape[-2:]), padding)
    mean_a, mean_b, squares, product = blurred.reshape(*moments.shape[:3], *blurred.shape[-2:])
    product_of_means, squares_of_means = mean_a * mean_b, mean_a.square() + mean_b.square()
    luminance = (2 * product_of_means + C1) / (squares_of_means + C1)
    return luminance * (2 * (product - product_of_means) + C2) / (squares - squares_of_means + C2)


@cache
def _taps(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The window, brought to a device once: a transfer at every step would make it wait."""
    return torch.tensor(window(), dtype=dtype, device=device)


def blur(images: Tensor, padding: int) -> Tensor:
    """Images [B, 1, H, W] under the SSIM window."""
    taps = _taps(images.dtype, images.device)
    images = conv2d(images, taps.view(1, 1, 1, WINDOW), padding=(0, padding))
    return conv2d(images, taps.view(1, 1, WINDOW, 1), padding=(padding, 0))
