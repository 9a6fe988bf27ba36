"""Which backends there are. Modules are named by strings and imported when they are first asked for."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

import torch

from recon4d.errors import BackendError
from recon4d.raster._contract import Backend, Missing, Ready

_BUILT_IN = {
    "reference": "recon4d.raster.reference",
    "torch": "recon4d.raster.torch",
    "cpu": "recon4d.raster.cpu",
}
_GROUP = "recon4d.raster"


@dataclass(frozen=True, kw_only=True)
class BackendStatus:
    """One row of the table of backends."""

    name: str
    status: Ready | Missing
    devices: tuple[str, ...]
    """torch device types it accepts; ("*",) is any, () when the backend could not be imported."""
    module: str


def backends() -> dict[str, BackendStatus]:
    """Every known backend, whether it can be used here, and on which devices.

    A backend of another package that fails to import is a row with the reason, not an exception.
    """
    return {name: _status(name, module) for name, module in _modules().items()}


def load(name: str, device: torch.device) -> tuple[str, Backend]:
    """The named backend's name and module, ready for tensors on ``device``; "auto" is resolved here.

    Raises:
        BackendError: no such backend, it is missing here, or it does not take the device.
    """
    if name == "auto":
        name = "cpu" if device.type == "cpu" else "torch"
    modules = _modules()
    if name not in modules:
        close = difflib.get_close_matches(name, [*modules, "auto"], n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise BackendError(f"no rasterizer backend '{name}'{hint} There are: auto, {', '.join(sorted(modules))}.")
    try:
        backend = _import(modules[name])
        status = backend.status()
    except ImportError as error:
        raise BackendError(f"rasterizer backend '{name}' cannot be imported: {error}") from error
    if isinstance(status, Missing):
        raise BackendError(f"rasterizer backend '{name}' cannot be used here: {status.reason}")
    if "*" not in backend.DEVICES and device.type not in backend.DEVICES:
        raise BackendError(
            f"rasterizer backend '{name}' takes tensors on {', '.join(backend.DEVICES)}; these are on {device}."
            " Move the splats and cameras, or use backend='auto'"
        )
    return name, backend


@cache
def _modules() -> dict[str, str]:
    outside = {point.name: point.value for point in entry_points(group=_GROUP)}
    return {**outside, **_BUILT_IN}


def _status(name: str, module: str) -> BackendStatus:
    try:
        backend = _import(module)
    except ImportError as error:
        return BackendStatus(name=name, status=Missing(f"import failed: {error}"), devices=(), module=module)
    return BackendStatus(name=name, status=backend.status(), devices=tuple(backend.DEVICES), module=module)


def _import(module: str) -> Backend:
    return cast(Backend, import_module(module))
