"""The loss between a rendered and a real image."""

from __future__ import annotations

import torch
from torch import Tensor

from recon4d.loss._registry import resolve
from recon4d.loss._terms import LossTerms


def image_loss(
    rgb: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    terms: LossTerms = LossTerms(),  # noqa: B008 - frozen, so one default serves all calls.
    pixels: int | None = None,
    backend: str = "auto",
) -> Tensor:
    """How far a rendering is from an image; differentiable in ``rgb``.

    The sum over pixels and channels of ``weight * (l1 |d| + l2 d^2 + ssim (1 - SSIM))`` over ``3 pixels``, averaged
    over the batch. SSIM takes a Gaussian window of 11 taps and 1.5 px (Wang et al. 2004), with zeros around the image.

    Args:
        rgb: [H, W, 3] or [C, H, W, 3], float.
        target: the same shape on the same device; float in [0, 1], or uint8, divided by 255 on the fly.
        weight: [H, W] or [C, H, W] float, how much each pixel counts; 1 without it.
        terms: weights of the terms.
        pixels: what the sum is divided by, H * W by default. A crop passes the count of the full image, so that its
            gradient has the full image's scale.
        backend: "auto", "cpu" (compiled, float32 inside) or "torch" (any device).

    Returns:
        A 0-dim tensor of ``rgb``'s type; NaN where an input is NaN.

    Raises:
        ValueError: shapes, types or devices do not fit.
        BackendError: no such backend, or it does not serve the tensors' device.
    """
    weight = _check(rgb, target, weight)
    shape = rgb.shape if rgb.ndim == 4 else (1, *rgb.shape)
    pixels = shape[1] * shape[2] if pixels is None else pixels
    if pixels < 1:
        raise ValueError(f"pixels must be at least 1; it is {pixels}")
    if weight is not None:
        weight = weight.to(rgb.dtype).expand(shape[:3])
    chosen = resolve(backend, rgb.device)
    return chosen.image_loss(rgb.reshape(shape), target.reshape(shape), weight, terms, 1 / (3 * pixels * shape[0]))


def _check(rgb: Tensor, target: Tensor, weight: Tensor | None) -> Tensor | None:
    if rgb.ndim not in (3, 4) or rgb.shape[-1] != 3 or not rgb.is_floating_point() or rgb.numel() == 0:
        raise ValueError(f"rgb must be float [H, W, 3] or [C, H, W, 3], not empty; it is {rgb.dtype} {list(rgb.shape)}")
    if target.shape != rgb.shape or not (target.dtype == torch.uint8 or target.is_floating_point()):
        raise ValueError(f"target must be float or uint8 {list(rgb.shape)}; it is {target.dtype} {list(target.shape)}")
    if target.device != rgb.device or (weight is not None and weight.device != rgb.device):
        raise ValueError(f"all images must be on {rgb.device}, where rgb is; move the target and the weight there")
    if weight is not None and weight.shape not in (rgb.shape[:-1], rgb.shape[-3:-1]):
        raise ValueError(f"weight must be {list(rgb.shape[:-1])}; it is {list(weight.shape)}")
    return weight
