"""Uploads: bytes that arrive in pieces, in order, over as many connections as it takes."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

from api.database import Database
from api.errors import Problem
from api.ids import fresh
from api.settings import Settings
from api.storage._captures import capture_row
from api.storage._files import Label, keep
from api.storage._names import part_path
from api.storage._quota import admit, disk_full, require_disk
from api.tables import CaptureFile, Upload

SYNC_EVERY = 16 * 2**20
"""So many bytes may arrive before they are made sure of; what a crash costs at most."""


def create_upload(database: Database, settings: Settings, label: Label, length: int) -> Upload:
    """Promises room for a file of ``length`` bytes.

    Raises:
        Problem: 404 no such capture; 413, 409, 507 it does not fit.
    """
    expires_at = time.time() + settings.upload_expiry_s
    row = Upload(
        id=fresh("upl"),
        capture_id=label.capture_id,
        camera=label.camera,
        kind=label.kind,
        filename=label.filename,
        length=length,
        offset=0,
        expires_at=expires_at,
    )
    with database.writing() as session:
        capture_row(session, label.capture_id)
        admit(session, settings, label.capture_id, length)
        session.add(row)
    return row


def find_upload(database: Database, id: str) -> Upload:
    """The upload, finished or not.

    Raises:
        Problem: 404, or 410 when it has expired.
    """
    with database.reading() as session:
        row = session.get(Upload, id)
    if row is None:
        raise Problem(404, "not-found", f"there is no upload '{id[:60]}'", hint="begin a new one")
    if row.file_id is None and row.expires_at < time.time():
        raise Problem(410, "expired", f"the upload '{id}' has expired", hint="begin a new one")
    return row


def delete_upload(database: Database, settings: Settings, id: str) -> None:
    """Forgets an upload and its bytes; a file that it became stays.

    Raises:
        Problem: 404, 410; 423 while bytes arrive.
    """
    if find_upload(database, id).file_id is not None:
        _forget(database, settings, id)
        return
    with _locked(settings, id):
        _forget(database, settings, id)


def commit_upload(database: Database, settings: Settings, id: str, sha256: str) -> CaptureFile:
    """Makes a whole upload a file of its capture; a second time it answers the same.

    Raises:
        Problem: 404, 410; 409 bytes are missing, or the file it became is gone; 422 another hash, or not what it should
            be: then the upload is gone too; 423 bytes arrive, or another commit is at work.
    """
    row = find_upload(database, id)
    if row.file_id is not None:
        return _committed(database, row, sha256)
    with _locked(settings, id):
        row = find_upload(database, id)  # Another commit may have ended just before.
        if row.file_id is not None:
            return _committed(database, row, sha256)
        if row.offset != row.length:
            raise Problem(
                409,
                "incomplete",
                f"{row.offset:,} of {row.length:,} bytes have arrived",
                hint="send the rest, then commit",
                camera=row.camera,
                file=row.filename,
                offset=row.offset,
            )
        label = Label(capture_id=row.capture_id, camera=row.camera, kind=row.kind, filename=row.filename)
        try:
            file = keep(database, settings, label, part_path(settings, id), sha256, id)
        except Problem as problem:
            if problem.kind == "unreadable-file":  # No hash would make it right.
                _forget(database, settings, id)
            raise
        part_path(settings, id).unlink(missing_ok=True)
        return file


class Writer:
    """Takes the bytes of one request; use it as a context manager, in a thread where waiting does no harm.

    Bytes beyond the last that is sure are dropped on entry: a process that was killed may have left some. The offset
    in the database only ever names bytes that are on disk.

    Raises:
        Problem: 404, 410; 409 the offset is not where the upload stands; 423 another request is writing; 507.
    """

    def __init__(self, database: Database, settings: Settings, id: str, offset: int) -> None:
        self._database = database
        self._settings = settings
        self._id = id
        self._asked = offset
        self._expires_at = 0.0

    @property
    def offset(self) -> int:
        """Bytes that have arrived."""
        return self._offset

    @property
    def left(self) -> int:
        """Bytes that may still come."""
        return self._length - self._offset

    @property
    def expires_at(self) -> float:
        return self._expires_at

    def __enter__(self) -> Writer:
        self._require_offset()
        self._lock = _locked(self._settings, self._id)
        self._file = self._lock.__enter__()
        try:
            self._begin()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def _require_offset(self) -> Upload:
        row = find_upload(self._database, self._id)
        if self._asked != row.offset or row.file_id is not None:
            raise Problem(
                409,
                "offset-mismatch",
                f"the upload stands at {row.offset:,} bytes; the request would go on from {self._asked:,}",
                hint="ask with HEAD where it stands, and send from there",
                headers={"Upload-Offset": str(row.offset)},
                offset=row.offset,
            )
        return row

    def _begin(self) -> None:
        row = self._require_offset()
        with self._database.reading() as session:
            require_disk(session, self._settings, 0)
        self._file.truncate(row.offset)
        self._file.seek(row.offset)
        self._offset = self._sure = row.offset
        self._length = row.length
        self._expires_at = row.expires_at

    def write(self, data: bytes | bytearray) -> None:
        """Appends.

        Raises:
            Problem: 413 more than was announced; 507 the disk is full.
        """
        if len(data) > self.left:
            raise Problem(
                413, "too-large", f"the upload was announced with {self._length:,} bytes; more than that arrived"
            )
        view = memoryview(data)
        while view:
            try:
                written = self._file.write(view)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise disk_full(str(error.strerror)) from error
                raise
            view = view[written:]
            self._offset += written or 0
        if self._offset - self._sure >= SYNC_EVERY:
            self.sync()

    def sync(self) -> None:
        """Makes sure of what has arrived, and puts the upload's end off."""
        os.fdatasync(self._file.fileno())
        with self._database.writing() as session:
            row = session.get(Upload, self._id)
            if row is None:
                raise Problem(404, "not-found", f"the upload '{self._id}' was deleted with its capture")
            row.offset = self._offset
            row.expires_at = self._expires_at = time.time() + self._settings.upload_expiry_s
        self._sure = self._offset

    def __exit__(self, *error: object) -> None:
        try:
            self.sync()
        finally:
            self._lock.__exit__(None, None, None)


@contextmanager
def _locked(settings: Settings, id: str) -> Iterator[FileIO]:
    """The upload's file, held alone; the lock goes with the process, however it ends."""
    path = part_path(settings, id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem(
                423,
                "locked",
                f"another request is at work on the upload '{id}'",
                hint="wait for it; an upload takes one request at a time",
                headers={"Retry-After": "1"},
            ) from None
        yield file


def _committed(database: Database, row: Upload, sha256: str) -> CaptureFile:
    with database.reading() as session:
        file = session.get(CaptureFile, row.file_id)
    if file is None or file.sha256 != sha256.lower():
        raise Problem(409, "conflict", f"the upload '{row.id}' became a file with another hash, or one that is gone")
    return file


def _forget(database: Database, settings: Settings, id: str) -> None:
    with database.writing() as session:
        row = session.get(Upload, id)
        if row is not None:
            session.delete(row)
    part_path(settings, id).unlink(missing_ok=True)
