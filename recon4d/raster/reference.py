"""The reference backend: every splat against every pixel, in float64, by autograd. It defines the result.

Memory grows with splats x pixels; it is for tests and for reading.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recon4d.geometry import quat_to_matrix, sh_basis
from recon4d.raster import _contract as contract
from recon4d.raster._contract import Ready, Request
from recon4d.types import RenderOutput, Splats

DEVICES = ("cpu",)


def status() -> Ready:
    """Always ready."""
    return Ready("dense and slow; for tests")


def render(request: Request) -> RenderOutput:
    """Draws densely; outputs have the dtype of the input."""
    dtype = request.splats.means.dtype
    cameras = request.cameras
    images = [
        _render_one(request, view.double(), K.double()) for view, K in zip(cameras.viewmats, cameras.Ks, strict=True)
    ]
    rgb, alpha, depth = (torch.stack(maps).to(dtype) for maps in zip(*images, strict=True))
    return RenderOutput(rgb=rgb, alpha=alpha, depth=depth if request.depth else None)


def uncertain_pixels(request: Request, band: float = 1e-4) -> Tensor:
    """[C, H, W] bool: pixels where rounding may decide what is drawn, which comparisons should leave out.

    There, some splat's alpha is within a relative ``band`` of a threshold, or the transmittance within it of the one
    that ends the pixel, or alpha of the one that has depth.
    """
    masks = []
    with torch.no_grad():
        for view, K in zip(request.cameras.viewmats, request.cameras.Ks, strict=True):
            layers = _layers(request, view.double(), K.double())
            unsure = _near(layers.alphas, contract.ALPHA_MIN, band) | _near(layers.alphas, contract.ALPHA_MAX, band)
            drawn = _drawn(layers.alphas)
            after = torch.cumprod(1 - drawn, 1)
            # A product of float32 factors near one loses more than a single alpha does.
            unsure |= _near(after, contract.MIN_TRANSMITTANCE, 100 * band)
            unsure = unsure.any(1) | _near(1 - _weights(drawn).sum(1), 1 - contract.MIN_DEPTH_ALPHA, band)
            masks.append(unsure.reshape(request.cameras.height, request.cameras.width))
    return torch.stack(masks)


class _Layers(NamedTuple):
    """Drawn splats, nearest first."""

    alphas: Tensor
    """[pixels, n] opacity * exp(-...), neither clamped nor cut off."""
    colours: Tensor
    """[n, 3]."""
    z: Tensor
    """[n] metres."""


def _render_one(request: Request, view: Tensor, K: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    width, height = request.cameras.width, request.cameras.height
    layers = _layers(request, view, K)
    weights = _weights(_drawn(layers.alphas))
    alpha = weights.sum(1)
    rgb = weights @ layers.colours + (1 - alpha)[:, None] * request.background.double()
    opaque = alpha >= contract.MIN_DEPTH_ALPHA
    depth = torch.where(opaque, weights @ layers.z / torch.where(opaque, alpha, 1.0), 0.0)
    return rgb.reshape(height, width, 3), alpha.reshape(height, width), depth.reshape(height, width)


def _drawn(alphas: Tensor) -> Tensor:
    alphas = alphas.clamp_max(contract.ALPHA_MAX)
    return torch.where(alphas >= contract.ALPHA_MIN, alphas, 0.0)


def _weights(alphas: Tensor) -> Tensor:
    """Share of each layer in the pixel. Transmittance only falls, so the first splat that would exhaust it ends the
    pixel for all behind."""
    after = torch.cumprod(1 - alphas, 1)
    before = torch.cat([torch.ones_like(after[:, :1]), after[:, :-1]], 1)
    return torch.where(after > contract.MIN_TRANSMITTANCE, alphas * before, 0.0)


def _near(values: Tensor, threshold: float, band: float) -> Tensor:
    return (values - threshold).abs() <= band * threshold


def _layers(request: Request, view: Tensor, K: Tensor) -> _Layers:
    """Projects, sorts, and evaluates every splat at every pixel centre."""
    width, height = request.cameras.width, request.cameras.height
    splats = _double(request.splats, _usable(request.splats, view))
    R, t = view[:3, :3], view[:3, 3]
    fx, fy, cx, cy = K[0, 0], K[1, 1], K[0, 2], K[1, 2]

    # The mean exactly, the covariance by the Jacobian at the clamped ratios.
    x, y, z = (splats.means @ R.T + t).unbind(-1)
    limit_x = contract.FOV_MARGIN * max(float(cx), width - float(cx)) / float(fx)
    limit_y = contract.FOV_MARGIN * max(float(cy), height - float(cy)) / float(fy)
    u, v = (x / z).clamp(-limit_x, limit_x), (y / z).clamp(-limit_y, limit_y)
    zero = torch.zeros_like(z)
    J = torch.stack([fx / z, zero, -fx * u / z, zero, fy / z, -fy * v / z], -1).reshape(-1, 2, 3)
    root = J @ R @ quat_to_matrix(splats.quats) * splats.scales[:, None, :]
    sharp = root @ root.transpose(1, 2)
    covariance = sharp + contract.DILATION_PX2 * torch.eye(2, dtype=sharp.dtype)
    opacities = splats.opacities
    if request.antialiased:
        ratio = torch.linalg.det(sharp) / torch.linalg.det(covariance)
        # The floor only keeps the root's gradient finite: an opacity that reaches it is far below the cut-off.
        opacities = opacities * ratio.clamp_min(1e-12).sqrt()
    variance = torch.diagonal(sharp, dim1=1, dim2=2).amax(1)
    drawn = (variance <= contract.MAX_VARIANCE_PX2) & (opacities >= contract.ALPHA_MIN)
    order = torch.argsort(z, stable=True)
    order = order[drawn[order]]

    directions = torch.nn.functional.normalize(splats.means + t @ R, dim=-1)
    colours = ((sh_basis(directions, splats.sh_degree)[..., None] * splats.sh).sum(1) + 0.5).clamp_min(0)

    rows, columns = torch.meshgrid(
        torch.arange(height, dtype=z.dtype) + 0.5, torch.arange(width, dtype=z.dtype) + 0.5, indexing="ij"
    )
    centres = torch.stack([fx * x / z + cx, fy * y / z + cy], -1)[order]
    offsets = torch.stack([columns, rows], -1).reshape(-1, 1, 2) - centres
    conics = torch.linalg.inv(covariance[order])
    exponents = -0.5 * torch.einsum("pni,nij,pnj->pn", offsets, conics, offsets)
    return _Layers(opacities[order] * exponents.exp(), colours[order], z[order])


@torch.no_grad()
def _usable(splats: Splats, view: Tensor) -> Tensor:
    """Indices of the splats that the contract draws, as far as that shows before projection."""
    values = [splats.means, splats.scales, splats.quats, splats.opacities[:, None], splats.sh.flatten(1)]
    magnitudes = torch.stack([value.double().abs().sum(1) for value in values])
    z = splats.means.double() @ view[2, :3] + view[2, 3]
    norms = splats.quats.double().norm(dim=1)
    usable = (magnitudes <= contract.MAX_VALUE).all(0) & (z > contract.NEAR_M) & (norms >= contract.MIN_QUAT_NORM)
    return usable.nonzero().squeeze(1)


def _double(splats: Splats, keep: Tensor) -> Splats:
    names = ("means", "quats", "scales", "opacities", "sh")
    return Splats(**{name: getattr(splats, name)[keep].double() for name in names})
