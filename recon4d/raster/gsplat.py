"""The gsplat backend: the CUDA and ROCm kernels of the optional package ``gsplat``, versions 1.5.3 to 1.6.

Draws one camera after the other, each with the splats that the contract draws: the others are taken out before, and so
get zero gradients. Background and depth are made here, from gsplat's colour, alpha and accumulated camera-z; colours
too where the view matrix takes part in the gradient, because gsplat's camera centre is that of the inverse matrix and
not the contract's -R' t, which has another derivative.

What is not as the contract says, and cannot be helped from here:

- alpha is clamped at 0.999 by gsplat 1.5, as it should be, but at 0.99 by 1.6: opaque surfaces show up to a hundredth
  of what lies behind;
- the Jacobian's clamp reaches 0.15 image sizes beyond each border. That is the contract's where the principal point is
  the image's centre; elsewhere splats differ whose own centre is farther out of the image than that;
- determinants are differences of products in float32: splats that are wide and thin in the image lose digits or are not
  drawn, most of all with ``antialiased``;
- opacities above one are drawn to 3.33 standard deviations and no further;
- exponentials are those of fast-math, and gradients are summed in any order: equal calls differ in their last bits.

Ties in depth are drawn by index, as the sort that gsplat uses is stable.
"""

from __future__ import annotations

import math
import re
import textwrap
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from importlib.util import find_spec
from subprocess import SubprocessError
from typing import Any

import torch
from torch import Tensor

from recon4d.errors import BackendError
from recon4d.geometry import quat_to_matrix, sh_basis
from recon4d.raster import _contract as contract
from recon4d.raster._contract import Missing, Ready, Request
from recon4d.types import RenderOutput, Splats

DEVICES = ("cuda",)
"""PyTorch calls ROCm's devices that too."""

