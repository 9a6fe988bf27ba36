"""How much may come in: by file, by capture, and by what the disk has left."""

from __future__ import annotations

import shutil
import time

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from api.errors import Problem
from api.settings import Settings
from api.tables import CaptureFile, Upload


def free_bytes(settings: Settings) -> int:
    """What the data folder's disk has left."""
    return shutil.disk_usage(settings.data_dir).free


def admit(session: Session, settings: Settings, capture_id: str, size: int) -> None:
    """Refuses a file that does not fit beside what is there and what has been promised to other uploads.

    Raises:
        Problem: 413 too large, 409 too many files, 507 the disk.
    """
    if size > settings.max_upload_bytes:
        raise Problem(
            413, "too-large", f"the file has {size:,} bytes; {settings.max_upload_bytes:,} are allowed", hint=_SMALLER
        )
    stored, files = session.execute(
        select(func.coalesce(func.sum(CaptureFile.size), 0), func.count()).where(CaptureFile.capture_id == capture_id)
    ).one()
    coming, uploads = session.execute(
        select(func.coalesce(func.sum(Upload.length), 0), func.count()).where(
            Upload.capture_id == capture_id, Upload.file_id.is_(None), Upload.expires_at > time.time()
        )
    ).one()
    if stored + coming + size > settings.max_capture_bytes:
        raise Problem(
            413,
            "too-large",
            f"the capture would have {stored + coming + size:,} bytes; {settings.max_capture_bytes:,} are allowed",
            hint=_SMALLER,
        )
    if files + uploads >= settings.max_capture_files:
        raise Problem(
            409,
            "too-many-files",
            f"the capture has {files} files and {uploads} open uploads; {settings.max_capture_files} are allowed",
            hint="delete what is not needed",
        )
    require_disk(session, settings, size)


def require_disk(session: Session, settings: Settings, size: int) -> None:
    """Refuses what would eat into the reserve, counting the bytes that open uploads may still send.

    Raises:
        Problem: 507.
    """
    promised = session.scalar(
        select(func.coalesce(func.sum(Upload.length - Upload.offset), 0)).where(
            Upload.file_id.is_(None), Upload.expires_at > time.time()
        )
    )
    left = free_bytes(settings) - (promised or 0) - size
    if left < settings.disk_reserve_bytes:
        raise disk_full(
            f"{size:,} bytes more would leave {max(left, 0):,} free; {settings.disk_reserve_bytes:,} are kept"
        )


def disk_full(detail: str) -> Problem:
    return Problem(
        507, "disk-full", f"the service's disk is full: {detail}", hint="delete old captures, jobs or scenes"
    )


_SMALLER = "send a smaller file, or raise the limit on the server"
