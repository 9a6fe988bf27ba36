"""Capture layouts of other projects, converted to a capture folder.

A format is a function ``read(source) -> Foreign``. To add one: a file here with such a function, and one line in
``_BUILTIN``; or, from another package, an entry point of the group ``recon4d.formats`` whose name is the format's.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from recon4d.errors import CaptureError, ConfigError, OutputError

_GROUP = "recon4d.formats"
_BUILTIN = {
    "pusht-embodied": "recon4d.capture.formats.pusht_embodied:read",
}


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A capture as a format's reader found it."""

    manifest: dict[str, Any]
    """``capture.json`` but for the cameras' fields ``video`` and ``timestamps``."""
    videos: dict[str, Path]
    """Of each camera by name: its video."""
    timestamps: dict[str, list[float]] = field(default_factory=dict)
    """Of each camera by name: seconds per frame, where the layout has them."""


Read = Callable[[Path], Foreign]


def formats() -> tuple[str, ...]:
    """Names of the layouts that can be imported."""
    return tuple(sorted({*_BUILTIN, *(entry.name for entry in entry_points(group=_GROUP))}))


def import_capture(format: str, source: Path | str, target: Path | str | None = None) -> Path:
    """Writes a capture folder from another layout; the source is only read, unless it is the target.

    Args:
        format: One of ``formats()``.
        source: The layout's folder.
        target: The folder to write; ``./<name of the source>`` when None. Videos that do not lie inside it are
            linked into it, or copied where the file system cannot link.

    Returns:
        The capture folder.

    Raises:
        ConfigError: there is no such format.
        CaptureError: the source does not hold what the format says.
        OutputError: the target holds a capture already, or cannot be written.
    """
    source = Path(source)
    target = Path(source.resolve().name) if target is None else Path(target)
    foreign = read_layout(format, source)
    manifest = target / "capture.json"
    if manifest.exists():
        raise OutputError(f"'{manifest}' exists already; remove it, or choose another folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
        cameras = []
        for camera in foreign.manifest["cameras"]:
            name = camera["name"]
            placed = {**camera, "video": _place(foreign.videos[name], target, name)}
            if name in foreign.timestamps:
                placed["timestamps"] = f"{name}.timestamps.json"
                (target / placed["timestamps"]).write_text(json.dumps(foreign.timestamps[name]), "utf-8")
            cameras.append(placed)
        text = json.dumps({**foreign.manifest, "cameras": cameras}, indent=2, ensure_ascii=False)
        manifest.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise OutputError(f"'{target}' cannot be written: {error}; choose another folder") from error
    return target


def read_layout(format: str, source: Path | str) -> Foreign:
    """Reads another layout's description; its videos need not be there, and nothing is written.

    Raises:
        ConfigError: there is no such format.
        CaptureError: the source does not hold what the format says.
    """
    return _reader(format)(Path(source))


def _reader(format: str) -> Read:
    if format in _BUILTIN:
        module, _, function = _BUILTIN[format].partition(":")
        return getattr(importlib.import_module(module), function)
    for entry in entry_points(group=_GROUP):
        if entry.name == format:
            return entry.load()
    raise ConfigError(f"there is no capture format '{format}'; there are {list(formats())}")


def _place(video: Path, target: Path, name: str) -> str:
    """The video's path relative to the target, into which it is brought unless it lies there already."""
    if not video.is_file():
        raise CaptureError("the video file is missing", camera=name, file=str(video))
    video, folder = video.resolve(), target.resolve()
    if video.is_relative_to(folder):
        return video.relative_to(folder).as_posix()
    placed = folder / f"{name}{video.suffix}"
    placed.unlink(missing_ok=True)
    try:
        os.link(video, placed)
    except OSError:  # Another disk, or a file system or owner that forbids links: copy, which reports its own trouble.
        shutil.copyfile(video, placed)
    return placed.name
