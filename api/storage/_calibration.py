"""How a capture's cameras stand: taken from a client, judged by the engine, kept as ``capture.json`` describes it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.database import Database
from api.errors import Problem
from api.settings import Settings
from api.storage._captures import capture_row
from api.storage._files import Label, keep
from api.storage._names import camera_name
from recon4d.errors import CaptureError

if TYPE_CHECKING:
    from recon4d.capture import Finding, Foreign

_EXTRAS = ("bench_plane", "heldout")
_LARGEST_SIDE = 16384
_MOST_CAMERAS = 128


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What is known of a capture's cameras."""

    cameras: dict[str, Any]
    """By name, as ``capture.json`` describes them, without files."""
    extras: dict[str, Any]
    """``bench_plane`` and ``heldout``, where given."""
    warnings: list[dict[str, Any]]
    """The engine's findings that do not keep it from being used."""


def set_calibration(
    database: Database, settings: Settings, capture_id: str, text: bytes, format: str | None = None
) -> Calibration:
    """Takes the cameras of a capture, in any layout that the engine reads.

    Args:
        database: holds the capture.
        settings: say where files lie.
        capture_id: which one.
        text: the JSON of a ``capture.json``, whose names of files are left out of account, or of a ``transforms.json``;
            or, for another layout, an object with the content of each of its JSON files by its path. Times that such
            files hold become timestamp files of the capture.
        format: ``capture``, or a name of ``recon4d.capture.formats()``; None finds out.

    Raises:
        Problem: 404 no such capture; 422 it cannot be read, or the engine refuses it: ``errors`` lists every reason.
    """
    with database.reading() as session:
        capture_row(session, capture_id)
    body = _parse(text)
    if format == "capture" or (format is None and isinstance(body.get("cameras"), list)):
        found, times, findings = body, {}, ()
    else:
        foreign = _read_foreign({"transforms.json": body} if isinstance(body.get("frames"), list) else body, format)
        found, times, findings = foreign.manifest, foreign.timestamps, foreign.findings
    calibration = _judge(found, findings)
    with database.writing() as session:
        row = capture_row(session, capture_id)
        row.rig, row.extras, row.warnings = calibration.cameras, calibration.extras, calibration.warnings
    for camera, seconds in times.items():
        _keep_times(database, settings, Label.of(capture_id, camera, "timestamps", f"{camera}.json"), seconds)
    return calibration


def calibration(database: Database, capture_id: str) -> Calibration:
    """What was set.

    Raises:
        Problem: 404 no such capture, or it has none.
    """
    with database.reading() as session:
        row = capture_row(session, capture_id)
    if row.rig is None:
        raise Problem(404, "not-found", f"the capture '{capture_id}' has no calibration yet", hint="PUT it there")
    return Calibration(cameras=row.rig, extras=row.extras, warnings=row.warnings)


def _parse(text: bytes) -> dict[str, Any]:
    try:
        body = json.loads(text.decode("utf-8-sig"), parse_constant=_no_constant, parse_int=_short)
        json.dumps(body, ensure_ascii=False).encode()  # Half a surrogate pair can be written, but not kept.
    except (ValueError, RecursionError) as error:
        raise Problem(422, "bad-json", f"the body is not JSON: {str(error)[:200]}", hint="correct it there") from error
    if not isinstance(body, dict):
        raise Problem(422, "bad-calibration", f"the body must be an object; it is {type(body).__name__}")
    return body


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _short(digits: str) -> int:
    if len(digits) > 18:
        raise ValueError(f"the number {digits[:18]}… has {len(digits)} digits")
    return int(digits)


def _judge(manifest: dict[str, Any], read: Sequence[Finding] = ()) -> Calibration:
    """What the engine makes of it; ``read`` is what its reader found."""
    from recon4d.capture import check_calibration  # Here, as a service that is asked for none starts sooner.

    cameras = manifest.get("cameras")
    if not isinstance(cameras, list) or len(cameras) > _MOST_CAMERAS:
        raise Problem(422, "bad-calibration", f"'cameras' must be a list of at most {_MOST_CAMERAS} cameras")
    for camera in cameras:
        _require_size(camera)
    bare = [_without_files(camera) for camera in cameras]
    extras = {key: manifest[key] for key in _EXTRAS if manifest.get(key) is not None}
    named = [{**camera, "video": "video"} if isinstance(camera, dict) else camera for camera in bare]
    with tempfile.TemporaryDirectory(prefix="recon4d-") as folder:
        document = {"version": manifest.get("version", 1), "name": "capture", **extras, "cameras": named}
        Path(folder, "capture.json").write_text(json.dumps(document), "utf-8")
        findings = check_calibration(Path(folder))
    errors = [_finding(finding) for finding in findings if finding.severity == "error"]
    if errors:
        first = errors[0]
        raise Problem(
            422,
            "bad-calibration",
            first["message"],
            hint=first.get("advice"),
            camera=first.get("camera"),
            errors=errors,
        )
    warnings = [_finding(finding) for finding in (*read, *findings) if finding.severity != "note"]
    return Calibration(
        cameras={camera_name(camera["name"]): camera for camera in bare}, extras=extras, warnings=warnings
    )


def _require_size(camera: Any) -> None:
    """Pictures of a size that can be worked on: the engine makes arrays of it."""
    for side in ("width", "height"):
        value = camera.get(side) if isinstance(camera, dict) else None
        if isinstance(value, int | float) and value > _LARGEST_SIDE:
            raise Problem(
                422,
                "bad-calibration",
                f"'{side}' is {value:g}; at most {_LARGEST_SIDE} pixels are allowed",
                camera=str(camera.get("name"))[:100],
            )


def _without_files(camera: Any) -> Any:
    return {k: v for k, v in camera.items() if k not in ("video", "timestamps")} if isinstance(camera, dict) else camera


def _finding(finding: Finding) -> dict[str, Any]:
    """Message, advice, camera; the name of the scratch file tells nobody anything."""
    facts = {"message": finding.message, "advice": finding.advice, "camera": finding.camera}
    return {key: value for key, value in facts.items() if value}


def _read_foreign(body: dict[str, Any], format: str | None) -> Foreign:
    """Reads another layout from the content of its files by path."""
    from recon4d import capture

    known = capture.formats()
    if format is not None and format not in known:
        raise Problem(
            422,
            "bad-calibration",
            f"there is no calibration format '{format[:60]}'; there are capture, {', '.join(known)}",
        )
    reasons = []
    with tempfile.TemporaryDirectory(prefix="recon4d-") as folder:
        for name, content in body.items():
            path = Path(name)
            if path.is_absolute() or ".." in path.parts or "\0" in name or len(name) > 200 or not path.name:
                raise Problem(422, "bad-calibration", f"{name[:100]!r} is no path of a file inside a folder")
            target = Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(content), "utf-8")
        others = (name for name in known if name not in capture.calibration_formats())
        for candidate in [format] if format else ["auto", *others]:
            try:
                return capture.read_layout(candidate, folder)
            except CaptureError as error:
                reasons.append(f"{candidate}: {error}".replace(folder, "the body"))
    raise Problem(
        422,
        "bad-calibration",
        f"the body is no calibration in a known format: {'; '.join(reasons)}",
        hint="send the content of capture.json, or an object with each JSON file of the layout by its path; other"
        " forms, and what needs an option, are turned to capture.json by `recon4d convert-calibration`",
    )


def _keep_times(database: Database, settings: Settings, label: Label, seconds: list[float]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=settings.data_dir / "uploads", suffix=".part") as file:
        json.dump(seconds, file)
        file.flush()
        keep(database, settings, label, Path(file.name), None)
