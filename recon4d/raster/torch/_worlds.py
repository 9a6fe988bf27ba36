"""Many worlds of the same splats on any device: bodies are projected world by world, a fixed camera's background once.

A body's splats are projected where they are in its own frame, by a view matrix that has its pose in it; what all bodies
leave on the image plane is then ordered and blended as one. A channel a body sums its weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recon4d.raster import _contract as contract
from recon4d.raster._compose import colours, labelled, store
from recon4d.raster._contract import WorldRequest
from recon4d.raster.torch._blend import Blend
from recon4d.raster.torch._lists import tile_lists
from recon4d.raster.torch._project import Camera, Flat, project, take, tile_rects, usable
from recon4d.types import Splats


class _Layer(NamedTuple):
    """The drawn splats of one body."""

    flat: Flat
    rects: Tensor
    colours: Tensor
    body: int


def render_worlds(request: WorldRequest) -> None:
    """Draws on the splats' device; see :func:`recon4d.raster.render_worlds`."""
    images = request.images
    height, width = getattr(images, images.outputs[0]).shape[2:4]
    for c in range(request.viewmats.shape[1]):
        fixed, ground = request.is_fixed(c), None
        for world in request.worlds:
            view, K = request.camera(world, c)
            camera = _camera(request, K, width, height)
            if ground is None or not fixed:
                ground = _layer(request, 0, view, camera)
            moving = [
                _layer(request, body, view @ request.poses[world, body], camera)
                for body in range(1, request.splats.bodies)
                if request.splats.starts[body + 1] > request.splats.starts[body]
            ]
            store(request, (world, c), _draw(request, [ground, *moving], camera))


def _camera(request: WorldRequest, K: Tensor, width: int, height: int) -> Camera:
    means = request.splats.splats.means
    fx, fy, cx, cy = (K[i, j].to(means.dtype).to(means.device) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    return Camera(fx, fy, cx, cy, width, height)


def _layer(request: WorldRequest, body: int, view: Tensor, camera: Camera) -> _Layer:
    """A body on the image plane, its view matrix being that of its own frame."""
    splats = _own(request, body)
    view = view.to(splats.means.dtype).to(splats.means.device)
    splats = take(splats, usable(splats, view).nonzero().squeeze(1))
    flat = project(splats, view, camera, request.antialiased)
    drawn, rects = tile_rects(flat, camera)
    index = drawn.nonzero().squeeze(1)
    return _Layer(Flat(*(value[index] for value in flat)), rects[index], colours(take(splats, index), view), body)


def _own(request: WorldRequest, body: int) -> Splats:
    splats, starts = request.splats.splats, request.splats.starts
    part = slice(starts[body], starts[body + 1])
    names = ("means", "quats", "scales", "opacities", "sh")
    return Splats(**{name: getattr(splats, name)[part] for name in names})


def _draw(request: WorldRequest, layers: list[_Layer], camera: Camera) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """rgb, alpha, depth and, where they are wanted, labels."""
    flat = Flat(*(torch.cat(values) for values in zip(*(layer.flat for layer in layers), strict=True)))
    # Stable, so that equal depths go by body and index.
    order = torch.sort(flat.z, stable=True).indices
    flat = Flat(*(value[order] for value in flat))
    rects = torch.cat([layer.rects for layer in layers])[order]
    channels = [torch.cat([layer.colours for layer in layers])[order], flat.z[:, None]]
    wants = request.images.segmentation is not None
    if wants:
        owner = torch.cat([torch.full_like(layer.rects[:, 0], layer.body) for layer in layers])[order]
        bodies = torch.arange(request.splats.bodies, device=owner.device)
        channels.append((owner[:, None] == bodies).to(flat.z.dtype))
    lists = tile_lists(rects, torch.ones_like(rects[:, 0], dtype=torch.bool), camera, None)
    blended, through = Blend.apply(lists, flat.centres, flat.conics, flat.opacities, torch.cat(channels, 1))
    alpha = 1 - through
    opaque = alpha >= contract.MIN_DEPTH_ALPHA
    depth = torch.where(opaque, blended[..., 3] / torch.where(opaque, alpha, 1.0), 0.0)
    rgb = blended[..., :3] + through[..., None] * request.background.to(through.device)
    return rgb, alpha, depth, labelled(blended[..., 4:], alpha) if wants else None
