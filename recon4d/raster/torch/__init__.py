"""The portable backend: plain PyTorch on whatever device the tensors are on.

The k-th splats of all tiles are blended at once, in lock step. A splat's exponent is a quadratic in the pixel's place
within its tile, so one matrix product gives all exponents of a step, and the transposed product gives back the six
moments that its gradient needs. The backward pass is written by hand: it replays the forward order and carries the
gradient-weighted colour still to come, so nothing of the size (splats x pixels) is ever kept.

Only sort, searchsorted, gather, matmul, exp, elementwise operations and index_add are used, in the input's dtype and
int64: accelerators without float64 or custom operators can run it. Given plans, no shape depends on what a device
has computed, so the host never waits. Keep reduced-precision matrix products (TF32 and the like) switched off.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recon4d.geometry import sh_basis
from recon4d.raster import _contract as contract
from recon4d.raster._contract import Ready, Request
from recon4d.raster._plan import Plan
from recon4d.raster.torch._blend import Blend
from recon4d.raster.torch._lists import list_lengths, tile_lists
from recon4d.raster.torch._project import Camera, harmless, project, take, tile_rects, usable
from recon4d.raster.torch._worlds import render_worlds
from recon4d.types import RenderOutput, Splats

__all__ = ["DEVICES", "render", "render_worlds", "status", "survey"]

DEVICES = ("*",)


def status() -> Ready:
    """Always ready."""
    return Ready("any torch device")


def render(request: Request) -> RenderOutput:
    """Draws on the splats' device; see :func:`recon4d.raster.rasterize`."""
    # Of no splats there is nothing to wait for.
    plans = request.plans if request.plans and len(request.splats) else (None,) * len(request.cameras)
    images = [_render_one(request, c, plan) for c, plan in enumerate(plans)]
    rgb, alpha, depth, overflow = zip(*images, strict=True)
    return RenderOutput(
        rgb=torch.stack(rgb),
        alpha=torch.stack(alpha),
        depth=torch.stack(depth) if request.depth else None,
        overflow=torch.stack(overflow).any() if request.plans else None,
    )


def survey(request: Request) -> Tensor:
    """See :func:`recon4d.raster.survey`."""
    return torch.stack([_survey_one(request, c) for c in range(len(request.cameras))])


def _survey_one(request: Request, c: int) -> Tensor:
    view, camera = request.cameras.viewmats[c], Camera.of(request.cameras, c)
    safe = usable(request.splats, view)
    flat = project(harmless(request.splats, safe, view), view, camera, request.antialiased)
    drawn, rects = tile_rects(flat, camera)
    lengths = list_lengths(rects, drawn & safe, camera)
    return torch.cat([lengths.sum()[None], torch.sort(lengths, descending=True).values])


def _render_one(request: Request, c: int, plan: Plan | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    view, camera = request.cameras.viewmats[c], Camera.of(request.cameras, c)
    with torch.no_grad():
        splats, order, drawn, rects = _in_order(request, view.detach(), camera, plan)
        lists = tile_lists(rects, drawn, camera, plan)
    # Again, with gradients, for the drawn splats alone: no other can put a NaN into a gradient.
    splats = take(splats, order) if plan is None else harmless(take(splats, order), drawn, view.detach())
    flat = project(splats, view, camera, request.antialiased)
    directions = torch.nn.functional.normalize(splats.means + view[:3, 3] @ view[:3, :3], dim=-1)
    channels = ((sh_basis(directions, splats.sh_degree)[..., None] * splats.sh).sum(1) + 0.5).clamp_min(0)
    if request.depth:
        channels = torch.cat([channels, flat.z[:, None]], 1)
    blended, through = Blend.apply(lists, flat.centres, flat.conics, flat.opacities, channels)
    rgb = blended[..., :3] + through[..., None] * request.background
    alpha = 1 - through
    if not request.depth:
        return rgb, alpha, alpha, lists.overflow
    opaque = alpha >= contract.MIN_DEPTH_ALPHA
    return rgb, alpha, torch.where(opaque, blended[..., 3] / torch.where(opaque, alpha, 1.0), 0.0), lists.overflow


def _in_order(
    request: Request, view: Tensor, camera: Camera, plan: Plan | None
) -> tuple[Splats, Tensor, Tensor, Tensor]:
    """Splats, the order [n] in which they are drawn, whether each is drawn [n] and its tiles [n, 4].

    Without a plan, what is not drawn is left out. With one, it stays, behind all others.
    """
    if plan is None:
        safe = usable(request.splats, view).nonzero().squeeze(1)
        splats = take(request.splats, safe)
        flat = project(splats, view, camera, request.antialiased)
        drawn, rects = tile_rects(flat, camera)
        index = drawn.nonzero().squeeze(1)
        order = index[torch.sort(flat.z[index], stable=True).indices]
        return request.splats, safe[order], drawn[order], rects[order]
    safe = usable(request.splats, view)
    flat = project(harmless(request.splats, safe, view), view, camera, request.antialiased)
    drawn, rects = tile_rects(flat, camera)
    drawn &= safe
    order = torch.sort(torch.where(drawn, flat.z, torch.inf), stable=True).indices
    return request.splats, order, drawn[order], rects[order]
