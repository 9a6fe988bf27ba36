"""The reference backend: every splat against every pixel, in float64, by autograd. It defines the result.

Memory grows with splats x pixels; it is for tests and for reading.
"""

from __future__ import annotations

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


def _render_one(request: Request, view: Tensor, K: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    width, height = request.cameras.width, request.cameras.height
    splats = _double(request.splats, _usable(request.splats, view))
    R, t = view[:3, :3], view[:3, 3]
    fx, fy, cx, cy = K[0, 0], K[1, 1], K[0, 2], K[1, 2]

    # Projection: the mean exactly, the covariance by the Jacobian at the clamped ratios.
    p_cam = splats.means @ R.T + t
    x, y, z = p_cam.unbind(-1)
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
        # The floor has no part in the image: such an opacity is far below the cut-off.
        opacities = opacities * ratio.clamp_min(1e-12).sqrt()
    variance = torch.diagonal(sharp, dim1=1, dim2=2).amax(1)
    drawn = (variance <= contract.MAX_VARIANCE_PX2) & (opacities >= contract.ALPHA_MIN)
    order = torch.argsort(z, stable=True)
    order = order[drawn[order]]

    directions = torch.nn.functional.normalize(splats.means + t @ R, dim=-1)
    colours = ((sh_basis(directions, splats.sh_degree)[..., None] * splats.sh).sum(1) + 0.5).clamp_min(0)

    # Alpha of every splat at every pixel centre, then front to back.
    rows, columns = torch.meshgrid(
        torch.arange(height, dtype=z.dtype) + 0.5, torch.arange(width, dtype=z.dtype) + 0.5, indexing="ij"
    )
    centres = torch.stack([fx * x / z + cx, fy * y / z + cy], -1)[order]
    offsets = torch.stack([columns, rows], -1).reshape(-1, 1, 2) - centres
    conics = torch.linalg.inv(covariance[order])
    exponents = -0.5 * torch.einsum("pni,nij,pnj->pn", offsets, conics, offsets)
    alphas = (opacities[order] * exponents.exp()).clamp_max(contract.ALPHA_MAX)
    alphas = torch.where(alphas >= contract.ALPHA_MIN, alphas, 0.0)
    after = torch.cumprod(1 - alphas, 1)
    before = torch.cat([torch.ones_like(after[:, :1]), after[:, :-1]], 1)
    # Transmittance only falls, so the first splat that would exhaust it ends the pixel for all behind.
    weights = torch.where(after > contract.MIN_TRANSMITTANCE, alphas * before, 0.0)
    alpha = weights.sum(1)
    rgb = weights @ colours[order] + (1 - alpha)[:, None] * request.background.double()
    opaque = alpha >= contract.MIN_DEPTH_ALPHA
    depth = torch.where(opaque, weights @ z[order] / torch.where(opaque, alpha, 1.0), 0.0)
    return rgb.reshape(height, width, 3), alpha.reshape(height, width), depth.reshape(height, width)


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
