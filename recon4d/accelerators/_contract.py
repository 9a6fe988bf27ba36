"""What an accelerator says of itself.

An accelerator is an instance of a subclass of :class:`Accelerator`. The base class probes, and reads and writes the
variable of visible devices; a subclass fills the fields and says how torch reaches its devices, and may name tools that
see the hardware without torch. Nothing of a vendor is imported before a method is called.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._tools import brief
from recon4d.errors import AcceleratorError

UNKNOWN = "UNKNOWN"
"""The model of a device that does not tell."""


@dataclass(frozen=True)
class Probe:
    """How many devices torch can reach, and why there is none."""

    count: int
    reason: str = ""
    """Empty when there are devices."""

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"a count of devices is at least 0; it is {self.count}")
        if (self.count == 0) != bool(self.reason):
            raise ValueError(f"a reason is given when there is no device, and only then; {self}")


@dataclass(frozen=True, kw_only=True)
class Found:
    """One device as a vendor's tool sees it."""

    model: str
    memory: tuple[int, int] | None = None
    """Free and total, bytes; None when the tool does not tell."""


@dataclass(frozen=True)
class Tool:
    """A way to see a vendor's hardware without torch."""

    name: str
    ask: Callable[[], Sequence[Found]]
    """All devices by the vendor's own index, also those hidden from this process. Raises what it likes when it cannot
    tell."""


@dataclass(frozen=True)
class _Seen:
    """What the first tool that answered sees."""

    found: tuple[Found, ...] | None
    """None when no tool answered."""
    by: str
    notes: tuple[str, ...]
    """Why the tools before it did not answer."""

    def __str__(self) -> str:
        counts = Counter(tidy(device.model) for device in self.found or ())
        return f"{self.by} sees " + ", ".join(f"{count} × {model}" for model, count in counts.items())


