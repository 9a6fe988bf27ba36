"""Capture layouts of other projects, converted to a capture folder.

A format is a function ``read(source) -> Foreign``, with a keyword argument for each option that it takes. To add one: a
file here with such a function, and one line in ``_BUILTIN``; or, from another package, an entry point of the group
``recon4d.formats`` whose name is the format's. Formats that are calibrations alone (a ``CalibrationFormat`` each,
listed in ``recon4d.capture.calibrations._calibrations``) become captures together with videos.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from recon4d.capture._findings import Finding
from recon4d.capture.calibrations import calibration_formats, is_calibration
from recon4d.capture.video import Part, cut
from recon4d.errors import CaptureError, ConfigError, OutputError

_GROUP = "recon4d.formats"
_BUILTIN = {
    "lerobot": "recon4d.capture.formats.lerobot:read",
}


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A capture as a format's reader found it."""

    manifest: dict[str, Any]
    """``capture.json`` but for the cameras' fields ``video`` and ``timestamps``."""
    videos: Mapping[str, Path | Part]
    """Of each camera by name: its video, or the part of a longer one that is to be cut out."""
    timestamps: dict[str, list[float]] = field(default_factory=dict)
    """Of each camera by name: seconds per frame, where the layout has them."""
    files: dict[str, str] = field(default_factory=dict)
    """What else the layout holds, by the name of the file to write beside ``capture.json``."""
    findings: tuple[Finding, ...] = ()
    """Warnings and notes: what was left out, and why."""


Read = Callable[..., Foreign]


def formats() -> tuple[str, ...]:
    """Names of the layouts that can be imported."""
    offered = (entry.name for entry in entry_points(group=_GROUP))
    return tuple(sorted({*_BUILTIN, *calibration_formats(), *offered}))


def import_capture(
    format: str,
    source: Path | str,
    target: Path | str | None = None,
    *,
    on_finding: Callable[[Finding], None] | None = None,
    **options: Any,
) -> Path:
    """Writes a capture folder from another layout; the source is only read, unless it is the target.

    Args:
        format: One of ``formats()``; "auto" finds out by content.
        source: The layout's folder.
        target: The folder to write; ``./<name of the source>`` when None. Videos that do not lie inside it are
            linked into it, or copied where the file system cannot link.
        on_finding: Gets the reader's warnings and notes; they are dropped when None.
        options: What the format's reader takes beside the source; for calibrations, see
            ``recon4d.capture._calibrated.read_calibrated``.

    Returns:
        The capture folder.

    Raises:
        ConfigError: there is no such format, or it takes no such option.
        CaptureError: the source does not hold what the format says.
        OutputError: the target holds a capture or another file of such a name already, or cannot be written.
    """
    source = Path(source)
    target = Path(source.resolve().name) if target is None else Path(target)
    if is_calibration(format):
        options = {"need_videos": True, **options}
    foreign = read_layout(format, source, **options)
    if on_finding is not None:
        for finding in foreign.findings:
            on_finding(finding)
    try:
        _write(foreign, target)
    except OSError as error:
        raise OutputError(f"'{target}' cannot be written: {error}; choose another folder") from error
    return target


def _write(foreign: Foreign, target: Path) -> None:
    """Writes the capture folder; nothing that is there already is touched."""
    texts = dict(foreign.files)
    cameras = []
    for camera in foreign.manifest["cameras"]:
        name = camera["name"]
        if name != Path(name).name or "\\" in name:  # Files are named after it.
            raise CaptureError("the name must be one without slashes", camera=name)
        placed = {**camera, "video": _placed(foreign.videos[name], target, name)}
        if name in foreign.timestamps:
            placed["timestamps"] = f"{name}.timestamps.json"
            texts[placed["timestamps"]] = json.dumps(foreign.timestamps[name])
        cameras.append(placed)
    whole = {**foreign.manifest, "cameras": cameras}
    texts["capture.json"] = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"  # Last: then all else is there.
    videos = {camera["video"]: foreign.videos[camera["name"]] for camera in cameras}
    for name in (*texts, *videos):
        _refuse_taken(target / name, videos.get(name))
    target.mkdir(parents=True, exist_ok=True)
    for camera in cameras:
        _place(foreign.videos[camera["name"]], target / camera["video"], camera["name"])
    for name, text in texts.items():
        (target / name).write_text(text, "utf-8")


def _refuse_taken(path: Path, video: Path | Part | None) -> None:
    """Nothing may be there, unless it is the very video that is to be there.

    Raises:
        OutputError: another file has the name.
    """
    if os.path.lexists(path) and not (isinstance(video, Path) and path.exists() and path.samefile(video)):
        raise OutputError(f"'{path}' exists already; remove it, or choose another folder")


def read_layout(format: str, source: Path | str, **options: Any) -> Foreign:
    """Reads another layout's description; its videos need not be there, and nothing is written.

    Raises:
        ConfigError: there is no such format, or it takes no such option.
        CaptureError: the source does not hold what the format says.
    """
    reader = _reader(format)
    known = [name for name, p in inspect.signature(reader).parameters.items() if p.kind is p.KEYWORD_ONLY]
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise ConfigError(f"the format '{format}' takes no {unknown}; it takes {known or 'no options'}")
    return reader(Path(source), **options)


def _reader(format: str) -> Read:
    if format in _BUILTIN:
        module, _, function = _BUILTIN[format].partition(":")
        return getattr(importlib.import_module(module), function)
    for entry in entry_points(group=_GROUP):
        if entry.name == format:
            return entry.load()
    if is_calibration(format):
        from recon4d.capture._calibrated import read_calibrated

        return partial(read_calibrated, format)
    raise ConfigError(f"there is no capture format '{format}'; there are {list(formats())}")


def _placed(video: Path | Part, target: Path, name: str) -> str:
    """Where the video is to be, relative to the target: where it is, or else beside ``capture.json``."""
    if isinstance(video, Part):
        return f"{name}.mp4"
    if not video.is_file():
        raise CaptureError("the video file is missing", camera=name, file=str(video))
    video, folder = video.resolve(), target.resolve()
    return video.relative_to(folder).as_posix() if video.is_relative_to(folder) else f"{name}{video.suffix}"


def _place(video: Path | Part, placed: Path, name: str) -> None:
    """Brings a video to its place, unless it is there."""
    if isinstance(video, Part):
        cut(video, placed, name)
        return
    if placed.exists():
        return
    video = video.resolve()
    try:
        os.link(video, placed)
    except OSError:  # Another disk, or a file system or owner that forbids links: copy, which reports its own trouble.
        shutil.copyfile(video, placed)
