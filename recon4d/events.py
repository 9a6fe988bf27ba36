"""Typed progress events of the long doors.

Every long door takes ``on_event`` and ``should_stop``. The command line draws the events, a service appends
and streams them, tests collect them in a list. ``to_json`` gives the line that ``events.jsonl`` holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events."""

    stage: str
    """Which stage speaks: ingest, static, seeds, joint, score, report, …"""
    wall_time_s: float = field(default_factory=time.time)
    """Seconds since the epoch when it was said."""


@dataclass(frozen=True, kw_only=True)
class Started(Event):
    """A stage begins."""

    total: int | None = None
    """Number of steps to come, when known."""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """Some of a stage's steps are done."""

    step: int
    total: int
    eta_s: float | None = None
    loss: float | None = None
    psnr: float | None = None
    """Decibel over whole training images, a running mean."""
    splats: int | None = None
    """Gaussians in the model."""
    active: int | None = None
    """Gaussians alive in the last step's instant and view."""


@dataclass(frozen=True, kw_only=True)
class Refined(Event):
    """Gaussians were moved, added or removed."""

    step: int
    moved: int
    splats: int


@dataclass(frozen=True, kw_only=True)
class Scored(Event):
    """Scores were computed; ``scores`` is the dictionary that ``scores.json`` holds."""

    scores: dict


@dataclass(frozen=True, kw_only=True)
class Saved(Event):
    """A file or folder was written."""

    path: str


@dataclass(frozen=True, kw_only=True)
class Warned(Event):
    """Work goes on, but somebody should know."""

    message: str


@dataclass(frozen=True, kw_only=True)
class Finished(Event):
    """A stage has ended; ``reused`` when an earlier run's result was still valid."""

    seconds: float
    reused: bool = False
    detail: str = ""


OnEvent = Callable[[Event], None]
ShouldStop = Callable[[], bool]


def ignore(event: Event) -> None:
    """The default ``on_event``: nobody listens."""


def never() -> bool:
    """The default ``should_stop``: go on."""
    return False


def to_json(event: Event) -> dict:
    """One JSON-able dictionary: the event's fields, with its kind under ``event``; empty ones left out."""
    fields = {key: value for key, value in asdict(event).items() if value is not None}
    return {"event": type(event).__name__.lower(), **fields}


def from_json(line: Mapping[str, Any]) -> Event | None:
    """The event that ``to_json`` wrote; None for a line of another kind."""
    kind = next((kind for kind in Event.__subclasses__() if kind.__name__.lower() == line.get("event")), None)
    if kind is None:
        return None
    names = {f.name for f in fields(kind)}
    return kind(**{name: value for name, value in line.items() if name in names})
