"""The 4D Gaussian model: one matrix of raw parameters."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recon4d.model._instant import Request, Slice, take_compiled, take_eager, view_vector
from recon4d.model._layout import Layout
from recon4d.types import Camera, DynamicPool, Scene4D, Splats, StaticPool

_FLOOR_M = 1e-8  # Smallest deviation that a logarithm is taken of.
_FLOOR_OPACITY = 1e-6  # Opacities stay this far from 0 and 1, where the logit ends.


class Gaussians4D:
    """Static and dynamic Gaussians as rows of ``params``, raw: logs of scales and durations, logits of opacities.

    Rows [0, n_static) are there for the whole clip, their temporal columns are zero; rows [n_static, N) follow the
    layout's motion model.

    Args:
        params: [N, D] float32 on any device, contiguous; kept, not copied.
        n_static: how many rows are static.
        sh_degree: degree of the spherical harmonics, 0 to 3.
        backend: "auto" takes the compiled kernels for parameters on the CPU and PyTorch elsewhere; "torch" forces
            PyTorch.

    Raises:
        ValueError: the matrix has not the layout's shape or type, or ``n_static`` is out of range.
    """

    def __init__(
        self, params: Tensor, n_static: int, sh_degree: int, *, backend: Literal["auto", "torch"] = "auto"
    ) -> None:
        self.layout = Layout(sh_degree)
        if params.ndim != 2 or params.shape[1] != self.layout.width or params.dtype != torch.float32:
            raise ValueError(
                f"params must be float32 [N, {self.layout.width}] at SH degree {sh_degree};"
                f" they are {params.dtype} {list(params.shape)}"
            )
        if not params.is_contiguous():
            raise ValueError("params must be contiguous; call .contiguous()")
        if not 0 <= n_static <= len(params):
            raise ValueError(f"n_static must lie in [0, {len(params)}]; it is {n_static}")
        if backend not in ("auto", "torch"):
            raise ValueError(f"backend must be 'auto' or 'torch'; it is '{backend}'")
        self.params = params
        self.n_static = n_static
        self.backend: Literal["auto", "torch"] = backend

    def __len__(self) -> int:
        return len(self.params)

    @property
    def sh_degree(self) -> int:
        """Degree of the spherical harmonics."""
        return self.layout.sh_degree

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return self.params.device

    @classmethod
    def from_scene(cls, scene: Scene4D) -> Gaussians4D:
        """The model of a scene, on the device of its tensors."""
        return cls.from_pools(scene.static, scene.dynamic)

    @classmethod
    def from_pools(cls, static: StaticPool, dynamic: DynamicPool) -> Gaussians4D:
        """Raw parameters of activated pools.

        Scales below 1e-8 m and durations below 1e-6 s are raised to these, opacities kept 1e-6 from 0 and 1.

        Raises:
            ValueError: the pools differ in SH degree, or it is not 0 to 3.
        """
        if static.sh.shape[1:] != dynamic.sh.shape[1:] or static.sh.shape[1] not in (1, 4, 9, 16):
            raise ValueError(
                "both pools must hold 1, 4, 9 or 16 SH coefficients;"
                f" they hold {static.sh.shape[1]} and {dynamic.sh.shape[1]}"
            )
        layout = Layout(round(static.sh.shape[1] ** 0.5) - 1)
        temporal = layout.motion.pack(dynamic)
        still = temporal.new_zeros(len(static), temporal.shape[1])
        rows = torch.cat([_raw(static, still), _raw(dynamic, temporal)])
        return cls(rows.detach(), len(static), layout.sh_degree)

    def to_pools(self) -> tuple[StaticPool, DynamicPool]:
        """Activated copies on the CPU; quaternions are made unit."""
        params = self.params.detach().cpu()
        columns = self.layout.columns
        shared = {
            "means": params[:, columns["mean"]].clone(),
            "quats": normalize(params[:, columns["quat"]], dim=1),
            "scales": params[:, columns["log_scale"]].exp(),
            "opacities": torch.sigmoid(params[:, columns["logit_opacity"]].squeeze(1)),
            "sh": params[:, self.layout.sh].reshape(len(params), self.layout.coefficients, 3).clone(),
        }
        n = self.n_static
        temporal = self.layout.motion.unpack(params[n:, self.layout.temporal])
        return (
            StaticPool(**{name: value[:n].clone() for name, value in shared.items()}),
            DynamicPool(**{name: value[n:].clone() for name, value in shared.items()}, **temporal),
        )

    def to(self, device: torch.device | str) -> Gaussians4D:
        """The same model with its parameters on another device."""
        return Gaussians4D(self.params.to(device), self.n_static, self.sh_degree, backend=self.backend)

    def at(self, t: float) -> Splats:
        """All rows that can be seen at time ``t`` (seconds), activated, without a graph.

        Rows whose opacity times visibility is below 1/255, the rasterizers' own cut, are left out; so are rows with
        a NaN where it would decide.
        """
        return self._take(Request(t=float(t))).splats

    def slice(
        self,
        t: float,
        camera: Camera | None = None,
        *,
        view: Tensor | None = None,
        opacity_cost: float = 0.0,
        static_opacity_cost: float = 0.0,
        room: int | None = None,
    ) -> Slice:
        """The rows that a training step at time ``t`` (seconds) concerns, as functions of a leaf.

        Args:
            t: the instant, seconds on the capture clock.
            camera: leaves out rows that no pixel of this camera, which may be a crop, can show. The bound is
                conservative: whatever a rasterizer would draw is kept.
            view: the camera's :func:`view_vector`, on the parameters' device, instead of the camera.
            opacity_cost: price that each dynamic row seen pays for its opacity at the instant, visibility taken as
                constant so that lives are not shortened to save it (the regulariser of FreeTimeGS, Wang et al. 2025).
                Its gradient is added in every backward pass, to rows which that pass reaches.
            static_opacity_cost: the same for static rows.
            room: take this many rows, so that no shape depends on what a device has computed and nothing waits for
                it; ``Slice.kept`` tells, on the device, how many it should have been. Not on the CPU's kernels.
        """
        return self._take(
            Request(
                t=float(t),
                view=view if camera is None else view_vector(camera),
                costs=(float(static_opacity_cost), float(opacity_cost)),
                train=True,
                room=room,
            )
        )

    def _take(self, request: Request) -> Slice:
        kernels = self.layout.motion.kernels
        on_cpu = self.backend == "auto" and self.params.device.type == "cpu"
        if on_cpu and kernels is not None and request.room is None:
            return take_compiled(self.params.detach(), self.n_static, self.layout, request, kernels)
        return take_eager(self.params.detach(), self.n_static, self.layout, request)


def _raw(pool: StaticPool | DynamicPool, temporal: Tensor) -> Tensor:
    """[n, D] raw rows of a pool."""
    opacity = pool.opacities.float().clamp(_FLOOR_OPACITY, 1 - _FLOOR_OPACITY)
    parts = [
        pool.means.float(),
        pool.quats.float(),
        pool.scales.float().clamp_min(_FLOOR_M).log(),
        torch.logit(opacity)[:, None],
        pool.sh.float().flatten(1),
        temporal,
    ]
    return torch.cat(parts, 1)
