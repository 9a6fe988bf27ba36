"""A capture as the engine reads it: a folder with ``capture.json`` and a file a camera and kind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from api.database import Database
from api.errors import Problem
from api.settings import Settings
from api.storage._captures import CaptureState, find_capture
from api.storage._names import place


def materialise(database: Database, settings: Settings, capture_id: str, folder: Path) -> Path:
    """Writes the capture as a folder, in place of what was there before; it appears whole or not at all.

    Files are linked, so the folder stays what it is when the capture changes or is deleted.

    Args:
        database: holds the capture.
        settings: say where its files lie.
        capture_id: which one.
        folder: where to.

    Returns:
        The folder.

    Raises:
        Problem: 404 no such capture; 409 it is not complete.
    """
    found = find_capture(database, capture_id)
    if found.missing:
        raise Problem(
            409,
            "not-ready",
            f"the capture '{capture_id}' is not complete: {'; '.join(found.missing)}",
            hint="send what is missing first",
            missing=found.missing,
        )
    temporary = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    (temporary / "capture.json").write_text(json.dumps(_manifest(found), indent=1, ensure_ascii=False), "utf-8")
    for file in found.files:
        place(settings.data_dir / file.stored, temporary / _file_name(file.camera, file.kind, file.stored))
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    return folder


def _manifest(capture: CaptureState) -> dict[str, object]:
    names = {(file.camera, file.kind): _file_name(file.camera, file.kind, file.stored) for file in capture.files}
    cameras = []
    for name, camera in (capture.row.rig or {}).items():
        timed = {"timestamps": names[name, "timestamps"]} if (name, "timestamps") in names else {}
        cameras.append({**camera, "name": name, "video": names[name, "video"], **timed})
    return {
        "version": 1,
        "name": capture.row.name,
        "notes": capture.row.notes,
        **capture.row.extras,
        "cameras": cameras,
    }


def _file_name(camera: str, kind: str, stored: str) -> str:
    return camera + ("" if kind == "video" else ".timestamps") + Path(stored).suffix