_PACKAGE = "gsplat"
_DISTRIBUTIONS = ("gsplat", "amd_gsplat")
_SUPPORTED = (1, 5, 3), (1, 7)
"""First version that is, and first that is not."""
_EXTENSIONS = ("gsplat.cuda._backend", "gsplat.hip._backend")
"""Where the compiled part is loaded or built when first imported, as ``_C``."""
_BUILD_ERRORS = (
    ImportError,
    OSError,
    RuntimeError,
    SubprocessError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What a build or a load may end in: the toolkit, the compiler, the linker, or PyTorch's helpers for extensions."""
_FAR_M = 1e30
"""The contract has no far plane; this is beyond any z it draws, and still finite in float32."""

_ATTRIBUTES = ("means", "quats", "scales", "opacities", "sh")

_failure: str | None = None
"""Why the compiled part could not be had, once that is known: building again would fail again, after minutes."""


def status() -> Ready | Missing:
    """Whether gsplat is installed in a version that this module knows, with a device to run on.

    Imports nothing of gsplat: that its compiled part cannot be had is known after the first attempt to draw.
    """
    if find_spec(_PACKAGE) is None:
        return Missing("the package 'gsplat' is not installed; install it with: pip install 'recon4d[gsplat]'")
    version = _version()
    if version is not None and not _SUPPORTED[0] <= _numbers(version) < _SUPPORTED[1]:
        return Missing(
            f"gsplat {version} is installed, versions from 1.5.3 to 1.6 are supported; install one with:"
            " pip install 'recon4d[gsplat]'"
        )
    if torch.version.cuda is None and torch.version.hip is None:
        return Missing(
            f"PyTorch {torch.__version__} is a build for the CPU alone; install one for CUDA or ROCm"
            " (https://pytorch.org/get-started/locally)"
        )
    if _device_count() == 0:
        return Missing(
            f"PyTorch {torch.__version__} finds no CUDA or ROCm device; check the driver (nvidia-smi, rocm-smi) and"
            " CUDA_VISIBLE_DEVICES"
        )
    if _failure is not None:
        return Missing(_failure)
    return Ready(f"gsplat {version or 'of unknown version'}; may compile for minutes on first use")


def render(request: Request) -> RenderOutput:
    """Draws on the splats' device; see :func:`recon4d.raster.rasterize`.

    Raises:
        ValueError: the splats are not float32.
        BackendError: gsplat's compiled part cannot be loaded or built.
    """
    dtype = request.splats.means.dtype
    if dtype != torch.float32:
        raise ValueError(f"backend 'gsplat' computes in float32; splats are {dtype}: convert them, or use 'torch'")
    rasterization = _load()
    images = [_render_one(rasterization, request, c) for c in range(len(request.cameras))]
    rgb, alpha, depth = (torch.stack(maps) for maps in zip(*images, strict=True))
    return RenderOutput(rgb=rgb, alpha=alpha, depth=depth if request.depth else None)


def _version() -> str | None:
    for name in _DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers: builds and betas of a version ("1.5.3+pt26cu124", "1.5.3b2") have its signature."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def _device_count() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns where there is no driver, and the row says so already.
        return torch.cuda.device_count()


def _load() -> Callable[..., Any]:
    """gsplat's ``rasterization``, its compiled part being there.

    Raises:
        BackendError: it is not; with the reason, and what to do.
    """
    global _failure
    if _failure is None:
        try:
            rasterization = import_module(_PACKAGE).rasterization
            if _extension() is not None:
                return rasterization
            _failure = _told("gsplat found neither a prebuilt extension nor a compiler for one")
        except _BUILD_ERRORS as error:
            _failure = _told(textwrap.shorten(f"{type(error).__name__}: {error}", 400))
    raise BackendError(f"rasterizer backend 'gsplat' cannot be used here: {_failure}")


def _extension() -> object | None:
    for name in _EXTENSIONS:
        try:
            there = find_spec(name) is not None
        except ModuleNotFoundError:  # Its package is not there.
            there = False
        if there:
            return import_module(name)._C
    raise ImportError(f"gsplat has none of the modules {', '.join(_EXTENSIONS)}")


def _told(reason: str) -> str:
    toolkit = f"CUDA toolkit {torch.version.cuda} (nvcc)" if torch.version.cuda else "ROCm toolkit (hipcc)"
    return (
        f"gsplat's compiled part could not be loaded or built ({reason}). Install the {toolkit} and a C++ compiler, set"
        " CUDA_HOME or ROCM_PATH and start again; or install a prebuilt wheel of gsplat for this PyTorch; or use"
        " backend 'torch', which needs neither"
    )


def _render_one(rasterization: Callable[..., Any], request: Request, c: int) -> tuple[Tensor, Tensor, Tensor]:
    """rgb [H, W, 3], alpha [H, W] and depth [H, W] of camera ``c``; alpha stands in for a depth not asked for."""
    cameras = request.cameras
    view, K = cameras.viewmats[c], cameras.Ks[c]
    with torch.no_grad():
        keep = _usable(request.splats, view, K.tolist(), (cameras.width, cameras.height))
    splats = Splats(**{name: getattr(request.splats, name).index_select(0, keep) for name in _ATTRIBUTES})
    if len(splats) == 0:
        return _nothing(splats, view, request.background, (cameras.width, cameras.height))
    blended, alpha, _ = rasterization(
        means=splats.means,
        quats=splats.quats,
        scales=splats.scales,
        opacities=splats.opacities,
        **_colours(splats, view),
        viewmats=view[None],
        Ks=K[None],
        width=cameras.width,
        height=cameras.height,
        near_plane=contract.NEAR_M,
        far_plane=_FAR_M,
        radius_clip=0.0,
        eps2d=contract.DILATION_PX2,
        # Packing saves the memory of splats that a camera does not see; most of those are not even passed.
        packed=False,
        render_mode="RGB+D" if request.depth else "RGB",
        rasterize_mode="antialiased" if request.antialiased else "classic",
    )
    blended, alpha = blended[0], alpha[0, ..., 0]
    rgb = blended[..., :3] + (1 - alpha)[..., None] * request.background
    if not request.depth:
        return rgb, alpha, alpha
    opaque = alpha >= contract.MIN_DEPTH_ALPHA
    return rgb, alpha, torch.where(opaque, blended[..., 3] / torch.where(opaque, alpha, 1.0), 0.0)


def _colours(splats: Splats, view: Tensor) -> dict[str, Any]:
    """The arguments ``colors`` and ``sh_degree``: harmonics, or colours [N, 3] where the view needs a gradient."""
    if not view.requires_grad:
        return {"colors": splats.sh, "sh_degree": splats.sh_degree}
    directions = torch.nn.functional.normalize(splats.means + view[:3, 3] @ view[:3, :3], dim=-1)
    shown = (sh_basis(directions, splats.sh_degree)[..., None] * splats.sh).sum(1) + 0.5
    return {"colors": shown.clamp_min(0), "sh_degree": None}


def _nothing(splats: Splats, view: Tensor, background: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """The background. gsplat divides by the number of splats, so it is not asked when there is none."""
    # Sums over nothing, so that gradients (zeros) flow as they do else.
    zero = torch.stack([getattr(splats, name).sum() for name in _ATTRIBUTES] + [view[:0].sum()]).sum()
    alpha = zero.expand(size[1], size[0])
    return alpha[..., None] + background, alpha, alpha


def _usable(splats: Splats, view: Tensor, K: list[list[float]], size: tuple[int, int]) -> Tensor:
    """Indices of the splats that the contract draws, but for their opacity; a NaN fails every comparison."""
    z = splats.means @ view[2, :3] + view[2, 3]
    usable = z > contract.NEAR_M
    usable &= splats.quats.square().sum(1) >= contract.MIN_QUAT_NORM**2
    for values in (splats.means, splats.quats, splats.scales, splats.opacities[:, None], splats.sh.flatten(1)):
        usable &= values.abs().sum(1) <= contract.MAX_VALUE
    fx, fy, cx, cy = K[0][0], K[1][1], K[0][2], K[1][2]
    limits = (
        contract.FOV_MARGIN * max(cx, size[0] - cx) / fx,
        contract.FOV_MARGIN * max(cy, size[1] - cy) / fy,
    )
    # Hardly any splat comes near the greatest variance, so it is found for those only whose largest axis, stretched as
    # much as can be, would reach it.
    stretch = max(fx * math.hypot(1.0, limits[0]), fy * math.hypot(1.0, limits[1]))
    wide = stretch * splats.scales.abs().amax(1) > math.sqrt(contract.MAX_VARIANCE_PX2) * z
    suspects = (usable & wide).nonzero().squeeze(1)
    if len(suspects):
        usable[suspects] = _greatest_variance(splats, suspects, view, (fx, fy), limits) <= contract.MAX_VARIANCE_PX2
    return usable.nonzero().squeeze(1)


def _greatest_variance(
    splats: Splats, index: Tensor, view: Tensor, focal: tuple[float, float], limits: tuple[float, float]
) -> Tensor:
    """[len(index)] the larger of the variances along x and y in the image, px^2, before dilation."""
    R = view[:3, :3]
    x, y, z = (splats.means[index] @ R.T + view[:3, 3]).unbind(-1)
    axes = quat_to_matrix(splats.quats[index]) * splats.scales[index][:, None, :]
    variances = []
    for k, ratio in enumerate((x / z, y / z)):
        row = (focal[k] / z)[:, None] * (R[k] - ratio.clamp(-limits[k], limits[k])[:, None] * R[2])
        variances.append((row[:, :, None] * axes).sum(1).square().sum(-1))
    return torch.maximum(*variances)
