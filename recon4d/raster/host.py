"""The host backend: the compiled CPU kernels for tensors of any device, by way of copies.

Splats and cameras go to the CPU, images come back, and gradients take the same way in reverse. A hundred thousand
splats are some megabytes each way. For accelerators whose PyTorch lacks operations that the ``torch`` backend needs, or
is slower at them than this.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from recon4d.raster import cpu
from recon4d.raster._contract import Ready, Request
from recon4d.types import RenderOutput

DEVICES = ("*",)


def status() -> Ready:
    """Always ready, as the CPU kernels are."""
    return Ready("the cpu backend, with copies to the CPU and back")


def render(request: Request) -> RenderOutput:
    """Draws on the CPU, and gives the images back on the splats' device; see :func:`recon4d.raster.rasterize`.

    Raises:
        ValueError: the splats are not float32.
    """
    means = request.splats.means
    if means.dtype != torch.float32:
        raise ValueError(f"backend 'host' computes in float32; splats are {means.dtype}: convert them, or use 'torch'")
    # Where a splat came from does not show in the image, so that is not copied.
    bare = replace(request, splats=replace(request.splats, rows=None, body=None))
    return _moved(cpu.render(_moved(bare, torch.device("cpu"))), means.device)


def _moved(value: Any, device: torch.device) -> Any:  # A record of any type comes back as one of that type.
    """The value with every tensor in it on ``device``; gradients flow through the copies."""
    if isinstance(value, Tensor):
        return value.to(device)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _moved(getattr(value, field.name), device) for field in fields(value)})
    return value
