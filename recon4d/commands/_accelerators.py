"""``recon4d accelerators``."""

from __future__ import annotations

import json as json_
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from recon4d.commands._device import choice_key

if TYPE_CHECKING:
    from recon4d.accelerators import DeviceStatus, Status
    from recon4d.raster import BackendStatus, Choice


@dataclass(frozen=True, kw_only=True)
class List:
    """Show every accelerator: its devices and the rasterizer that suits it, or why it is not there."""

    json: bool = False
    """print one JSON line an accelerator."""

    def run(self) -> int:
        """Prints the table."""
        from recon4d.accelerators import accelerators
        from recon4d.raster import backends

        there, rasterizers = accelerators(), backends()
        if self.json:
            for status in there.values():
                print(json_.dumps(facts(status, rasterizers)))
        else:
            print_tables(there.values(), rasterizers)
        return 0


# A further action is one more member, in the place of None: a union needs two.
Action = Annotated[List, tyro.conf.subcommand("list")] | Annotated[None, tyro.conf.Suppress]


def accelerators(action: Annotated[Action, tyro.conf.arg(name="")]) -> int:
    """The chips that can be computed on here."""
    assert action is not None  # The argument parser insists on one.
    return action.run()


def rasterizer(status: Status, rasterizers: dict[str, BackendStatus]) -> tuple[str, dict[str, str]]:
    """The rasterizer for an accelerator, and why others are not: the fastest where they have been tried, else the
    first of the preferred ones that can be used.

    The name is empty when none can.
    """
    from recon4d.raster import Missing

    known = _tried(status)
    if known is not None:
        best = known.milliseconds[known.backend]
        slower = {n: f"{ms:.1f} ms, not {best:.1f}" for n, ms in known.milliseconds.items() if n != known.backend}
        return known.backend, slower | known.skipped
    skipped: dict[str, str] = {}
    for name in status.rasterizers:
        row = rasterizers.get(name)
        if row is None:
            skipped[name] = "not installed"
        elif isinstance(row.status, Missing):
            skipped[name] = row.status.reason
        elif "*" not in row.devices and status.device_type not in row.devices:
            skipped[name] = f"takes tensors on {', '.join(row.devices)}"
        else:
            return name, skipped
    return "", skipped


def _tried(status: Status) -> Choice | None:
    """What was found when the accelerator was first used; None when that has not been."""
    import torch

    from recon4d.raster import remembered

    if not status.devices or status.device_type == "cpu":
        return None
    device = status.devices[0]
    key = choice_key(status.name, device.model)
    return remembered(torch.device(device.torch_device), preferred=status.rasterizers, key=key)


def facts(status: Status, rasterizers: dict[str, BackendStatus]) -> dict[str, Any]:
    """A row as JSON holds it; memory in bytes."""
    name, skipped = rasterizer(status, rasterizers)
    row = {key: value for key, value in asdict(status).items() if key not in ("devices", "rasterizers")}
    devices = [asdict(device) | {"memory": _bytes(device)} for device in status.devices]
    return row | {"devices": devices, "rasterizer": name, "skipped_rasterizers": skipped}


def print_tables(there: Iterable[Status], rasterizers: dict[str, BackendStatus]) -> None:
    """What there is, a line a device; below it what there is not, and why."""
    present, absent = Table(), Table(title="not here", title_justify="left")
    for column in ("name", "vendor", "devices", "model", "free / total memory", "torch device", "rasterizer"):
        present.add_column(column)
    for column in ("name", "vendor", "devices", "reason"):
        absent.add_column(column)
    for status in there:
        if not status.count:
            absent.add_row(status.name, escape(status.vendor), "0", escape(status.reason))
            continue
        name, skipped = rasterizer(status, rasterizers)
        why = "; ".join(f"not {other}: {reason}" for other, reason in skipped.items())
        chosen = escape(f"{name or 'none'} ({why})" if why else name)
        for device in status.devices:
            head = (status.name, escape(status.vendor), str(status.count)) if device.index == 0 else ("", "", "")
            last = chosen if device.index == 0 else ""
            present.add_row(*head, escape(device.model), _gib(device), device.torch_device, last)
    console = Console()
    console.print(present)
    console.print(absent)


def _bytes(device: DeviceStatus) -> dict[str, int] | None:
    return None if device.memory is None else {"free": device.memory[0], "total": device.memory[1]}


def _gib(device: DeviceStatus) -> str:
    return "–" if device.memory is None else " / ".join(f"{size / 2**30:.1f}" for size in device.memory) + " GiB"
