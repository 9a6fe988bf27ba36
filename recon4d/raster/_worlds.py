"""The door for many worlds at once: checks a call, makes room for its pictures, and finds who draws them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon4d.raster import _compose
from recon4d.raster._contract import WorldRequest, Worlds
from recon4d.raster._records import WorldCache, WorldCameras, WorldImages, WorldSplats
from recon4d.raster._registry import load

_OUTPUTS = ("rgb", "alpha", "depth", "segmentation")
_RIGID = 1e-3
"""How far a pose's 3x3 part may be from a rotation."""


@torch.no_grad()
def render_worlds(
    splats: WorldSplats,
    T_world_body: Tensor | np.ndarray,
    cameras: WorldCameras,
    *,
    outputs: Collection[str] = _OUTPUTS,
    background: Tensor | tuple[float, float, float] = (0.0, 0.0, 0.0),
    cache: WorldCache | None = None,
    mask: Tensor | np.ndarray | None = None,
    memory_mib: int = 1024,
    backend: str = "auto",
    antialiased: bool = False,
    dtype: torch.dtype = torch.float32,
    out: WorldImages | None = None,
) -> WorldImages:
    """Draws the same splats in W worlds, which differ in where their rigid bodies are, by C cameras each.

    Images are those that :func:`recon4d.raster.rasterize` draws of each world's splats, moved there: means, covariances
    and spherical harmonics turn with the body. Splats are never copied world by world. Forward only. A world's pictures
    do not depend on the other worlds of a call, nor on ``mask``, ``memory_mib`` and ``cache``.

    Args:
        splats: the background and the bodies' splats.
        T_world_body: [W, B, 4, 4] world from body, metres; that of body 0, the background, is the identity. Best on
            the CPU in float64, where physics leaves it.
        cameras: C cameras, in each world or for all. A camera that is the same in all worlds, and only such a one,
            shares what it sees of the background among them.
        outputs: any of "rgb", "alpha", "depth", "segmentation".
        background: rgb behind everything, subject to the exposure as all else.
        cache: keeps what fixed cameras see of the background between calls. Used by backend ``cpu``; the others draw
            everything each time.
        mask: [W] bool, the worlds that are drawn. Pictures of the others are as in ``out``, or zeros.
        memory_mib: bounds the working memory beside splats, cache and images: worlds are drawn in chunks.
        backend: as in :func:`recon4d.raster.rasterize`. Backends that cannot draw worlds by themselves draw them one
            by one, each camera apart; segmentation then takes one more picture for every three bodies.
        antialiased: as in :func:`recon4d.raster.rasterize`.
        dtype: of rgb: float32; or uint8, the nearest of 256 steps of [0, 1].
        out: images to draw into, contiguous and on the splats' device; given back, with nothing else in it than the
            wanted outputs. Otherwise images are new at each call.

    Raises:
        ValueError: shapes, devices, dtypes, intrinsics or names are not as above; or a pose, a view matrix or an
            exposure is not finite, or not rigid: says which world and body, or camera.
        BackendError: the backend does not exist, or cannot be used here; or there is too little memory for one world.
    """
    wanted = _wanted(outputs)
    poses = _poses(T_world_body, splats.bodies)
    worlds = _worlds(mask, len(poses))
    device = splats.splats.means.device
    _, module = load(backend, device)
    options = {"cache": cache, "memory_bytes": _bytes(memory_mib), "antialiased": antialiased}
    request = _request(splats, poses, cameras, {"worlds": worlds, "background": _colour(background), **options})
    shape = (len(poses), request.viewmats.shape[1], cameras.height, cameras.width)
    request = replace(request, images=_images(out, wanted, shape, dtype, device, whole=len(worlds) == len(poses)))
    if isinstance(module, Worlds):
        module.render_worlds(request)
    else:
        _compose.render_worlds(request, module)
    return request.images


