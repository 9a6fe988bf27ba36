"""The formats there are, and the door to them."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from recon4d.errors import ConfigError
from recon4d.types import Scene4D

ENTRY_POINTS = "recon4d.export"

_BUILT_IN = {
    "ply": "recon4d.export.ply:FORMAT",
    "ply-sequence": "recon4d.export.ply_sequence:FORMAT",
}


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What a format may be told. Each format says in its summary which of these it heeds."""

    time_s: float | None = None
    """Instant to export, seconds on the capture clock, for formats that hold one; None takes the middle of the clip."""
    fps: float = 30.0
    """Frames per second, for formats that hold many; 30 is what players expect."""

    def __post_init__(self) -> None:
        if not 0 < self.fps <= 1000:
            raise ConfigError(f"fps must lie in (0, 1000]; it is {self.fps}")


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format that scenes can be written in."""

    name: str
    summary: str
    """One line: what it holds and which options it heeds."""
    write: Callable[[Scene4D, Path, ExportOptions], Path]
    """Writes the scene, whole or not at all, and returns what was written."""


def formats() -> dict[str, Format]:
    """All formats by name: those of this package, then those that installed packages offer.

    Raises:
        ConfigError: an installed package offers a name that is taken.
    """
    known = {name: _load_built_in(target) for name, target in _BUILT_IN.items()}
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name in known:
            raise ConfigError(f"the export format '{entry.name}' is offered twice, the second time by '{entry.value}'")
        known[entry.name] = entry.load()
    return known


def export(scene: Scene4D, path: Path | str, format: str, options: ExportOptions = ExportOptions()) -> Path:
    """Writes a scene in another format.

    Args:
        scene: the scene.
        path: the file or folder to write; what is there is replaced.
        format: a name of :func:`formats`.
        options: instant, rate; each format heeds those that its summary names.

    Returns:
        What was written.

    Raises:
        ConfigError: there is no such format, or an option is out of range.
        OutputError: it cannot be written; what was there before is unchanged.
    """
    known = formats()
    if format not in known:
        near = difflib.get_close_matches(format, known, n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise ConfigError(f"there is no export format '{format}'{hint}; there are: {', '.join(sorted(known))}")
    return known[format].write(scene, Path(path), options)


def _load_built_in(target: str) -> Format:
    module, name = target.split(":")
    return getattr(importlib.import_module(module), name)
