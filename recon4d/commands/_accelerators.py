"""``recon4d accelerators``: ``list`` and ``verify``."""

from __future__ import annotations

import json as json_
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from recon4d.commands._device import choice_key, usable
from recon4d.commands._progress import Painter
from recon4d.files import write_atomic

if TYPE_CHECKING:
    from recon4d.accelerators import DeviceStatus, Status
    from recon4d.raster import BackendStatus, Choice
    from recon4d.verify import Report


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


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Find out whether a device computes right: its operators, images and gradients, and a short training.

    Writes verify.json and verify.md, a page for people. Exit code 0 when everything judged has passed, 1 when not.
    It takes about a minute on a CPU.
    """

    name: Annotated[str, tyro.conf.Positional]
    """what to verify: a name of 'recon4d accelerators list', NAME:INDEX, or a torch device."""
    backend: str = "auto"
    """rasterizer; auto is the first of the accelerator's that can be used."""
    out: Path | None = None
    """folder for the two files; verify-NAME when left out."""
    quick: bool = False
    """train for 20 steps and not for 120."""
    json: bool = False
    """print events and the report as JSON lines."""

    def run(self) -> int:
        """Verifies, writes and prints."""
        from recon4d.accelerators import resolve
        from recon4d.verify import verify

        usable(self.name)
        out = self.out or Path(f"verify-{self.name.replace(':', '-')}")
        with Painter(as_json=self.json) as on_event:
            report = verify(resolve(self.name), backend=self.backend, quick=self.quick, on_event=on_event)
        facts = write_atomic(out / "verify.json", json_.dumps(report.to_json(), indent=1) + "\n")
        page = write_atomic(out / "verify.md", report.to_markdown())
        if self.json:
            print(json_.dumps({"event": "result", "json": str(facts), "page": str(page), "report": report.to_json()}))
        else:
            print_report(report)
            print(f"facts  {facts}\npage   {page}")
        return 0 if report.passed else _FAILED


_FAILED = 1
"""Exit code of a verdict: nothing went wrong but the device."""

Action = Annotated[List, tyro.conf.subcommand("list")] | Annotated[Verify, tyro.conf.subcommand("verify")]


def accelerators(action: Annotated[Action, tyro.conf.arg(name="")]) -> int:
    """The chips that can be computed on here, and whether they compute right."""
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


def print_report(report: Report) -> None:
    """The findings, a line each; below them the operators that are not right, and the verdict."""
    console = Console()
    about = f"{report.device} ({report.facts.get('model', '')}), rasterizer {report.backend}: {report.reason}"
    console.print(escape(about), highlight=False)
    table = Table()
    for column in ("part", "what", "value", "at most", "verdict", "remarks"):
        table.add_column(column, overflow="fold")
    for finding in report.findings:
        style = "red" if finding.passed is False else None
        table.add_row(*map(escape, finding.cells()), style=style)
    console.print(table)
    for operator in report.operators:
        if operator.state != "right":
            need = "" if operator.needed else ", which this rasterizer does not need"
            console.print(
                escape(f"operator {operator.name}: {operator.state}{need}. {operator.detail}"), highlight=False
            )
    verdict = f"failed: {len(report.failures)} of {sum(f.passed is not None for f in report.findings)} findings"
    console.print("passed" if report.passed else verdict, style="bold")


def _bytes(device: DeviceStatus) -> dict[str, int] | None:
    return None if device.memory is None else {"free": device.memory[0], "total": device.memory[1]}


def _gib(device: DeviceStatus) -> str:
    return "–" if device.memory is None else " / ".join(f"{size / 2**30:.1f}" for size in device.memory) + " GiB"
