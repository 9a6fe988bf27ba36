"""Keeps the data folder free of what nobody will come back for."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import delete, select

from api.database import Database
from api.settings import Settings
from api.storage._scenes import sweep_finished
from api.tables import Answer, CaptureFile, Upload

ANSWERS_KEPT_S = 24 * 3600.0
_ORPHANS_KEPT_S = 3600.0
"""A file without a row may be on its way to one."""

_LOG = logging.getLogger(__name__)


def prepare(database: Database, settings: Settings) -> None:
    """Makes the folders, and clears up after a service that was killed; call it before the first request."""
    for name in ("uploads", "captures"):
        (settings.data_dir / name).mkdir(parents=True, exist_ok=True)
    with database.writing() as session:
        session.execute(delete(Answer).where(Answer.status.is_(None)))  # Nobody is at work on them any more.
    sweep(database, settings)


def sweep(database: Database, settings: Settings) -> int:
    """Deletes expired uploads, old answers, and files that belong to no row.

    Returns:
        How many files and folders went.
    """
    now = time.time()
    with database.writing() as session:
        session.execute(delete(Answer).where(Answer.created_at < now - ANSWERS_KEPT_S))
        session.execute(delete(Upload).where(Upload.expires_at < now))
    with database.reading() as session:
        open_uploads = {f"{id}.part" for id in session.scalars(select(Upload.id).where(Upload.file_id.is_(None)))}
        stored = set(session.scalars(select(CaptureFile.stored)))
    parts = (path for path in (settings.data_dir / "uploads").glob("*") if path.name not in open_uploads)
    captures = (
        path
        for path in (settings.data_dir / "captures").glob("*/*")
        if path.relative_to(settings.data_dir).as_posix() not in stored
    )
    exports = (settings.data_dir / "exports").glob("*")
    gone = sum(_unlink_old(paths, now) for paths in (parts, captures, exports))
    for folder in (settings.data_dir / "captures").glob("*"):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    gone += sweep_finished(database, settings)
    if gone:
        _LOG.info("swept", extra={"files": gone})
    return gone


def _unlink_old(paths: Iterable[Path], now: float) -> int:
    gone = 0
    for path in paths:
        try:
            if path.is_file() and path.stat().st_mtime < now - _ORPHANS_KEPT_S:
                path.unlink()
                gone += 1
        except FileNotFoundError:  # Somebody else was faster.
            continue
    return gone
