"""How events look on a terminal, in a log, and as JSON."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from recon4d import events
from recon4d.events import Event, OnEvent, ShouldStop, to_json

_PIPED_COLUMNS = 180
"""Where there is no terminal, tables are made so wide that hardly a line is broken."""


def table_console() -> Console:
    """Where tables are printed: stdout."""
    console = Console()
    return console if console.is_terminal else Console(width=_PIPED_COLUMNS)


class Painter:
    """Draws events: a bar a stage on a terminal, a line now and then elsewhere, JSON lines when asked.

    Args:
        quiet: only warnings are shown.
        as_json: every event as one JSON line on stdout, and nothing else.
    """

    _EVERY = 0.1  # Share of a stage between two lines where there is no terminal.

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self._quiet = quiet
        self._as_json = as_json
        self._console = Console(stderr=True)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, float] = {}

    def __enter__(self) -> OnEvent:
        if self._console.is_terminal and not self._quiet and not self._as_json:
            self._bars = Progress(
                TextColumn("{task.description:<8}"),
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[facts]}"),
                console=self._console,
            )
            self._bars.start()
        return self._on_event

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def _on_event(self, event: Event) -> None:
        if self._as_json:
            print(json.dumps(to_json(event)), flush=True)
        elif isinstance(event, events.Warned):
            self._console.print(f"[yellow]warning[/] {escape(event.message)}", highlight=False)
        elif not self._quiet:
            self._draw(event)

    def _draw(self, event: Event) -> None:
        if isinstance(event, events.Started):
            self._begin(event.stage, event.detail)
        elif isinstance(event, events.Progress):
            self._advance(event)
        elif isinstance(event, events.Finished):
            self._end(event)

    def _begin(self, stage: str, detail: str) -> None:
        self._said[stage] = 0.0
        if stage == "run":
            self._tasks.clear()  # The next capture of a batch gets bars of its own.
            self._console.print(escape(detail), style="bold", highlight=False)
        elif self._bars is None:
            self._console.print(f"{stage}: {escape(detail)}".rstrip(": "), highlight=False)
        elif stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=1.0, facts=escape(detail))

    def _advance(self, event: events.Progress) -> None:
        share = event.step / max(event.total, 1)
        if self._bars is not None and event.stage in self._tasks:
            self._bars.update(self._tasks[event.stage], completed=share, facts=_facts(event))
        elif self._bars is None and share >= self._said.get(event.stage, 0.0) + self._EVERY:
            self._said[event.stage] = share
            self._console.print(f"{event.stage}: {100 * share:.0f} %  {_facts(event)}", highlight=False)

    def _end(self, event: events.Finished) -> None:
        facts = "unchanged since an earlier run" if event.reused else event.detail or f"{event.seconds:.1f} s"
        if self._bars is None:
            self._console.print(f"{event.stage}: done, {escape(facts)}", highlight=False)
            return
        if event.stage not in self._tasks:
            self._tasks[event.stage] = self._bars.add_task(event.stage, total=1.0, facts="")
        self._bars.update(self._tasks[event.stage], completed=1.0, facts=escape(facts))
        self._bars.stop_task(self._tasks[event.stage])


def _facts(event: events.Progress) -> str:
    parts = [
        f"{event.psnr:.1f} dB" if event.psnr is not None else "",
        f"{event.splats:,} splats" if event.splats is not None else "",
        f"{event.active:,} alive" if event.active is not None else "",
        f"{_clock(event.eta_s)} left" if event.eta_s is not None else "",
    ]
    return "  ".join(part for part in parts if part)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def stop_on_signal() -> Iterator[ShouldStop]:
    """While inside, Ctrl-C and a termination request ask for a clean stop; a second one aborts at once."""
    asked = False

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        print("\nstopping at the next step, with a checkpoint; press Ctrl-C again to abort", file=sys.stderr)

    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
