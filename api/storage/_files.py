"""Files of a capture: checked, named by the service, one a camera and kind."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from api.database import Database
from api.errors import Problem
from api.ids import fresh
from api.settings import Settings
from api.storage import _probe
from api.storage._captures import capture_row
from api.storage._names import camera_name, capture_folder, file_kind, place, shown_name
from api.storage._quota import admit
from api.tables import CaptureFile, Upload

_PROBE_S = 120.0
_PROBES = threading.BoundedSemaphore(4)
"""Each takes a process; more at once would not be done sooner."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """What a client says that a file is."""

    capture_id: str
    camera: str
    kind: str
    filename: str

    @classmethod
    def of(cls, capture_id: str, camera: str, kind: str, filename: str) -> Label:
        """Checked and made fit to show.

        Raises:
            Problem: 422.
        """
        camera, kind = camera_name(camera), file_kind(kind)
        return cls(capture_id=capture_id, camera=camera, kind=kind, filename=shown_name(filename, camera))


def add_file(database: Database, settings: Settings, label: Label, source: Path, sha256: str | None) -> CaptureFile:
    """Takes a whole file that lies in the data folder into a capture; the source stays.

    Raises:
        Problem: 404 no such capture; 413, 409, 507 it does not fit; 422 another hash, or not what it should be.
    """
    with database.reading() as session:
        capture_row(session, label.capture_id)
        admit(session, settings, label.capture_id, source.stat().st_size)
    return keep(database, settings, label, source, sha256)


def keep(
    database: Database,
    settings: Settings,
    label: Label,
    source: Path,
    sha256: str | None,
    upload_id: str | None = None,
) -> CaptureFile:
    """Checks hash and content, gives the file its place and its row in one transaction, and removes its forerunner.

    A crash in between leaves a file without a row, which sweeping removes.
    """
    found = sha256_of(source)
    if sha256 is not None and sha256.lower() != found:
        raise Problem(
            422,
            "hash-mismatch",
            f"the file's SHA-256 is {found}, not {sha256.lower()[:64]}",
            hint="delete the upload and send the file again",
            camera=label.camera,
            file=label.filename,
        )
    suffix, facts = inspect(label, source)
    id = fresh("fil")
    stored = capture_folder(settings, label.capture_id) / f"{id}{suffix}"
    row = CaptureFile(
        id=id,
        capture_id=label.capture_id,
        camera=label.camera,
        kind=label.kind,
        filename=label.filename,
        stored=stored.relative_to(settings.data_dir).as_posix(),
        size=source.stat().st_size,
        sha256=found,
        facts=facts,
    )
    place(source, stored)
    try:
        forerunner = _enter(database, row, upload_id)
    except BaseException:
        stored.unlink(missing_ok=True)
        raise
    if forerunner is not None:
        (settings.data_dir / forerunner).unlink(missing_ok=True)
    return row


def remove_file(database: Database, settings: Settings, capture_id: str, file_id: str) -> None:
    """Takes a file out of a capture.

    Raises:
        Problem: 404.
    """
    with database.writing() as session:
        row = session.get(CaptureFile, file_id)
        if row is None or row.capture_id != capture_id:
            raise Problem(404, "not-found", f"the capture has no file '{file_id[:60]}'")
        session.delete(row)
    (settings.data_dir / row.stored).unlink(missing_ok=True)


def inspect(label: Label, path: Path) -> tuple[str, dict[str, Any]]:
    """The suffix that the content asks for, and facts of it.

    A process of its own looks at it: what a crafted file may do to a decoder ends there.

    Raises:
        Problem: 422, it is not what it is said to be.
    """
    command = [sys.executable, "-I", _probe.__file__, label.kind, str(path.resolve())]
    try:
        with _PROBES:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_PROBE_S, stdin=subprocess.DEVNULL, check=False
            )
        answer = json.loads(done.stdout) if done.returncode == 0 else {}
    except (subprocess.TimeoutExpired, ValueError):
        answer = {}
    if "facts" in answer:
        return answer["suffix"], answer["facts"]
    raise Problem(
        422,
        "unreadable-file",
        f"camera '{label.camera}', {label.filename}: {answer.get('refused', 'reading it ends in a crash')}",
        hint="send the video as the camera wrote it" if label.kind == "video" else "send one time in seconds a frame",
        camera=label.camera,
        file=label.filename,
    )


def sha256_of(path: Path) -> str:
    """Of the whole file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _enter(database: Database, row: CaptureFile, upload_id: str | None) -> str | None:
    """Adds the row in place of its forerunner, whose path it returns, and ends the upload."""
    same = select(CaptureFile).where(
        CaptureFile.capture_id == row.capture_id, CaptureFile.camera == row.camera, CaptureFile.kind == row.kind
    )
    with database.writing() as session:
        capture_row(session, row.capture_id)  # It may have been deleted while the file was looked at.
        forerunner = session.scalar(same)
        if forerunner is not None:
            session.delete(forerunner)
            session.flush()
        session.add(row)
        if upload_id is not None:
            upload = session.get_one(Upload, upload_id)
            upload.file_id = row.id
    return None if forerunner is None else forerunner.stored
