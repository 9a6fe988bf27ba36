"""Worlds drawn one by one, for backends that only draw splats: each world's are moved to where they are, and drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from recon4d.geometry import SH_C0, sh_basis
from recon4d.raster import _contract as contract
from recon4d.raster._contract import Backend, Request, WorldRequest
from recon4d.raster._records import WorldSplats
from recon4d.types import Cameras, RenderOutput, Splats


def render_worlds(request: WorldRequest, backend: Backend) -> None:
    """Fills ``request.images`` by calls of the backend's ``render``.

    One call draws a world by one camera, with colours that are computed here, because the direction that a body's
    harmonics are seen from turns with the body. For segmentation bodies are drawn in red, green and blue, three a call:
    the colour then is the summed weight.
    """
    device = request.splats.splats.means.device
    for world in request.worlds:
        for c in range(request.viewmats.shape[1]):
            view, K = request.camera(world, c)
            splats = composed(request.splats, request.poses[world], view)
            images = request.images
            size = images.rgb if images.rgb is not None else getattr(images, images.outputs[0])
            cameras = Cameras(
                viewmats=view[None].to(torch.float32).to(device),
                Ks=K[None].to(torch.float32).to(device),
                width=size.shape[3],
                height=size.shape[2],
            )
            drawn = _draw(request, backend, splats, cameras, request.background.to(device))
            labels = None
            if images.segmentation is not None and drawn.alpha is not None:
                labels = labelled(_shares(request, backend, splats, cameras), drawn.alpha[0])
            store(request, (world, c), (_first(drawn.rgb), _first(drawn.alpha), _first(drawn.depth), labels))


def store(request: WorldRequest, place: tuple[int, int], maps: tuple[Tensor | None, ...]) -> None:
    """Puts one picture's rgb (before exposure), alpha, depth and labels where they are wanted."""
    rgb, alpha, depth, labels = maps
    images = request.images
    if images.rgb is not None and rgb is not None:
        shown = rgb * float(request.exposures[place])
        if images.rgb.dtype == torch.uint8:
            shown = (shown.clamp(0, 1) * 255 + 0.5).to(torch.uint8)
        images.rgb[place] = shown
    for image, values in ((images.alpha, alpha), (images.depth, depth), (images.segmentation, labels)):
        if image is not None and values is not None:
            image[place] = values


def labelled(shares: Tensor, alpha: Tensor) -> Tensor:
    """[H, W] int64: of summed weights [H, W, B] the body of the largest, -1 where alpha is below the half."""
    return torch.where(alpha >= contract.MIN_LABEL_ALPHA, shares.argmax(-1), -1)


def composed(world: WorldSplats, poses: Tensor, view: Tensor) -> Splats:
    """All splats where the poses [B, 4, 4] put them, in the colours that a camera sees."""
    bodies = [
        _moved(_slice(world.splats, world.starts[body], world.starts[body + 1]), poses[body], view)
        for body in range(world.bodies)
    ]
    return Splats(
        **{name: torch.cat([getattr(body, name) for body in bodies]) for name in ("means", "quats", "scales")},
        opacities=torch.cat([body.opacities for body in bodies]),
        sh=torch.cat([body.sh for body in bodies]),
    )


def colours(splats: Splats, view: Tensor) -> Tensor:
    """[N, 3] what a camera sees of splats, its view matrix being that of the splats' frame."""
    directions = torch.nn.functional.normalize(splats.means + view[:3, 3] @ view[:3, :3], dim=-1)
    return ((sh_basis(directions, splats.sh_degree)[..., None] * splats.sh).sum(1) + 0.5).clamp_min(0)


def _slice(splats: Splats, start: int, stop: int) -> Splats:
    names = ("means", "quats", "scales", "opacities", "sh")
    return Splats(**{name: getattr(splats, name)[start:stop] for name in names})


def _moved(splats: Splats, pose: Tensor, view: Tensor) -> Splats:
    """A body's splats in the world, with constant colours."""
    like = splats.means
    seen = colours(splats, (view @ pose).to(like.dtype).to(like.device))
    T = pose.to(like.dtype).to(like.device)
    return Splats(
        means=splats.means @ T[:3, :3].T + T[:3, 3],
        quats=_turned(splats.quats, pose),
        scales=splats.scales,
        opacities=splats.opacities,
        sh=((seen - 0.5) / SH_C0)[:, None],
    )


def _turned(quats: Tensor, pose: Tensor) -> Tensor:
    """Quaternions [N, 4] after a pose's rotation."""
    a, b, c, d = _quaternion(pose[:3, :3]).tolist()
    w, x, y, z = quats.unbind(-1)
    return torch.stack(
        [
            a * w - b * x - c * y - d * z,
            a * x + b * w + c * z - d * y,
            a * y - b * z + c * w + d * x,
            a * z + b * y - c * x + d * w,
        ],
        -1,
    )


def _quaternion(R: Tensor) -> Tensor:
    """[4] wxyz of a rotation matrix: the eigenvector of a symmetric matrix made of its entries (Bar-Itzhack 2000)."""
    m = R.tolist()
    K = torch.tensor(
        [
            [m[0][0] + m[1][1] + m[2][2], m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]],
            [m[2][1] - m[1][2], m[0][0] - m[1][1] - m[2][2], m[0][1] + m[1][0], m[0][2] + m[2][0]],
            [m[0][2] - m[2][0], m[0][1] + m[1][0], m[1][1] - m[0][0] - m[2][2], m[1][2] + m[2][1]],
            [m[1][0] - m[0][1], m[0][2] + m[2][0], m[1][2] + m[2][1], m[2][2] - m[0][0] - m[1][1]],
        ],
        dtype=torch.float64,
    )
    return torch.linalg.eigh(K).eigenvectors[:, -1]


def _draw(
    request: WorldRequest, backend: Backend, splats: Splats, cameras: Cameras, background: Tensor
) -> RenderOutput:
    depth = request.images.depth is not None
    call = Request(splats=splats, cameras=cameras, background=background, depth=depth, antialiased=request.antialiased)
    return backend.render(call)


def _shares(request: WorldRequest, backend: Backend, splats: Splats, cameras: Cameras) -> Tensor:
    """[H, W, B] summed weights of the bodies."""
    starts, bodies = request.splats.starts, request.splats.bodies
    shown = splats.sh.abs().flatten(1).sum(1) <= contract.MAX_VALUE
    parts = []
    for first in range(0, bodies, 3):
        tint = torch.zeros_like(splats.sh)
        for channel, body in enumerate(range(first, min(first + 3, bodies))):
            tint[starts[body] : starts[body + 1], 0, channel] = 1.0
        painted = Splats(
            means=splats.means,
            quats=splats.quats,
            scales=splats.scales,
            # Splats that are not drawn because of their colours are not to come back in others.
            opacities=torch.where(shown, splats.opacities, 0.0),
            sh=(tint - 0.5) / SH_C0,
        )
        drawn = _draw(request, backend, painted, cameras, torch.zeros_like(cameras.Ks[0, 0]))
        assert drawn.rgb is not None
        parts.append(drawn.rgb[0])
    return torch.cat(parts, -1)[..., :bodies]


def _first(images: Tensor | None) -> Tensor | None:
    return None if images is None else images[0]