class Accelerator:
    """One vendor's chips. Subclass it, fill the fields without a value, and override :meth:`torch_module`.

    Device indices are torch's in this process, from 0, unless a method says otherwise. Instances keep what the tools
    said at the last probe; they are cheap and start nothing.
    """

    name: str
    """How people name it: lower case, no colon, such as "nvidia"."""
    vendor: str
    """The vendor's name in prose."""
    rlinf_type: str
    """Member of RLinf's ``AcceleratorType``. Plain text, as that list grows; "NO_ACCEL" for what it does not know."""
    device_type: str
    """torch device string without an index. Several vendors share "cuda"."""
    remedy: str = "install the vendor's build of torch"
    """What to do when the hardware is there and torch cannot reach it."""
    visible_devices_env: str = ""
    """Variable that shows a process some devices only; empty when the vendor has none."""
    visible_prefix: str = ""
    """What stands before the indices in that variable."""
    ray_noset_env: tuple[str, ...] = ()
    """Variables that keep Ray from setting the visible devices itself."""
    ccl_backend: str = "gloo"
    """``torch.distributed`` backend."""
    ccl_ifname_env: str = "GLOO_SOCKET_IFNAME"
    """Variable that names the backend's network interface."""
    rasterizers: tuple[str, ...] = ("torch",)
    """Rasterizer backends, the preferred one first."""

    _seen: _Seen | None = None

    def torch_module(self) -> ModuleType:
        """The part of torch that drives these devices, such as ``torch.cuda``; imports the vendor's package first.

        Raises:
            ImportError: it cannot be had here; the message says why.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how torch reaches it: override torch_module()")

    def lacks(self) -> str | None:
        """Why this torch cannot reach such devices, however many there are; None when it can."""
        try:
            self.torch_module()
        except ImportError as error:
            return brief(error)
        return None

    def tools(self) -> Sequence[Tool]:
        """Ways to see the hardware without torch, the first that answers counts. None by default."""
        return ()

    def probe(self) -> Probe:
        """How many devices torch can reach. Never raises, and starts torch on no device."""
        try:
            return self._probe()
        except Exception as error:  # noqa: BLE001 - a vendor's library may raise anything; a probe raises nothing.
            return Probe(0, f"probing failed: {brief(error)}")

    def model(self, index: int) -> str:
        """The device's model without colons; "UNKNOWN" when it does not tell. Never raises."""
        try:
            found = self._found_at(index)
            name = UNKNOWN if found is None else tidy(found.model)
            return name if name != UNKNOWN else tidy(self.torch_module().get_device_name(index))
        except Exception:  # noqa: BLE001 - as in probe.
            return UNKNOWN

    def memory(self, index: int) -> tuple[int, int] | None:
        """Free and total memory, bytes; None when the device does not tell. Never raises.

        Where torch has not started on the vendor's devices yet, what a tool said at the last probe is taken, since
        torch would start on the device to tell.
        """
        try:
            found = self._found_at(index)
            module = self.torch_module()
            if found is not None and found.memory is not None and not module.is_initialized():
                return found.memory
            free, total = module.mem_get_info(index)
            return int(free), int(total)
        except Exception:  # noqa: BLE001 - as in probe.
            return None

    def driver(self) -> str | None:
        """The version of the driver in the kernel; None when it does not tell. Never raises."""
        return None

    def synchronize(self, index: int) -> None:
        """Waits until the device has done what it was given."""
        self.torch_module().synchronize(index)

    def torch_device(self, index: int) -> str:
        """torch's string for the device."""
        return f"{self.device_type}:{index}"

    def visible(self, environ: Mapping[str, str]) -> list[int] | None:
        """The vendor's indices of the devices that an environment shows, in torch's order; None when it shows all.

        Raises:
            AcceleratorError: the variable holds something else than indices.
        """
        value = environ.get(self.visible_devices_env) if self.visible_devices_env else None
        if value is None:
            return None
        listed = value.strip().removeprefix(self.visible_prefix).strip()
        if self.visible_prefix and listed == "*":
            return None
        if listed in ("", "-1", "NoDevFiles"):  # The usual ways to show none; the last is Ray's.
            return []
        parts = [part.strip() for part in listed.split(",")]
        if all(part.isascii() and part.isdigit() for part in parts):
            indices = [int(part) for part in parts]
            if len(set(indices)) == len(indices):
                return indices
        raise AcceleratorError(
            f"{self.visible_devices_env} is '{value}'; it must hold different device indices separated by commas, such"
            f" as '{self.visible_prefix}0,1'. Device identifiers are not understood here: give indices, or unset it"
        )

    def isolation(self, indices: Sequence[int], environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of a process that is to see these devices only; to it they are 0, 1, … in the order given.

        Args:
            indices: devices of this process, at least one.
            environ: this process's environment, which may hide devices already; None takes ``os.environ``.

        Returns:
            What to set in the other process. Empty when the vendor has no such variable.

        Raises:
            AcceleratorError: no or repeated indices, or one that the environment does not show.
        """
        wanted = list(indices)
        if not wanted or len(set(wanted)) != len(wanted) or min(wanted) < 0:
            raise AcceleratorError(f"isolation needs one or more different device indices from 0; they are {wanted}")
        if not self.visible_devices_env:
            return {}
        shown = self.visible(os.environ if environ is None else environ)
        if shown is not None and max(wanted) >= len(shown):
            raise AcceleratorError(
                f"{self.visible_devices_env} shows {len(shown)} devices; index {max(wanted)} is none"
            )
        theirs = wanted if shown is None else [shown[index] for index in wanted]
        listed = self.visible_prefix + ",".join(map(str, theirs))
        return {self.visible_devices_env: listed} | dict.fromkeys(self.ray_noset_env, "1")

    def _probe(self) -> Probe:
        seen = self._ask_tools()
        if seen.found == ():
            return Probe(0, f"{seen.by} sees no device")
        lacking = self.lacks()
        if lacking is not None and seen.found:
            return Probe(0, f"{seen}, but torch cannot reach that: {lacking}; {self.remedy}")
        if lacking is not None:
            return Probe(0, "; ".join([lacking, *seen.notes]))
        count = int(self.torch_module().device_count())
        if count > 0:
            return Probe(count)
        counts = f"torch {_torch.version()} counts no device{self._as_shown()}"
        return Probe(0, f"{seen}, but {counts}" if seen.found else "; ".join([counts, *seen.notes]))

    def _ask_tools(self) -> _Seen:
        notes: list[str] = []
        seen = None
        for tool in self.tools():
            try:
                seen = _Seen(tuple(tool.ask()), tool.name, tuple(notes))
                break
            except Exception as error:  # noqa: BLE001 - as in probe.
                notes.append(brief(error))
        self._seen = seen or _Seen(None, "", tuple(notes))
        return self._seen

    def _found_at(self, index: int) -> Found | None:
        """What a tool said of a device; None when there was none, or it is not sure which of its rows is the device."""
        found = (self._seen or self._ask_tools()).found
        # torch may order unlike devices by speed where the tool orders them by slot.
        if not found or len({device.model for device in found}) > 1:
            return None
        try:
            shown = self.visible(os.environ)
        except AcceleratorError:
            return None
        places = range(len(found)) if shown is None else shown
        place = places[index] if 0 <= index < len(places) else len(found)
        return found[place] if place < len(found) else None

    def _as_shown(self) -> str:
        value = os.environ.get(self.visible_devices_env) if self.visible_devices_env else None
        return "" if value is None else f" with {self.visible_devices_env} at '{value}'"


def tidy(model: str) -> str:
    """A model's name on one line without colons, which would end a name in RLinf's resource strings."""
    return " ".join(str(model).replace(":", " ").split()) or UNKNOWN
