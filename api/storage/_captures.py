"""Captures: what has come in, and what is still missing before they can be reconstructed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from api.database import Database
from api.errors import Problem
from api.ids import fresh
from api.settings import Settings
from api.storage._names import capture_folder, part_path
from api.storage._rows import found
from api.tables import Capture, CaptureFile, Job, Upload
from api.wire import page


@dataclass(frozen=True, kw_only=True)
class CaptureState:
    """A capture with all that belongs to it."""

    row: Capture
    files: Sequence[CaptureFile]
    uploads: Sequence[Upload]
    """Those that are not finished."""

    @property
    def missing(self) -> list[str]:
        """What has to come before the engine can read the capture; empty when it is ready."""
        videos = {file.camera for file in self.files if file.kind == "video"}
        if self.row.rig is None:
            return ["there is no calibration"] + ([] if videos else ["there is no video"])
        timed = {file.camera for file in self.files if file.kind == "timestamps"}
        return [
            *(f"camera '{name}' has no video" for name in self.row.rig if name not in videos),
            *(
                f"camera '{name}' has a video, but is not in the calibration"
                for name in sorted(videos - set(self.row.rig))
            ),
            *(f"camera '{name}' has timestamps, but no video" for name in sorted(timed - videos - set(self.row.rig))),
        ]


def create_capture(database: Database, name: str, notes: str) -> CaptureState:
    """A new, empty capture."""
    row = Capture(id=fresh("cap"), name=name, notes=notes)
    with database.writing() as session:
        session.add(row)
    return CaptureState(row=row, files=(), uploads=())


def find_capture(database: Database, id: str) -> CaptureState:
    """The capture.

    Raises:
        Problem: 404.
    """
    with database.reading() as session:
        return state(session, capture_row(session, id))


def list_captures(database: Database, limit: int, cursor: str | None) -> tuple[list[CaptureState], str | None]:
    """A page of captures, newest first, and the cursor of the next one."""
    with database.reading() as session:
        rows, following = page(session, select(Capture), (Capture.created_at, Capture.id), limit, cursor)
        return [state(session, row) for row in rows], following


def delete_capture(database: Database, settings: Settings, id: str) -> None:
    """Deletes a capture with its files; scenes made from it stay.

    Raises:
        Problem: 404; 409 while a job uses it.
    """
    with database.writing() as session:
        row = capture_row(session, id)
        refuse_while_used(session, id)
        parts = [
            part_path(settings, upload) for upload in session.scalars(select(Upload.id).where(Upload.capture_id == id))
        ]
        session.delete(row)
    for part in parts:
        part.unlink(missing_ok=True)
    shutil.rmtree(capture_folder(settings, id), ignore_errors=True)


def capture_row(session: Session, id: str) -> Capture:
    """The row.

    Raises:
        Problem: 404.
    """
    return found(session, Capture, id, "capture")


def refuse_while_used(session: Session, id: str) -> None:
    """Raises:
    Problem: 409, a job that has not ended is about the capture.
    """
    job = session.scalar(select(Job.id).where(Job.subject == id, Job.state.in_(("queued", "running"))).limit(1))
    if job is not None:
        raise Problem(
            409,
            "conflict",
            f"the job '{job}' uses the capture '{id}'",
            hint="wait until it has ended, or cancel it",
            job=job,
        )


def state(session: Session, row: Capture) -> CaptureState:
    """The row with its files, by camera, and open uploads, oldest first."""
    files = select(CaptureFile).where(CaptureFile.capture_id == row.id).order_by(CaptureFile.camera, CaptureFile.kind)
    uploads = select(Upload).where(Upload.capture_id == row.id, Upload.file_id.is_(None)).order_by(Upload.created_at)
    return CaptureState(row=row, files=session.scalars(files).all(), uploads=session.scalars(uploads).all())
