"""The loss and its gradient in one compiled, multi-threaded pass (:mod:`recon4d.loss._cpu_kernels`)."""

from __future__ import annotations

import threading
from typing import Any, cast

import numpy as np
import torch
from numba.np.ufunc.parallel import get_thread_count
from torch import Tensor
from torch.autograd.function import once_differentiable

from recon4d.loss import _cpu_kernels
from recon4d.loss._terms import LossTerms

device_types: tuple[str, ...] = ("cpu",)

_STRIP = 70  # Rows of a strip, about: each repeats twenty rows of its neighbours' work.


def image_loss(rgb: Tensor, target: Tensor, weight: Tensor | None, terms: LossTerms, factor: float) -> Tensor:
    """See :func:`recon4d.loss.image_loss`; computes in float32."""
    wanted = rgb.requires_grad and torch.is_grad_enabled()
    return cast(Tensor, _ImageLoss.apply(rgb, (target, weight), terms, factor, wanted))


class _ImageLoss(torch.autograd.Function):
    """Computes the gradient along with the value, and hands it on when asked."""

    @staticmethod
    def forward(
        ctx: Any, rgb: Tensor, real: tuple[Tensor, Tensor | None], terms: LossTerms, factor: float, wanted: bool
    ) -> Tensor:
        target, weight = real
        count, height, width, _ = rgb.shape
        rows, none = (count, height, width * 3), (count, 0, 0)
        source = rgb.detach().float().reshape(rows)
        if target.dtype == torch.uint8:
            levels, values = target.reshape(rows), source.new_empty(none)
        else:
            levels, values = target.new_empty(none, dtype=torch.uint8), target.detach().float().reshape(rows)
        weights = source.new_empty(none) if weight is None else weight.detach().float()
        gradient = source.new_empty(rows if wanted else none)
        partial = np.empty(count * 2 * max(1, round(height / (2 * _STRIP))))
        batch = tuple(image.contiguous().numpy() for image in (source, levels, values))
        coefficients = tuple(np.float32(term * factor) for term in (terms.l1, terms.l2, terms.ssim))
        _cpu_kernels.strips(
            batch, weights.contiguous().numpy(), coefficients, gradient.numpy(), partial, _scratch(width * 3)
        )
        if wanted:
            ctx.save_for_backward(gradient.view(rgb.shape))
        ctx.dtype = rgb.dtype
        return torch.tensor(partial.sum(), dtype=rgb.dtype)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] - the decorator's type hides the override's.
        ctx: Any, upstream: Tensor
    ) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        scale = float(upstream)
        gradient = gradient if scale == 1.0 else gradient * scale
        return gradient.to(ctx.dtype), None, None, None, None


_local = threading.local()


def _scratch(row: int) -> np.ndarray:
    """[threads, size] float32 for rows of that many values, kept for the next call of this Python thread."""
    size = _cpu_kernels.scratch_size(row)
    held = getattr(_local, "scratch", None)
    if held is None or held.shape[1] < size:
        held = _local.scratch = np.zeros((get_thread_count(), size), np.float32)
    return held
