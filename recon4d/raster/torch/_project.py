"""Splats on the image plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from recon4d.geometry import quat_to_matrix
from recon4d.raster import _contract as contract
from recon4d.types import Cameras, Splats

TILE = 8
"""Pixels along a tile's side. Smaller tiles make the lists of neighbours more alike, so fewer lanes idle."""
_ATTRIBUTES = ("means", "quats", "scales", "opacities", "sh")


@dataclass(frozen=True)
class Camera:
    """Intrinsics as 0-dim tensors on the device, so that nobody has to fetch them."""

    fx: Tensor
    fy: Tensor
    cx: Tensor
    cy: Tensor
    width: int
    height: int

    @classmethod
    def of(cls, cameras: Cameras, c: int) -> Camera:
        K = cameras.Ks[c].detach()
        return cls(K[0, 0], K[1, 1], K[0, 2], K[1, 2], cameras.width, cameras.height)

    @property
    def limits(self) -> tuple[Tensor, Tensor]:
        x = contract.FOV_MARGIN * torch.maximum(self.cx, self.width - self.cx) / self.fx
        return x, contract.FOV_MARGIN * torch.maximum(self.cy, self.height - self.cy) / self.fy

    @property
    def tiles(self) -> tuple[int, int]:
        """Columns and lines of tiles."""
        return -(-self.width // TILE), -(-self.height // TILE)


class Flat(NamedTuple):
    """Splats on the image plane."""

    centres: Tensor
    """[N, 2] pixels."""
    variances: Tensor
    """[N, 2] px^2, after dilation."""
    conics: Tensor
    """[N, 3] entries xx, xy, yy of the inverse covariance."""
    opacities: Tensor
    """[N], after compensation."""
    z: Tensor
    """[N] metres."""


def usable(splats: Splats, view: Tensor) -> Tensor:
    """[N] bool: finite splats in front of the near plane; a NaN fails every comparison."""
    usable = splats.means @ view[2, :3] + view[2, 3] > contract.NEAR_M
    usable &= splats.quats.square().sum(1) >= contract.MIN_QUAT_NORM**2
    for values in (splats.means, splats.quats, splats.scales, splats.opacities[:, None], splats.sh.flatten(1)):
        usable &= values.abs().sum(1) <= contract.MAX_VALUE
    return usable


def take(splats: Splats, index: Tensor) -> Splats:
    return Splats(**{name: getattr(splats, name).index_select(0, index) for name in _ATTRIBUTES})


def harmless(splats: Splats, keep: Tensor, view: Tensor) -> Splats:
    """The splats with those that are not kept exchanged for small ones a metre in front of the camera."""
    place = (view[2, :3] - view[:3, 3] @ view[:3, :3]).expand_as(splats.means)
    upright = torch.zeros_like(splats.quats)
    upright[:, 0] = 1.0
    return Splats(
        means=torch.where(keep[:, None], splats.means, place),
        quats=torch.where(keep[:, None], splats.quats, upright),
        scales=torch.where(keep[:, None], splats.scales, 0.01),
        opacities=torch.where(keep, splats.opacities, 0.5),
        sh=torch.where(keep[:, None, None], splats.sh, 0.0),
    )


def project(splats: Splats, view: Tensor, camera: Camera, antialiased: bool) -> Flat:
    R = view[:3, :3]
    x, y, z = (splats.means @ R.T + view[:3, 3]).unbind(-1)
    limit_x, limit_y = camera.limits
    u, v = x / z, y / z
    rows_x = (camera.fx / z)[:, None] * (R[0] - u.clamp(-limit_x, limit_x)[:, None] * R[2])
    rows_y = (camera.fy / z)[:, None] * (R[1] - v.clamp(-limit_y, limit_y)[:, None] * R[2])
    axes = quat_to_matrix(splats.quats) * splats.scales[:, None, :]
    root_x, root_y = (rows_x[:, :, None] * axes).sum(1), (rows_y[:, :, None] * axes).sum(1)
    xx, xy, yy = root_x.square().sum(-1), (root_x * root_y).sum(-1), root_y.square().sum(-1)
    # The squared cross product is the determinant without the cancellation of xx yy - xy xy.
    sharp = torch.linalg.cross(root_x, root_y).square().sum(-1)
    grown = contract.DILATION_PX2
    det = sharp + grown * (xx + yy + grown)
    opacities = splats.opacities
    if antialiased:
        opacities = opacities * (sharp / det).clamp_min(1e-12).sqrt()
    return Flat(
        centres=torch.stack([camera.fx * u + camera.cx, camera.fy * v + camera.cy], -1),
        variances=torch.stack([xx + grown, yy + grown], -1),
        conics=torch.stack([yy + grown, -xy, xx + grown], -1) / det[:, None],
        opacities=opacities,
        z=z,
    )


def tile_rects(flat: Flat, camera: Camera) -> tuple[Tensor, Tensor]:
    """Which splats are drawn [N], and the tiles that each may touch [N, 4] int64: x0, y0, x1, y1, ends included."""
    reach = (2 * torch.log(flat.opacities / contract.ALPHA_MIN)).clamp_min(0).sqrt()[:, None] * flat.variances.sqrt()
    # Pixel centres lie half a pixel in.
    first = (flat.centres - reach - 0.5).ceil()
    last = (flat.centres + reach - 0.5).floor()
    drawn = (flat.opacities >= contract.ALPHA_MIN) & (flat.variances <= contract.MAX_VARIANCE_PX2).all(1)
    drawn &= ((last >= first) & (last >= 0)).all(1) & (first[:, 0] < camera.width) & (first[:, 1] < camera.height)
    x1, y1 = last[:, 0].clamp_max(camera.width - 1), last[:, 1].clamp_max(camera.height - 1)
    rects = torch.cat([first.clamp_min(0), x1[:, None], y1[:, None]], 1)
    rects = torch.where(drawn[:, None], rects, 0.0).long()
    return drawn, torch.div(rects, TILE, rounding_mode="floor")
