"""What kinds of jobs there are.

Add a kind: one module with a function that does the work, and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from api.database import Database
from api.settings import Settings
from api.tables import Job
from recon4d.events import OnEvent, ShouldStop

HOST = "host"
"""The slot, beside those of the settings, of jobs that need no accelerator and little time."""


Finish = Callable[[Callable[[Session], dict[str, Any]]], None]
"""Ends the job with the result that the function gives, within the transaction in which it may write rows; see
``Lease.succeed``."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One attempt at a job, as the function that does the work gets it."""

    job: Job
    settings: Settings
    database: Database
    folder: Path
    """The job's own: ``files/`` in it is for clients to see, the rest is the work's."""
    device: str
    """torch device to compute on."""
    on_event: OnEvent
    should_stop: ShouldStop
    finish: Finish


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a kind of job is done."""

    work: str
    """``module:function``, imported where the work is done; takes a :class:`Task` and calls its ``finish``."""
    on_host: bool
    """Runs beside the slots, one at a time."""
    stops: bool
    """Asks ``should_stop`` and leaves something to go on from; others are simply killed."""
    stages: dict[str, float]
    """In order, and the share of the time that each takes, for the estimate of how much is done."""

    def function(self) -> Callable[[Task], None]:
        """The function that does the work."""
        module, name = self.work.split(":")
        return getattr(import_module(module), name)


KINDS: dict[str, Kind] = {
    "check": Kind(
        work="api.jobs._check:check",
        on_host=True,
        stops=False,
        stages={"check": 0.9, "pictures": 0.1},
    ),
    "reconstruct": Kind(
        work="api.jobs._reconstruct:reconstruct",
        on_host=False,
        stops=True,
        stages={
            "ingest": 0.04,
            "static": 0.16,
            "seeds": 0.05,
            "joint": 0.58,
            "score": 0.07,
            "report": 0.08,
            "finishing": 0.02,
        },
    ),
    "bundle": Kind(
        work="api.jobs._bundle:bundle",
        on_host=True,
        stops=False,
        stages={
            "background": 0.05,
            "model": 0.05,
            "splats": 0.15,
            "envelope": 0.25,
            "colour": 0.25,
            "pictures": 0.15,
            "finishing": 0.1,
        },
    ),
}


def kinds_on(slot: str) -> tuple[str, ...]:
    """The kinds of jobs that run on a slot."""
    return tuple(name for name, kind in KINDS.items() if kind.on_host == (slot == HOST))
