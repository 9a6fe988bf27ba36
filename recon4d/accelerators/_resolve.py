"""From what people write to a device."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from recon4d.accelerators._contract import Accelerator
from recon4d.accelerators._registry import Broken, known
from recon4d.accelerators._status import driver_of, memory_of, model_of, probe_of
from recon4d.errors import AcceleratorError


@dataclass(frozen=True)
class Device:
    """One device of an accelerator. It is looked at when asked, not when made."""

    accelerator: Accelerator
    index: int
    """torch's index in this process."""

    @property
    def name(self) -> str:
        """Such as "nvidia:0"; :func:`resolve` takes it."""
        return f"{self.accelerator.name}:{self.index}"

    @property
    def torch_device(self) -> str:
        """torch's string for it, such as "cuda:0", or "cpu"."""
        return self.accelerator.torch_device(self.index)

    @property
    def model(self) -> str:
        """The vendor's name of the chip, or "UNKNOWN"."""
        return model_of(self.accelerator, self.index)

    @property
    def driver(self) -> str | None:
        """The driver's version; None when it does not tell."""
        return driver_of(self.accelerator)

    @property
    def memory(self) -> tuple[int, int] | None:
        """Free and total, bytes; None when it does not tell."""
        return memory_of(self.accelerator, self.index)


def resolve(wanted: str = "auto") -> Device:
    """The device that is meant.

    Args:
        wanted: "auto", the first accelerator that has a device, the CPU last; an accelerator's name, or name:index;
            a torch device string, which means the accelerator that this torch has behind it.

    Raises:
        AcceleratorError: nothing is called so, it has no device here, or not so many.
    """
    there = known()
    name, index = _parts(wanted)
    if name == "auto":
        if index is not None:
            raise AcceleratorError(f"'{wanted}' names no device: auto takes no index; write auto, or NAME:INDEX")
        candidates = there
    elif name in there:
        candidates = {name: there[name]}
    else:
        candidates = {k: a for k, a in there.items() if isinstance(a, Accelerator) and a.device_type == name}
    reasons: dict[str, str] = {}
    for key, accelerator in candidates.items():
        probe = probe_of(accelerator)
        if probe.count and isinstance(accelerator, Accelerator):
            return _device(wanted, accelerator, index or 0, probe.count)
        reasons[key] = probe.reason
    raise AcceleratorError(_absent(wanted, name, there, reasons))


def rlinf_type(name: str) -> str:
    """The member of RLinf's ``AcceleratorType`` that an accelerator's name stands for.

    Raises:
        AcceleratorError: there is no such accelerator, or it could not be loaded.
    """
    there = known()
    accelerator = there.get(name)
    if isinstance(accelerator, Accelerator):
        return accelerator.rlinf_type
    why = accelerator.reason if isinstance(accelerator, Broken) else f"there are: {', '.join(there)}"
    raise AcceleratorError(f"there is no accelerator '{name}'{_near(name, there)}; {why}")


def _parts(wanted: str) -> tuple[str, int | None]:
    name, colon, index = wanted.partition(":")
    if not colon:
        return name, None
    if not (index.isascii() and index.isdigit()):
        raise AcceleratorError(f"'{wanted}' names no device: after the colon stands an index, such as {name}:0")
    return name, int(index)


def _device(wanted: str, accelerator: Accelerator, index: int, count: int) -> Device:
    if index < count:
        return Device(accelerator, index)
    there = "1 device, 0" if count == 1 else f"{count} devices, 0 to {count - 1}"
    variable = accelerator.visible_devices_env
    shown = f"; {variable} is '{os.environ[variable]}'" if variable and variable in os.environ else ""
    raise AcceleratorError(
        f"device '{wanted}' cannot be used here: accelerator '{accelerator.name}' has {there}{shown}"
    )


def _absent(wanted: str, name: str, there: dict[str, Accelerator | Broken], reasons: dict[str, str]) -> str:
    """The message: what was wrong, then every accelerator and what is the matter with it."""
    strings = {accelerator.device_type for accelerator in there.values() if isinstance(accelerator, Accelerator)}
    if name in there:
        start = f"device '{wanted}' cannot be used here: {reasons[name]}"
    elif reasons:
        start = f"device '{wanted}' cannot be used here: no accelerator that torch calls '{name}' has a device"
    else:
        near = _near(name, [*there, *sorted(strings), "auto"])
        start = f"device '{wanted}' cannot be used here: no accelerator and no torch device is called '{name}'{near}"
    lines = []
    for key, accelerator in there.items():
        probe = probe_of(accelerator)
        count = "1 device" if probe.count == 1 else f"{probe.count} devices"
        lines.append(f"  {key}: {count if probe.count else 'none, ' + probe.reason}")
    return "\n".join([f"{start}. Probed were:", *lines, "Choose one with devices, or auto."])


def _near(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""
