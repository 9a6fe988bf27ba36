"""``recon4d check``."""

from __future__ import annotations

import json as json_
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.markup import escape
from rich.table import Table

from recon4d.commands._progress import Painter, stop_on_signal, table_console
from recon4d.errors import CaptureError, OutputError

if TYPE_CHECKING:
    from recon4d.capture import Examination
    from recon4d.reconstruct import Estimate

_COLOURS = {"error": "red", "warning": "yellow", "note": "dim"}


def check(
    capture: Annotated[Path, tyro.conf.Positional], /, *, json: bool = False, sheet: str = "", quiet: bool = False
) -> int:
    """Say what is wrong with a capture, without training, and draw a sheet to look at.

    Every video is decoded to its end. The sheet shows each camera at three times, with the bench's grid, the world's
    axes and the other cameras: where the poses are right, the grid lies on the bench. Exit code 0 when the capture can
    be reconstructed (there may be warnings), else that of a capture error.

    Args:
        capture: capture folder; it is only read.
        json: print one JSON object instead of tables.
        sheet: PNG to draw; CAPTURE.check.png beside the capture when left out, "none" for no sheet.
        quiet: say nothing of the progress.
    """
    from recon4d.capture import contact_sheet, examine
    from recon4d.reconstruct import estimates

    place = _place(capture, sheet)
    with stop_on_signal() as should_stop, Painter(quiet=quiet or json) as on_event:
        examination = examine(capture, on_event=on_event, should_stop=should_stop)
    expected = estimates(examination) if examination.usable else {}
    picture = None if place is None else contact_sheet(examination)
    drawn = None if picture is None else place
    if json:
        costs = {name: vars(cost) for name, cost in expected.items()}
        report = {"capture": str(capture), **examination.to_json(), "estimates": costs, "sheet": drawn and str(drawn)}
        print(json_.dumps(report))
    else:
        _show(examination, expected)
        if drawn is not None:
            print(f"sheet   {drawn}")
        counts = ", ".join(f"{count} {kind}" for kind, count in examination.counts().items())
        print(f"{capture}: {counts}", file=sys.stderr)
    if drawn is not None:  # Last: what was found is said even where no sheet can be written.
        _write(drawn, picture)
    return 0 if examination.usable else CaptureError.exit_code


def _place(capture: Path, sheet: str) -> Path | None:
    if sheet == "none":
        return None
    folder = capture.resolve()
    place = Path(sheet) if sheet else folder.with_name(f"{folder.name}.check.png")
    if place.suffix.lower() != ".png":
        raise OutputError(f"the sheet '{place}' must be a .png file; correct --sheet, or write --sheet none")
    return place


def _write(place: Path, picture: Any) -> None:  # A numpy array; numpy is not imported for the help alone.
    import cv2

    from recon4d.files import write_atomic

    done, data = cv2.imencode(".png", picture[..., ::-1])
    assert done
    write_atomic(place, data.tobytes())


def _show(examination: Examination, expected: dict[str, Estimate]) -> None:
    """Tables of the findings and of the cameras, and what holds for all of them."""
    console = table_console()
    if examination.findings:
        console.print(_findings(examination))
    if examination.cameras:
        console.print(_cameras(examination))
    if examination.common_s is not None:
        start, end = examination.common_s
        print(f"time    {start:.3f} to {end:.3f} s is covered by all cameras: {end - start:.3f} s")
    if examination.clocks:
        print(f"clocks  {examination.clocks}")
    if examination.poses:
        print(f"poses   {examination.poses}")
    if expected:
        costs = "; ".join(
            f"{name} {_minutes(cost.seconds)}, {cost.memory_mib / 1024:.1f} GiB" for name, cost in expected.items()
        )
        cores = next(iter(expected.values())).cores
        print(f"cost    about {costs} (from runs on 2 cores, scaled to the {cores} of this machine)")


def _findings(examination: Examination) -> Table:
    table = Table(show_lines=False)
    for name in ("severity", "camera", "finding", "what to do"):
        table.add_column(name, overflow="fold")
    for finding in examination.by_severity():
        found = f"{finding.file}: {finding.message}" if finding.file else finding.message
        cells = (finding.severity, finding.camera or "all", found, finding.advice)
        table.add_row(*map(escape, cells), style=_COLOURS[finding.severity])
    return table


def _cameras(examination: Examination) -> Table:
    table = Table()
    for name in ("camera", "video"):
        table.add_column(name, overflow="fold")
    for name in ("pixels", "codec", "frames", "a second", "from, s", "to, s", "level of 255"):
        table.add_column(name, justify="right")
    for facts in examination.cameras:
        numbers = (
            ("d", facts.frames),
            (".4g", facts.usual_hz),
            (".3f", facts.first_s),
            (".3f", facts.last_s),
            (".0f", facts.brightness),
        )
        cells = ("–" if value is None else format(value, form) for form, value in numbers)
        size = f"{facts.width}x{facts.height}"
        table.add_row(escape(facts.camera), escape(facts.video), size, facts.codec or "–", *cells)
    return table


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
