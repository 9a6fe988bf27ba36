"""What every backend draws: the numbers of the image formation model, and the request that a backend is handed.

For each camera, splats are projected with the affine approximation of EWA splatting (Zwicker et al. 2002) and blended
front to back as in 3D Gaussian splatting (Kerbl et al. 2023):

- a splat is drawn if it is finite, its quaternion is no shorter than ``MIN_QUAT_NORM``, its centre is farther than
  ``NEAR_M``, its variance in the image along x and along y is at most ``MAX_VARIANCE_PX2``, and its opacity reaches
  ``ALPHA_MIN``; others are skipped, with zero gradient;
- the Jacobian is taken at x/z and y/z clamped to ``FOV_MARGIN`` times the wider half of the field of view about the
  principal point; the covariance grows by ``DILATION_PX2`` on its diagonal;
- ``antialiased`` multiplies the opacity by sqrt(det before / det after) the dilation (Yu et al. 2024);
- alpha = min(opacity * exp(-d' conic d / 2), ``ALPHA_MAX``), nothing below ``ALPHA_MIN``;
- splats are ordered by camera-z, ties by index; the one that would bring transmittance to ``MIN_TRANSMITTANCE`` or
  below is not drawn and ends the pixel;
- colour = max(SH(direction from the camera centre to the mean) + 0.5, 0), the centre being -R' t of the view matrix;
- depth = accumulated camera-z / alpha, 0 where alpha < ``MIN_DEPTH_ALPHA``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from recon4d.raster._plan import Plan
from recon4d.raster._records import WorldCache, WorldImages, WorldSplats
from recon4d.types import Cameras, RenderOutput, Splats

NEAR_M = 0.01
FOV_MARGIN = 1.3
DILATION_PX2 = 0.3
ALPHA_MIN = 1.0 / 255.0
ALPHA_MAX = 0.999
MIN_TRANSMITTANCE = 1e-4
MIN_DEPTH_ALPHA = 1e-3
MIN_LABEL_ALPHA = 0.5
"""Where less is covered, a pixel shows no body: its label is -1."""
MIN_QUAT_NORM = 1e-6
MAX_VARIANCE_PX2 = 1e10
"""Beyond a standard deviation of 1e5 pixels float32 cannot hold the conic; such a splat is a runaway, not a surface."""
MAX_VALUE = 1e18
"""Inputs of larger magnitude are taken as not finite: their squares leave float32."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One checked call: tensors share a device and, for the CPU kernels, are float32."""

    splats: Splats
    cameras: Cameras
    background: Tensor
    """[3], on the splats' device, without gradient."""
    depth: bool
    """Whether depth is wanted; rgb and alpha always are."""
    antialiased: bool
    plans: tuple[Plan, ...] | None = None
    """One a camera, for backends that have a ``survey``; the call must then not wait for the device."""


@dataclass(frozen=True)
class Ready:
    """The backend can be used here."""

    detail: str = ""


@dataclass(frozen=True)
class Missing:
    """The backend cannot be used here, and why."""

    reason: str


class Backend(Protocol):
    """What a backend module offers."""

    @property
    def DEVICES(self) -> tuple[str, ...]:
        """torch device types it accepts; ("*",) is any."""
        ...

    def status(self) -> Ready | Missing:
        """Whether it can be used here. Must not raise, compile or touch a device."""
        ...

    def render(self, request: Request) -> RenderOutput:
        """Draws the request: rgb and alpha always, depth when asked."""
        ...


@runtime_checkable
class Planning(Protocol):
    """What a backend offers beside that if it can draw without ever waiting for the device."""

    def survey(self, request: Request) -> Tensor:
        """[C, 1 + tiles] int64, see :func:`recon4d.raster.survey`; must not wait for the device."""
        ...


@dataclass(frozen=True, kw_only=True)
class WorldRequest:
    """One checked call of :func:`recon4d.raster.render_worlds`. Poses, cameras and exposures are float64 on the CPU,
    where physics leaves them; the products of poses and view matrices keep their digits there."""

    splats: WorldSplats
    poses: Tensor
    """[W, B, 4, 4] world from body; body 0 stands still."""
    viewmats: Tensor
    """[W, C, 4, 4] or [1, C, 4, 4]."""
    Ks: Tensor
    """[W, C, 3, 3] or [1, C, 3, 3]."""
    exposures: Tensor
    """[W, C]."""
    background: Tensor
    """[3] float32 on the CPU."""
    images: WorldImages
    """Written, rows of the drawn worlds only; what is not wanted is None."""
    worlds: tuple[int, ...]
    """Which worlds are drawn."""
    cache: WorldCache | None
    memory_bytes: int
    antialiased: bool

    def camera(self, world: int, c: int) -> tuple[Tensor, Tensor]:
        """View matrix [4, 4] and K [3, 3] of a world's camera."""
        return self.viewmats[world % len(self.viewmats), c], self.Ks[world % len(self.Ks), c]

    def is_fixed(self, c: int) -> bool:
        """Whether a camera stands in the same place in all worlds that are drawn."""
        worlds = list(self.worlds)
        if len(worlds) == 0:
            return True
        views = self.viewmats[worlds, c] if len(self.viewmats) > 1 else self.viewmats[:, c]
        Ks = self.Ks[worlds, c] if len(self.Ks) > 1 else self.Ks[:, c]
        return bool((views == views[:1]).all() and (Ks == Ks[:1]).all())


@runtime_checkable
class Worlds(Protocol):
    """What a backend offers beside ``render`` if it can draw many worlds of the same splats by itself."""

    def render_worlds(self, request: WorldRequest) -> None:
        """Fills ``request.images``."""
        ...
