"""Which accelerators there are. Modules are named by strings and imported when they are first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from recon4d.accelerators._contract import Accelerator
from recon4d.accelerators._tools import brief

_BUILT_IN = {
    "nvidia": "recon4d.accelerators.nvidia:ACCELERATOR",
    "amd": "recon4d.accelerators.amd:ACCELERATOR",
    "intel": "recon4d.accelerators.intel:ACCELERATOR",
    "ascend": "recon4d.accelerators.ascend:ACCELERATOR",
    "musa": "recon4d.accelerators.musa:ACCELERATOR",
    "kunlunxin": "recon4d.accelerators.kunlunxin:ACCELERATOR",
    "metax": "recon4d.accelerators.metax:ACCELERATOR",
    "biren": "recon4d.accelerators.biren:ACCELERATOR",
    "mps": "recon4d.accelerators.mps:ACCELERATOR",
    "cpu": "recon4d.accelerators.cpu:ACCELERATOR",
}
"""In the order in which "auto" looks for devices. Those of other packages come before the CPU."""
GROUP = "recon4d.accelerators"

_FIELDS = ("name", "vendor", "rlinf_type", "device_type")


@dataclass(frozen=True)
class Broken:
    """An accelerator of another package that cannot be used, and why."""

    reason: str


def known() -> dict[str, Accelerator | Broken]:
    """Every accelerator by name, in order of preference.

    What another package offers under a name that is taken is there too, under its name and value together.
    """
    found: dict[str, Accelerator | Broken] = {name: _load(target) for name, target in _BUILT_IN.items()}
    cpu = found.pop("cpu")
    taken = {"auto", "cpu", *found, *(a.device_type for a in found.values() if isinstance(a, Accelerator))}
    for point in entry_points(group=GROUP):
        if point.name in taken:
            found[f"{point.name} ({point.value})"] = Broken(f"the name '{point.name}' is taken; choose another one")
            continue
        taken.add(point.name)
        found[point.name] = _of_other_package(point)
    return found | {"cpu": cpu}


def _load(target: str) -> Accelerator:
    module, attribute = target.split(":")
    return getattr(import_module(module), attribute)


def _of_other_package(point: EntryPoint) -> Accelerator | Broken:
    try:
        offered = point.load()
    except Exception as error:  # noqa: BLE001 - another package may raise anything when imported.
        return Broken(f"'{point.value}' cannot be imported: {brief(error)}")
    if not isinstance(offered, Accelerator):
        kind = offered.__name__ + ", a class" if isinstance(offered, type) else type(offered).__name__
        return Broken(f"'{point.value}' must be an instance of recon4d.accelerators.Accelerator; it is {kind}")
    lacking = [field for field in _FIELDS if not isinstance(getattr(offered, field, None), str)]
    if lacking:
        return Broken(f"'{point.value}' does not say its {', '.join(lacking)}")
    if offered.name != point.name or ":" in point.name:
        return Broken(f"'{point.value}' is named '{offered.name}'; its entry point must be named so, without a colon")
    return offered
