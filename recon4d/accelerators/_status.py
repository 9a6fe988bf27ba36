"""The table of accelerators."""

from __future__ import annotations

from dataclasses import dataclass

from recon4d.accelerators._contract import UNKNOWN, Accelerator, Probe, tidy
from recon4d.accelerators._registry import Broken, known
from recon4d.accelerators._tools import brief


@dataclass(frozen=True, kw_only=True)
class DeviceStatus:
    """One device that can be used."""

    index: int
    model: str
    memory: tuple[int, int] | None
    """Free and total, bytes; None when the device does not tell."""
    torch_device: str


@dataclass(frozen=True, kw_only=True)
class Status:
    """One row of the table of accelerators."""

    name: str
    vendor: str
    """Empty when another package's accelerator could not be loaded; so are ``device_type`` and ``rasterizers``."""
    count: int
    reason: str
    """Why there is no device; empty when there is one."""
    devices: tuple[DeviceStatus, ...]
    device_type: str
    """torch device string without an index."""
    rlinf_type: str
    rasterizers: tuple[str, ...]
    """Rasterizer backends, the preferred one first."""


def accelerators() -> dict[str, Status]:
    """Every known accelerator with its devices, or why there is none. Never raises.

    To tell a device's memory, torch may have to start on it where the vendor's tools are not installed.
    """
    return {name: _status(name, accelerator) for name, accelerator in known().items()}


def probe_of(accelerator: Accelerator | Broken) -> Probe:
    """An accelerator's probe, also where it breaks its promise not to raise."""
    if isinstance(accelerator, Broken):
        return Probe(0, accelerator.reason)
    try:
        probe = accelerator.probe()
    except Exception as error:  # noqa: BLE001 - another package may break the contract.
        return Probe(0, f"its probe raised {brief(error)}")
    return probe if isinstance(probe, Probe) else Probe(0, f"its probe gave {probe!r}, which is no Probe")


def model_of(accelerator: Accelerator, index: int) -> str:
    """A device's model, also where the accelerator breaks its promise not to raise."""
    try:
        return tidy(accelerator.model(index))
    except Exception:  # noqa: BLE001 - another package may break the contract.
        return UNKNOWN


def memory_of(accelerator: Accelerator, index: int) -> tuple[int, int] | None:
    """A device's free and total memory, also where the accelerator breaks its promise not to raise."""
    try:
        return accelerator.memory(index)
    except Exception:  # noqa: BLE001 - another package may break the contract.
        return None


def driver_of(accelerator: Accelerator) -> str | None:
    """The driver's version, also where the accelerator breaks its promise not to raise."""
    try:
        return accelerator.driver()
    except Exception:  # noqa: BLE001 - another package may break the contract.
        return None


def _status(name: str, accelerator: Accelerator | Broken) -> Status:
    probe = probe_of(accelerator)
    if isinstance(accelerator, Broken):
        blank = {"vendor": "", "device_type": "", "rlinf_type": "NO_ACCEL", "rasterizers": ()}
        return Status(name=name, count=0, reason=probe.reason, devices=(), **blank)
    devices = [
        DeviceStatus(
            index=index,
            model=model_of(accelerator, index),
            memory=memory_of(accelerator, index),
            torch_device=accelerator.torch_device(index),
        )
        for index in range(probe.count)
    ]
    return Status(
        name=name,
        vendor=accelerator.vendor,
        count=probe.count,
        reason=probe.reason,
        devices=tuple(devices),
        device_type=accelerator.device_type,
        rlinf_type=accelerator.rlinf_type,
        rasterizers=accelerator.rasterizers,
    )