def _wanted(outputs: Collection[str]) -> tuple[str, ...]:
    wanted = tuple(name for name in _OUTPUTS if name in set(outputs))
    if not wanted or not set(outputs) <= set(_OUTPUTS):
        raise ValueError(f"outputs must be some of {_OUTPUTS}; got {tuple(outputs)}")
    return wanted


def _bytes(memory_mib: int) -> int:
    if memory_mib < 1:
        raise ValueError(f"memory_mib must be at least 1; it is {memory_mib}")
    return memory_mib << 20


def _request(splats: WorldSplats, poses: Tensor, cameras: WorldCameras, options: dict[str, Any]) -> WorldRequest:
    """All of the request but for its images."""
    viewmats, Ks, exposures = _cameras(cameras, len(poses))
    seen = {"viewmats": viewmats, "Ks": Ks, "exposures": exposures}
    return WorldRequest(splats=splats, poses=poses, images=WorldImages(), **seen, **options)


def _host(values: Any, name: str) -> Tensor:
    """float64 on the CPU."""
    tensor = torch.as_tensor(values).detach()
    if not (tensor.dtype.is_floating_point or tensor.dtype == torch.int64):
        raise ValueError(f"{name} must be numbers; they are {tensor.dtype}")
    return tensor.to("cpu").to(torch.float64)


def _poses(T_world_body: Tensor | np.ndarray, bodies: int) -> Tensor:
    poses = _host(T_world_body, "T_world_body")
    if poses.ndim != 4 or poses.shape[1:] != (bodies, 4, 4) or len(poses) < 1:
        raise ValueError(
            f"T_world_body must be [W, {bodies}, 4, 4], a pose for each body of the splats; it is {tuple(poses.shape)}"
        )
    _refuse(~_rigid(poses), poses, "T_world_body", ("world", "body"))
    still = (poses[:, 0] - torch.eye(4, dtype=poses.dtype)).abs().amax((1, 2)) <= 1e-9
    if not bool(still.all()):
        world = int((~still).nonzero()[0, 0])
        raise ValueError(
            f"body 0 is the background and its pose the identity; in world {world} it is {poses[world, 0].tolist()}:"
            " give what moves a body of its own"
        )
    return poses.contiguous()


def _cameras(cameras: WorldCameras, worlds: int) -> tuple[Tensor, Tensor, Tensor]:
    """View matrices, intrinsics and exposures [W, C], checked."""
    viewmats, Ks = _host(cameras.viewmats, "cameras.viewmats"), _host(cameras.Ks, "cameras.Ks")
    count = viewmats.shape[1] if viewmats.ndim == 4 else 0
    for name, value, tail in (("viewmats", viewmats, (4, 4)), ("Ks", Ks, (3, 3))):
        fits = value.ndim == 4 and value.shape[0] in (1, worlds) and value.shape[1:] == (count, *tail)
        if not fits or count < 1:
            raise ValueError(
                f"cameras.{name} must be [{worlds} or 1, C, {tail[0]}, {tail[1]}] with C >= 1, the same for both"
                f" of them; it is {tuple(value.shape)}"
            )
    if cameras.width < 1 or cameras.height < 1:
        raise ValueError(f"the image size must be positive; it is {cameras.width}x{cameras.height}")
    _refuse(~_rigid(viewmats), viewmats, "cameras.viewmats", ("world", "camera"))
    good = torch.isfinite(Ks).flatten(2).all(2) & (Ks[..., 0, 1] == 0) & (Ks[..., 0, 0] > 0) & (Ks[..., 1, 1] > 0)
    if not bool(good.all()):
        world, camera = (~good).nonzero()[0].tolist()
        raise ValueError(
            f"cameras.Ks of world {world}, camera {camera} must be finite, without skew, with positive focal lengths;"
            f" it is {Ks[world, camera].tolist()}"
        )
    exposures = torch.ones(1, 1) if cameras.exposures is None else _host(cameras.exposures, "cameras.exposures")
    if cameras.exposures is not None and (exposures.ndim != 2 or exposures.shape not in ((1, count), (worlds, count))):
        raise ValueError(f"cameras.exposures must be [{worlds} or 1, {count}]; they are {tuple(exposures.shape)}")
    bad = ~(torch.isfinite(exposures) & (exposures > 0))
    if bool(bad.any()):
        world, camera = bad.nonzero()[0].tolist()
        value = float(exposures[world, camera])
        raise ValueError(f"cameras.exposures must be positive; in world {world}, camera {camera} it is {value}")
    return viewmats.contiguous(), Ks.contiguous(), exposures.expand(worlds, count)


