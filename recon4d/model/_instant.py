"""One instant of the model: which rows are alive and in view, activated, and the way back to the raw parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from recon4d.model import _kernels, _torch
from recon4d.model._layout import Layout
from recon4d.model.motion import MotionKernels
from recon4d.types import Camera, Splats


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The part of the model that one training step touches."""

    splats: Splats
    """The rows in ``rows``, activated; differentiable functions of ``leaf``."""
    rows: Tensor
    """[n] int64, ascending: the rows of ``params`` that are alive at the instant and may be seen by the camera."""
    leaf: Tensor
    """[n, D] float32 copy of those rows, the leaf of the autograd graph."""
    kept: Tensor | None = None
    """With a room: 0-dim int64, how many rows are alive and may be seen. ``rows`` holds these, as many as there is room
    for; the others that fill the room are zeros of opacity 0."""

    def __len__(self) -> int:
        return self.leaf.shape[0]

    def gradient(self) -> Tensor:
        """[n, D] gradient of the raw parameters, opacity costs included; a row of zeros was not seen.

        Raises:
            RuntimeError: no backward pass has reached the splats.
        """
        if self.leaf.grad is None:
            if len(self) == 0:
                return torch.zeros_like(self.leaf)
            raise RuntimeError("the slice has no gradient yet; call backward on a loss that depends on slice.splats")
        return self.leaf.grad


@dataclass(frozen=True, kw_only=True)
class Request:
    """What an instant is asked for; ``train`` asks for a graph."""

    t: float
    view: np.ndarray | Tensor | None = None
    """A ``view_vector``; for a room on the parameters' device."""
    costs: tuple[float, float] = (0.0, 0.0)
    train: bool = False
    room: int | None = None
    """How many rows to take, whatever they are: no shape then depends on what a device has computed."""


def view_vector(camera: Camera | None) -> np.ndarray:
    """[20] float32: rows of the pose (12), fx, fy, cx, cy, width, height, and the slopes at which rasterizers clamp
    the Jacobian, 1.3 times the wider half field of view about the principal point. Empty without a camera."""
    if camera is None:
        return np.zeros(0, np.float32)
    fx, fy, cx, cy = camera.K[0, 0], camera.K[1, 1], camera.K[0, 2], camera.K[1, 2]
    clamps = 1.3 * max(cx, camera.width - cx) / fx, 1.3 * max(cy, camera.height - cy) / fy
    intrinsics = [fx, fy, cx, cy, camera.width, camera.height, *clamps]
    return np.concatenate([camera.T_cam_world[:3].ravel(), intrinsics]).astype(np.float32)


def take_eager(params: Tensor, n_static: int, layout: Layout, request: Request) -> Slice:
    """The instant in plain PyTorch, on the parameters' device."""
    with torch.no_grad():
        keep = _torch.keeps(params, _torch.still_rows(params, n_static), layout, request.t, _on(params, request.view))
        if request.room is None:
            rows, kept = keep.nonzero().squeeze(1), None
            leaf, seen = params[rows], None
        else:
            rows, kept = _torch.kept_first(keep, request.room), keep.sum()
            seen = keep[rows]
            leaf = torch.where(seen[:, None], params[rows], 0.0)
        still = rows < n_static
    leaf.requires_grad_(request.train)
    *values, visibility = _torch.activate(leaf, still, layout, request.t, seen)
    if request.train and any(request.costs):
        visibility = visibility.detach()
        leaf.register_hook(lambda g: _torch.add_cost(g, leaf.detach(), visibility, still, layout, request.costs))
    return Slice(splats=_splats(values, rows), rows=rows, leaf=leaf, kept=kept)


def _on(params: Tensor, view: np.ndarray | Tensor | None) -> Tensor | None:
    """The view where the parameters are."""
    return torch.from_numpy(view).to(params.device) if isinstance(view, np.ndarray) else view


def take_compiled(params: Tensor, n_static: int, layout: Layout, request: Request, motion: MotionKernels) -> Slice:
    """The instant through the CPU kernels."""
    matrix = params.numpy()
    n, width = matrix.shape
    t, first = np.float32(request.t), layout.temporal.start
    moved = np.empty((n - n_static, 4), np.float32)
    motion.displace(matrix, n_static, first, t, moved)
    kept, counts = np.empty(n, np.int32), np.empty(-(-n // _kernels.CHUNK), np.int32)
    view = request.view if request.view is not None else view_vector(None)
    _kernels.select(matrix, n_static, moved, np.asarray(view), kept, counts)
    found = int(counts.sum())

    rows = torch.empty(found, dtype=torch.int64)
    leaf, visibility = torch.empty(found, width), np.empty(found, np.float32)
    shapes = ((found, 3), (found, 4), (found, 3), (found,), (found, layout.coefficients, 3))
    values = tuple(torch.empty(shape) for shape in shapes)
    gathered = (rows.numpy(), leaf.numpy(), visibility)
    _kernels.activate(matrix, n_static, moved, kept, counts, gathered, _flat(values))
    alive = int(np.searchsorted(gathered[0], n_static))
    if request.train:
        leaf.requires_grad_()
        way_back = _WayBack(
            n_static=alive, first=first, t=t, visibility=visibility, costs=request.costs, pull_back=motion.pull_back
        )
        values = _Activate.apply(leaf, values, way_back)
    return Slice(splats=_splats(values, rows), rows=rows, leaf=leaf)


@dataclass(frozen=True, kw_only=True)
class _WayBack:
    """What the chain rule needs beside the tensors."""

    n_static: int
    first: int
    t: np.float32
    visibility: np.ndarray
    costs: tuple[float, float]
    pull_back: Any


class _Activate(torch.autograd.Function):
    """Ties activated values, already computed by a kernel, to the leaf that they came from."""

    @staticmethod
    def forward(ctx: Any, leaf: Tensor, values: tuple[Tensor, ...], way_back: _WayBack) -> tuple[Tensor, ...]:
        means, quats, scales, opacities, sh = values
        ctx.save_for_backward(leaf, scales, opacities)
        ctx.way_back = way_back
        return means, quats, scales, opacities, sh

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] - the decorator's type hides the override's.
        ctx: Any, *upstream: Tensor
    ) -> tuple[Tensor, None, None]:
        leaf, scales, opacities = (saved.detach().numpy() for saved in ctx.saved_tensors)
        way: _WayBack = ctx.way_back
        gradient = torch.empty(leaf.shape)
        matrix, g_visibility = gradient.numpy(), np.empty(len(leaf), np.float32)
        pulls = _flat(tuple(g.contiguous() for g in upstream))
        activated = (scales, opacities, way.visibility)
        _kernels.chain(activated, pulls, way.n_static, np.asarray(way.costs, np.float32), matrix, g_visibility)
        way.pull_back(leaf, way.n_static, way.first, way.t, pulls[0], g_visibility, matrix)
        return gradient, None, None


def _flat(values: tuple[Tensor, ...]) -> tuple[np.ndarray, ...]:
    """NumPy views of means, quats, scales, opacities and sh, the last as [n, 3 K]."""
    *others, sh = values
    return *(value.numpy() for value in others), sh.numpy().reshape(len(sh), sh.shape[1] * 3)


def _splats(values: Any, rows: Tensor) -> Splats:
    means, quats, scales, opacities, sh = values
    return Splats(means=means, quats=quats, scales=scales, opacities=opacities, sh=sh, rows=rows)
