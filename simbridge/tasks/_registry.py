"""Tasks by name."""

from __future__ import annotations

import difflib
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from simbridge.core import Task
from simbridge.errors import TaskError

_BUILT_IN = {
    "reach": "simbridge.tasks._reach:Reach",
    "push_block": "simbridge.tasks._push_block:PushBlock",
}
_GROUP = "simbridge.tasks"


def tasks() -> tuple[str, ...]:
    """The names that :func:`make_task` takes."""
    return tuple(_places())


def make_task(name: str, **options: Any) -> Task:
    """A task by name, with its options.

    Raises:
        TaskError: there is no such task, or it has no such option; says which there are.
    """
    places = _places()
    if name not in places:
        near = difflib.get_close_matches(name, places, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        raise TaskError(f"no task '{name}'{hint} There are {', '.join(places)}")
    module, _, member = places[name].partition(":")
    kind: Any = getattr(import_module(module), member)
    known = [entry.name for entry in fields(kind)] if is_dataclass(kind) else None
    unknown = [option for option in options if known is not None and option not in known]
    if unknown:
        raise TaskError(f"task '{name}' has no option '{unknown[0]}'; it has {', '.join(known or []) or 'none'}")
    made: Task = kind(**options)  # type: ignore[reportCallIssue] - a class, whatever its fields.
    return made


def _places() -> dict[str, str]:
    outside = {point.name: point.value for point in entry_points(group=_GROUP)}
    return {**outside, **_BUILT_IN}