def _rigid(T: Tensor) -> Tensor:
    """[W, n] bool: finite, a rotation and a translation. A NaN fails every comparison."""
    R = T[..., :3, :3]
    off = (R @ R.mT - torch.eye(3, dtype=T.dtype)).abs().amax((-1, -2))
    last = (T[..., 3, :] - torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=T.dtype)).abs().amax(-1)
    whole = torch.isfinite(T).flatten(2).all(2)
    return (
        whole & (off <= _RIGID) & (last <= 1e-6) & (torch.linalg.det(torch.where(whole[..., None, None], R, 0.0)) > 0)
    )


def _refuse(bad: Tensor, T: Tensor, name: str, axes: tuple[str, str]) -> None:
    if not bool(bad.any()):
        return
    world, index = bad.nonzero()[0].tolist()
    value = T[world, index]
    kind = "is no rigid transform" if bool(torch.isfinite(value).all()) else "is not finite"
    raise ValueError(
        f"{name} of {axes[0]} {world}, {axes[1]} {index} {kind}: {value.tolist()}; it must be a finite 4x4 matrix of a"
        " rotation and a translation. Has the physics diverged?"
    )


def _worlds(mask: Tensor | np.ndarray | None, count: int) -> tuple[int, ...]:
    if mask is None:
        return tuple(range(count))
    chosen = torch.as_tensor(mask)
    if chosen.shape != (count,) or chosen.dtype != torch.bool:
        raise ValueError(f"mask must be [{count}] bool; it is {tuple(chosen.shape)} {chosen.dtype}")
    return tuple(chosen.nonzero()[:, 0].tolist())


def _colour(background: Tensor | tuple[float, float, float]) -> Tensor:
    colour = torch.as_tensor(background).detach().to("cpu").to(torch.float32)
    if colour.shape != (3,) or not bool(torch.isfinite(colour).all()):
        raise ValueError(f"background must be three finite numbers; it is {colour.tolist()}")
    return colour.contiguous()


def _images(
    out: WorldImages | None,
    wanted: tuple[str, ...],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    *,
    whole: bool,
) -> WorldImages:
    """The given images, checked, or new ones; zeros where some worlds are left out."""
    if dtype not in (torch.float32, torch.uint8):
        raise ValueError(f"dtype of rgb must be torch.float32 or torch.uint8; it is {dtype}")
    kinds = {"rgb": ((*shape, 3), dtype), "segmentation": (shape, torch.int64)}
    images: dict[str, Tensor] = {}
    for name in wanted:
        size, kind = kinds.get(name, (shape, torch.float32))
        given = getattr(out, name) if out is not None else None
        if out is None:
            images[name] = (torch.empty if whole else torch.zeros)(size, dtype=kind, device=device)
            continue
        if given is None:
            raise ValueError(f"out has no {name}, which is among the outputs; give one or leave it out of outputs")
        if given.shape != size or given.dtype != kind or given.device != device or not given.is_contiguous():
            raise ValueError(
                f"out.{name} must be contiguous, {list(size)}, {kind} on {device}; it is {list(given.shape)},"
                f" {given.dtype} on {given.device}"
            )
        images[name] = given
    return WorldImages(**images)
