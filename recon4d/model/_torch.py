"""The instant in plain PyTorch: any device, and the readable twin of :mod:`recon4d.model._kernels`."""

from __future__ import annotations

import torch
from torch import Tensor

from recon4d.model._layout import Layout

CUT = 1 / 255
NEAR_M = 0.01
DILATION_PX2 = 0.3
REACH = 3.35  # Deviations at which a Gaussian of opacity 1 is below 1/255 (3.329), and a margin for rounding.


def still_rows(params: Tensor, n_static: int) -> Tensor:
    """[n] bool: which rows are static."""
    return torch.arange(len(params), device=params.device) < n_static


def keeps(params: Tensor, still: Tensor, layout: Layout, t: float, view: Tensor | None) -> Tensor:
    """[n] bool: rows that can be drawn at ``t``."""
    means, visibility = place(params, still, layout, t)
    keep = torch.sigmoid(params[:, layout.columns["logit_opacity"]].squeeze(1)) * visibility >= CUT
    if view is not None:
        keep &= reaches(means, params[:, layout.columns["log_scale"]].amax(1).exp(), view)
    return keep


def kept_first(keep: Tensor, room: int) -> Tensor:
    """[room] int64 different rows, those that are kept first, in ascending order; all rows when there is room."""
    index = torch.arange(len(keep), device=keep.device)
    if room >= len(keep):
        return index
    return torch.sort(torch.where(keep, index, index + len(keep))).indices[:room]


def place(params: Tensor, still: Tensor, layout: Layout, t: float) -> tuple[Tensor, Tensor]:
    """Means [n, 3] and visibility [n] at ``t``; rows that are ``still`` [n] stay and are seen; differentiable."""
    offsets, visibility = layout.motion.displace(params[:, layout.temporal], t)
    means = params[:, layout.columns["mean"]] + torch.where(still[:, None], 0.0, offsets)
    return means, torch.where(still, 1.0, visibility)


def reaches(means: Tensor, largest: Tensor, view: Tensor) -> Tensor:
    """[n] bool: whether Gaussians of that largest deviation can touch a pixel (``view`` is a ``view_vector``)."""
    cam = means @ view[:12].reshape(3, 4)[:, :3].T + view[:12].reshape(3, 4)[:, 3]
    depth = cam[:, 2:]
    in_front = depth.squeeze(1) > NEAR_M
    slope = cam[:, :2] / depth
    pixel = view[12:14] * slope + view[14:16]
    slope = torch.minimum(slope.abs(), view[18:20])
    variance = (largest[:, None] / depth * view[12:14]) ** 2 * (1 + slope**2) + DILATION_PX2
    reach = REACH * variance.sqrt()
    return in_front & ((pixel >= -reach) & (pixel <= view[16:18] + reach)).all(1)


def activate(leaf: Tensor, still: Tensor, layout: Layout, t: float, seen: Tensor | None) -> tuple[Tensor, ...]:
    """Means, quats, scales, opacities, sh of the gathered rows, and their visibility; differentiable in ``leaf``.

    Rows that are not ``seen`` [n] get opacity 0.
    """
    columns = layout.columns
    means, visibility = place(leaf, still, layout, t)
    opacities = torch.sigmoid(leaf[:, columns["logit_opacity"]].squeeze(1)) * visibility
    if seen is not None:
        opacities = torch.where(seen, opacities, 0.0)
    sh = leaf[:, layout.sh].reshape(len(leaf), layout.coefficients, 3)
    return means, leaf[:, columns["quat"]], leaf[:, columns["log_scale"]].exp(), opacities, sh, visibility


def add_cost(
    gradient: Tensor, leaf: Tensor, visibility: Tensor, still: Tensor, layout: Layout, costs: tuple[float, float]
) -> Tensor:
    """The gradient with the price of opacity added where a row has any gradient at all."""
    opacity = torch.sigmoid(leaf[:, layout.columns["logit_opacity"]].squeeze(1))
    price = torch.where(still, costs[0], torch.full_like(opacity, costs[1]))
    added = torch.zeros_like(gradient)
    seen = (gradient != 0).any(1)
    added[:, layout.columns["logit_opacity"]] = (seen * price * visibility * opacity * (1 - opacity))[:, None]
    return gradient + added
