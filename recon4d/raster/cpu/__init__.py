"""The CPU backend: compiled kernels with explicit vectors, threaded, the same bits for any number of threads.

Takes and gives float32 tensors on the CPU. Owns the projection, the tile lists, the blending and all their gradients;
it does not check its input (the room's door does).

A call runs: project -> order_by_depth -> fill_tiles -> blend, and back: blend_gradient -> project_gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon4d.errors import BackendError
from recon4d.raster import _contract as contract
from recon4d.raster._contract import Ready, Request
from recon4d.raster.cpu import _bins, _project, _tiles
from recon4d.raster.cpu._rules import RULES
from recon4d.raster.cpu._workspace import Lease
from recon4d.raster.cpu._worlds import render_worlds
from recon4d.types import RenderOutput

__all__ = ["DEVICES", "render", "render_worlds", "status"]

DEVICES = ("cpu",)

_f4 = np.float32
_MAX_PAIRS = 2**31 - 1
_NO_RGB, _NO_ALPHA = np.empty((0, 0, 3), np.float32), np.empty((0, 0), np.float32)


def status() -> Ready:
    """Always ready: Numba is a dependency of the package."""
    return Ready("compiled on first use, then cached on disk")


def render(request: Request) -> RenderOutput:
    """Draws on the CPU; see :func:`recon4d.raster.rasterize`."""
    splats, cameras = request.splats, request.cameras
    attributes = [t.contiguous() for t in (splats.means, splats.quats, splats.scales, splats.opacities, splats.sh)]
    rgb, alpha, depth = _Render.apply(request, cameras.viewmats, *attributes)
    return RenderOutput(rgb=rgb, alpha=alpha, depth=depth)


@dataclass(frozen=True)
class _View:
    """One rendered camera: what the gradient needs again."""

    lease: Lease
    view: np.ndarray
    camera: tuple
    records: np.ndarray
    keys: np.ndarray
    rects: np.ndarray
    bases: np.ndarray
    lists: tuple[np.ndarray, np.ndarray, int]
    reached: tuple[np.ndarray, np.ndarray]


class _Render(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, request: Request, viewmats: Tensor, *attributes: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        cameras = request.cameras
        shape = (len(cameras), cameras.height, cameras.width)
        rgb, alpha = torch.empty(*shape, 3), torch.empty(shape)
        depth = torch.empty(shape) if request.depth else None
        arrays = tuple(t.detach().numpy() for t in attributes)
        images = [_slices(t, len(cameras)) for t in (rgb, alpha, depth)]
        views = [_draw(request, c, arrays, (images[0][c], images[1][c], images[2][c])) for c in range(len(cameras))]
        if any(ctx.needs_input_grad):
            ctx.views, ctx.antialiased = views, request.antialiased
            ctx.save_for_backward(viewmats, *attributes, rgb, alpha, *([depth] if depth is not None else []))
            ctx.set_materialize_grads(False)
        return rgb, alpha, depth

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *g_images: Tensor | None) -> tuple:  # type: ignore[reportIncompatibleMethodOverride]
        viewmats, means, quats, scales, opacities, sh, *images = ctx.saved_tensors
        attributes = (means, quats, scales, opacities, sh)
        g_attributes = tuple(torch.empty_like(t) for t in attributes)
        g_views = torch.zeros_like(viewmats) if ctx.needs_input_grad[1] else None
        cameras = len(ctx.views)
        images = [_slices(t, cameras) for t in (*images, None)[:3]]
        gradients = [_slices(None if t is None else t.contiguous(), cameras) for t in g_images]
        arrays = tuple(t.detach().numpy() for t in attributes)
        outputs = tuple(t.numpy() for t in g_attributes)
        for c, view in enumerate(ctx.views):
            flags = (ctx.antialiased, c > 0, g_views is not None)
            pose = _differentiate(
                view, arrays, tuple(i[c] for i in images), tuple(g[c] for g in gradients), outputs, flags
            )
            if g_views is not None:
                g_views[c, :3] = torch.from_numpy(pose.sum(0))
        return (None, g_views, *(g if n else None for g, n in zip(g_attributes, ctx.needs_input_grad[2:], strict=True)))


def _slices(images: Tensor | None, cameras: int) -> list[np.ndarray | None]:
    return [None] * cameras if images is None else list(images.detach().numpy())


def _draw(request: Request, c: int, arrays: tuple, images: tuple) -> _View:
    """Renders camera ``c`` into ``images``."""
    width, height = request.cameras.width, request.cameras.height
    view = np.ascontiguousarray(request.cameras.viewmats[c].detach().numpy())
    camera = _camera(request.cameras.Ks[c].tolist(), width, height)
    lease = Lease()
    array = lease.workspace.array
    count = len(arrays[0])
    records = array("records", (count, _tiles.RECORD), np.float32)
    keys, tile_counts = array("keys", (count,), np.uint32), array("tile_counts", (count,), np.int32)
    rects = array("rects", (count, 4), np.int16)
    order, bases = array("order", (count,), np.int32), array("bases", (count + 1,), np.int64)
    _project.project(
        arrays, view, camera, _LIMITS, request.antialiased, (width, height), records, (keys, rects, tile_counts)
    )
    visible = _bins.order_by_depth(keys, tile_counts, order, array("scratch", (3, count), np.uint32), bases)
    pairs = int(bases[-1])
    if pairs > _MAX_PAIRS:
        raise BackendError(
            f"{visible} visible splats touch {pairs} tiles together, the cpu backend lists at most {_MAX_PAIRS};"
            " their scales are too large for the image: prune or shrink them"
        )
    columns = -(-width // _tiles.TILE)
    tiles = columns * -(-height // _tiles.TILE)
    offsets, entries = array("offsets", (tiles + 1,), np.int64), array("entries", (pairs,), np.int32)
    counts = array("counts", (_bins.CHUNKS, tiles), np.int32)
    _bins.fill_tiles(order, visible, rects, columns, counts, offsets, entries)
    lists = (offsets, entries, _stride(tiles))
    reached = (array("hits", (pairs,), np.uint16), array("last", (tiles,), np.int64))
    rgb, alpha, depth = images
    _tiles.blend(lists, records, RULES, request.background.detach().numpy(), (rgb, alpha), depth, reached)
    return _View(lease, view, camera, records, keys, rects, bases, lists, reached)


def _differentiate(
    view: _View, arrays: tuple, images: tuple, g_images: tuple, g_arrays: tuple, flags: tuple
) -> np.ndarray:
    """Sets or adds one camera's gradients; returns the pose gradient's partial sums."""
    array = view.lease.workspace.array
    sums = array("sums", (int(view.bases[-1]), _tiles.SLOT), np.float32)
    pose = array("pose", (_project.CHUNKS, 3, 4), np.float64)
    rgb, alpha, depth = images
    g_rgb, g_alpha, g_depth = g_images
    colours = (rgb, alpha, _NO_RGB if g_rgb is None else g_rgb, _NO_ALPHA if g_alpha is None else g_alpha)
    depths = None if g_depth is None else (depth, g_depth)
    slots = (view.bases, view.rects)
    _tiles.blend_gradient(view.lists, view.records, slots, RULES, colours, depths, view.reached, sums)
    _project.project_gradient(
        arrays, view.view, view.camera, _LIMITS, flags, view.records, (view.keys, view.bases, sums), (*g_arrays, pose)
    )
    return pose


def _camera(K: list[list[float]], width: int, height: int) -> tuple:
    fx, fy, cx, cy = K[0][0], K[1][1], K[0][2], K[1][2]
    limit_x = contract.FOV_MARGIN * max(cx, width - cx) / fx
    limit_y = contract.FOV_MARGIN * max(cy, height - cy) / fy
    return tuple(_f4(v) for v in (fx, fy, cx, cy, limit_x, limit_y))


@lru_cache(maxsize=64)
def _stride(tiles: int) -> int:
    """A step near the golden section of the tiles and coprime to them."""
    step = max(1, round(0.618 * tiles))
    while math.gcd(step, tiles) != 1:
        step += 1
    return step


_LIMITS = tuple(
    _f4(v)
    for v in (
        contract.NEAR_M,
        contract.DILATION_PX2,
        contract.ALPHA_MIN,
        contract.MIN_QUAT_NORM**2,
        contract.MAX_VARIANCE_PX2,
        contract.MAX_VALUE,
    )
)
