"""The door: checks a call, resolves the backend, and gives back what was asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from recon4d.raster import reference
from recon4d.raster._contract import Planning, Request
from recon4d.raster._plan import Plan
from recon4d.raster._registry import load
from recon4d.types import Cameras, RenderOutput, Splats

_OUTPUTS = ("rgb", "alpha", "depth")


def rasterize(
    splats: Splats,
    cameras: Cameras,
    *,
    background: Tensor | tuple[float, float, float] = (0.0, 0.0, 0.0),
    backend: str = "auto",
    outputs: Collection[str] = _OUTPUTS,
    antialiased: bool = False,
    plans: Sequence[Plan] | None = None,
) -> RenderOutput:
    """Draws splats into every camera of a batch.

    Differentiable in means, quats, scales, opacities and sh, in ``cameras.viewmats`` (all 12 numbers of the upper
    3x4 taken as free; computed only if it requires a gradient) and in the background. The image formation model is
    that of 3D Gaussian splatting (Kerbl et al. 2023) with the constants of this package's contract. Splats that are
    not finite, have no rotation, or lie behind the camera are skipped and get zero gradients.

    Args:
        splats: N Gaussians of one instant, world frame, metres.
        cameras: C cameras of one size on the same device; skew is not supported.
        background: rgb behind everything, subject to the exposure as all else.
        backend: a name from :func:`recon4d.raster.backends`, or "auto": ``cpu`` for CPU tensors, elsewhere
            what :func:`recon4d.raster.prefer` was told, or ``torch``.
        outputs: any of "rgb", "alpha", "depth". Depth costs about a tenth more.
        antialiased: multiply opacities by sqrt(det before / det after) the pixel dilation (Yu et al. 2024), so that
            a scene keeps its look at other resolutions than it was fitted at.
        plans: one a camera, made from a :func:`survey`: the call then never waits for the device. Backends without
            a survey pay them no heed.

    Returns:
        rgb [C, H, W, 3], alpha [C, H, W] and depth [C, H, W] in metres, or None; with plans whether they sufficed.

    Raises:
        ValueError: shapes, devices, dtypes, intrinsics or output names are not as above.
        BackendError: the backend does not exist, or cannot be used here.
    """
    wanted = set(outputs)
    if not wanted or not wanted <= set(_OUTPUTS):
        raise ValueError(f"outputs must be some of {_OUTPUTS}; got {tuple(outputs)}")
    _check(splats, cameras)
    name, module = load(backend, splats.means.device)
    if name == "cpu" and splats.means.dtype != torch.float32:
        raise ValueError(f"backend 'cpu' computes in float32, not {splats.means.dtype}: convert, or use 'reference'")
    colour = _color(background, splats.means)
    learned = colour.requires_grad
    request = Request(
        splats=splats,
        cameras=cameras,
        background=torch.zeros_like(colour) if learned else colour,
        depth="depth" in wanted,
        antialiased=antialiased,
        plans=tuple(plans) if plans is not None and isinstance(module, Planning) else None,
    )
    output = module.render(request)
    if learned and output.rgb is not None and output.alpha is not None:
        output = replace(output, rgb=output.rgb + (1 - output.alpha)[..., None] * colour)
    if cameras.exposures is not None and output.rgb is not None:
        output = replace(output, rgb=output.rgb * cameras.exposures[:, None, None, None])
    return replace(output, **{unwanted: None for unwanted in _OUTPUTS if unwanted not in wanted})


def _color(background: Tensor | tuple[float, float, float], like: Tensor) -> Tensor:
    """[3] of the dtype and on the device of another tensor."""
    colour = torch.as_tensor(background, dtype=like.dtype, device=like.device)
    if colour.shape != (3,):
        raise ValueError(f"background must be three numbers; it has shape {tuple(colour.shape)}")
    return colour


def survey(splats: Splats, cameras: Cameras, *, backend: str = "auto", antialiased: bool = False) -> Tensor | None:
    """What plans are made from, computed without waiting for the device.

    Returns:
        [C, 1 + tiles] int64 on the device: per camera the number of (splat, tile) pairs and the falling lengths of
        the tiles' lists. None when the backend draws without plans.
    """
    _check(splats, cameras)
    _, module = load(backend, splats.means.device)
    if not isinstance(module, Planning):
        return None
    background = splats.means.new_zeros(3)
    request = Request(splats=splats, cameras=cameras, background=background, depth=False, antialiased=antialiased)
    with torch.no_grad():
        return module.survey(request)


def uncertain_pixels(splats: Splats, cameras: Cameras, *, antialiased: bool = False) -> Tensor:
    """[C, H, W] bool: pixels where rounding may decide what is drawn, which comparisons of backends should leave out.

    Args:
        splats: on the CPU, few enough for the reference backend.
        cameras: on the CPU.
        antialiased: as in the calls that are compared.
    """
    _check(splats, cameras)
    background = splats.means.new_zeros(3)
    request = Request(splats=splats, cameras=cameras, background=background, depth=True, antialiased=antialiased)
    return reference.uncertain_pixels(request)


def _check(splats: Splats, cameras: Cameras) -> None:
    """Refuses what no backend can draw, by name."""
    count = cameras.viewmats.shape[0] if cameras.viewmats.ndim else 0
    if count < 1 or cameras.viewmats.shape != (count, 4, 4) or cameras.Ks.shape != (count, 3, 3):
        raise ValueError(
            f"cameras need viewmats [C, 4, 4] and Ks [C, 3, 3] with C >= 1; they have"
            f" {tuple(cameras.viewmats.shape)} and {tuple(cameras.Ks.shape)}"
        )
    if cameras.width < 1 or cameras.height < 1:
        raise ValueError(f"the image size must be positive; it is {cameras.width}x{cameras.height}")
    if cameras.exposures is not None and cameras.exposures.shape != (count,):
        raise ValueError(f"cameras need exposures [C] or None; they have {tuple(cameras.exposures.shape)}")
    device, dtype = splats.means.device, splats.means.dtype
    named = {
        **{f"splats.{name}": getattr(splats, name) for name in ("means", "quats", "scales", "opacities", "sh")},
        "cameras.viewmats": cameras.viewmats,
        "cameras.Ks": cameras.Ks,
        **({} if cameras.exposures is None else {"cameras.exposures": cameras.exposures}),
    }
    for name, value in named.items():
        if value.device != device or value.dtype != dtype or not dtype.is_floating_point:
            raise ValueError(
                f"{name} is {value.dtype} on {value.device}; all inputs must be floating point, of one dtype and on"
                f" one device, as splats.means is: {dtype} on {device}"
            )
    # Elsewhere the numbers would have to be fetched, and an accelerator would wait for that at every call.
    for K in cameras.Ks.tolist() if device.type == "cpu" else []:
        if K[0][1] != 0.0:
            raise ValueError(f"skew is not supported: K[0, 1] is {K[0][1]}; undistort the images to a K without skew")
        if not (K[0][0] > 0.0 and K[1][1] > 0.0):
            raise ValueError(f"focal lengths must be positive; they are {K[0][0]} and {K[1][1]}")
