"""Rasterizers with one mistake each: the ``torch`` backend, changed where somebody who ports it would go wrong."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from recon4d.raster import _contract, _registry
from recon4d.raster import torch as portable
from recon4d.raster._contract import Ready, Request
from recon4d.raster.torch import _blend
from recon4d.types import RenderOutput

Render = Callable[[Request], RenderOutput]


class Scaled(torch.autograd.Function):
    """The values, and their gradient times some factors."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factors: Tensor) -> Tensor:
        ctx.save_for_backward(factors)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple:  # type: ignore[reportIncompatibleMethodOverride]
        return gradients[0] * ctx.saved_tensors[0], None


@contextmanager
def swapped(module: ModuleType, name: str, other: object) -> Iterator[None]:
    """Another object under a module's name for the time of a call: what was drawn with it keeps its gradient."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, other)
        yield


def halved_conic(request: Request) -> RenderOutput:
    """The gradient of the conic's mixed entry is halved, as where a symmetric matrix is taken for its triangle."""

    def apply(lists: Any, centres: Tensor, conics: Tensor, *others: Tensor) -> Any:
        halved = Scaled.apply(conics, conics.new_tensor([1.0, 0.5, 1.0]))
        return _blend.Blend.apply(lists, centres, halved, *others)

    with swapped(portable, "Blend", SimpleNamespace(apply=apply)):
        return portable.render(request)


def scaled_opacity(request: Request) -> RenderOutput:
    """The gradient of opacities is a twentieth too large."""
    opacities = Scaled.apply(request.splats.opacities, torch.tensor(1.05))
    return portable.render(replace(request, splats=replace(request.splats, opacities=opacities)))


def quaternions_xyzw(request: Request) -> RenderOutput:
    """Quaternions are read as xyzw."""
    turned = replace(request.splats, quats=request.splats.quats[:, [3, 0, 1, 2]])
    return portable.render(replace(request, splats=turned))


def harmonics_in_camera(request: Request) -> RenderOutput:
    """Harmonics are evaluated in the camera's axes and not in the world's."""
    R, basis = request.cameras.viewmats[0, :3, :3], portable.sh_basis
    with swapped(portable, "sh_basis", lambda directions, degree: basis(directions @ R.T, degree)):
        return portable.render(request)


def dropped_band(request: Request) -> RenderOutput:
    """The third band of harmonics is left out."""
    sh = request.splats.sh
    kept = torch.cat([sh[:, :9], torch.zeros_like(sh[:, 9:])], 1)
    return portable.render(replace(request, splats=replace(request.splats, sh=kept)))


def red_for_blue(request: Request) -> RenderOutput:
    """Channels come in the order of OpenCV."""
    drawn = portable.render(request)
    assert drawn.rgb is not None
    return replace(drawn, rgb=drawn.rgb.flip(-1))


def early_clamp(request: Request) -> RenderOutput:
    """Alpha is clamped at 0.99, as in the first implementations."""
    with swapped(portable, "Blend", _clamping().Blend):
        return portable.render(request)


def unsorted(request: Request) -> RenderOutput:
    """Splats are drawn in the order in which they are stored."""
    in_order = portable._in_order

    def by_index(*args: Any) -> tuple:
        splats, order, drawn, rects = in_order(*args)
        order, place = order.sort()
        return splats, order, drawn[place], rects[place]

    with swapped(portable, "_in_order", by_index):
        return portable.render(request)


def _clamping() -> ModuleType:
    """A second copy of the blending that knows another clamp, in its backward pass too."""
    name = "tests_blend_clamped"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _blend.__file__)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.contract = SimpleNamespace(**vars(_contract) | {"ALPHA_MAX": 0.99})  # type: ignore[attr-defined]
    return sys.modules[name]


DEFECTS: dict[str, Render] = {
    render.__name__: render
    for render in (
        halved_conic,
        scaled_opacity,
        quaternions_xyzw,
        harmonics_in_camera,
        dropped_band,
        red_for_blue,
        early_clamp,
        unsorted,
    )
}


@contextmanager
def planted() -> Iterator[None]:
    """Every defect is a backend of its name."""
    with pytest.MonkeyPatch.context() as patch:
        for name, render in DEFECTS.items():
            module = SimpleNamespace(DEVICES=("*",), status=lambda: Ready("wrong on purpose"), render=render)
            patch.setitem(sys.modules, f"tests_defect_{name}", module)
            patch.setitem(_registry._BUILT_IN, name, f"tests_defect_{name}")
        _registry._modules.cache_clear()
        yield
    _registry._modules.cache_clear()


def module(name: str) -> Any:  # A namespace with what a backend module has.
    """The planted backend, to be changed."""
    return sys.modules[f"tests_defect_{name}"]
