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
    "gsplat": "recon4d.raster.gsplat",
    "host": "recon4d.raster.host",
}
_GROUP = "recon4d.raster"

_preferred: dict[str, str] = {}
"""What "auto" is, by torch device type, where it is not the default."""


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


def prefer(device_type: str, backend: str | None) -> None:
    """Makes "auto" mean ``backend`` for tensors on a type of device, in this process.

    Args:
        device_type: a torch device type such as "cuda", without an index. For CPU tensors "auto" always is ``cpu``.
        backend: a name from :func:`backends` that can be used there; None goes back to the default, ``torch``.

    Raises:
        ValueError: the device type is none, or is the CPU; or the backend is "auto".
        BackendError: no such backend, it is missing here, or it does not take the device.
    """
    try:
        device = torch.device(device_type)
    except RuntimeError as error:
        raise ValueError(f"'{device_type}' is no torch device type: {error}") from error
    if device.type != device_type:
        raise ValueError(f"a preference is for a type of device: give '{device.type}', not '{device_type}'")
    if device_type == "cpu":
        raise ValueError("backend 'auto' always is 'cpu' for CPU tensors; name another in the call to rasterize")
    if backend is None:
        _preferred.pop(device_type, None)
        return
    if backend == "auto":
        raise ValueError("'auto' cannot stand for itself; give a backend's name, or None for the default")
    load(backend, device)
    _preferred[device_type] = backend


def load(name: str, device: torch.device) -> tuple[str, Backend]:
    """The named backend's name and module, ready for tensors on ``device``; "auto" is resolved here.

    "auto" is ``cpu`` for CPU tensors, else what :func:`prefer` set for their device type, else ``torch``.

    Raises:
        BackendError: no such backend, it is missing here, or it does not take the device.
    """
    if name == "auto":
        name = "cpu" if device.type == "cpu" else _preferred.get(device.type, "torch")
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
