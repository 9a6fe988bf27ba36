"""The loss backends by name. A new one is a module with ``image_loss`` and ``device_types``, and a line here."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Protocol, cast

import torch
from torch import Tensor

from recon4d.errors import BackendError
from recon4d.loss._terms import LossTerms


class Backend(Protocol):
    """What a backend module holds. Arguments come checked, batched and with a factor that covers every mean."""

    device_types: tuple[str, ...]
    """Torch device types that it serves; empty for all."""

    def image_loss(self, rgb: Tensor, target: Tensor, weight: Tensor | None, terms: LossTerms, factor: float) -> Tensor:
        """rgb [C, H, W, 3] float, target the same in float or uint8, weight [C, H, W] float or None, to a scalar."""
        ...


_MODULES = {"cpu": "recon4d.loss.cpu", "torch": "recon4d.loss.torch"}


def backends() -> tuple[str, ...]:
    """Names that ``image_loss`` takes for ``backend``, beside "auto"."""
    return tuple(_MODULES)


def resolve(name: str, device: torch.device) -> Backend:
    """The named backend, or with "auto" the compiled one for the CPU and PyTorch elsewhere."""
    if name == "auto":
        name = "cpu" if device.type == "cpu" else "torch"
    if name not in _MODULES:
        near = difflib.get_close_matches(name, _MODULES, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise BackendError(f"no loss backend '{name}'{hint} There are 'auto', {', '.join(map(repr, _MODULES))}.")
    module = cast(Backend, import_module(_MODULES[name]))
    if module.device_types and device.type not in module.device_types:
        raise BackendError(
            f"loss backend '{name}' serves {', '.join(module.device_types)}, not tensors on '{device.type}';"
            " use 'auto' or 'torch'"
        )
    return module
