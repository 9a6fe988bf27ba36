"""Files to the service, by tus 1.0: what has arrived is never sent again, whoever was killed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import httpx

from api.client._errors import ServiceError
from api.client._http import Connection, Patience, cause, checked, is_later, retry_after
from api.client._records import Capture, CaptureFile
from recon4d.errors import CaptureError

TUS = {"Tus-Resumable": "1.0.0"}
REQUEST_BYTES = 64 * 2**20
"""Most that one request carries: some proxies hold a whole body before they pass it on."""
_READ_BYTES = 2**18


@dataclass(frozen=True, kw_only=True)
class Source:
    """A local file and what it is of the capture."""

    path: Path
    camera: str
    kind: str = "video"
    """``video`` or ``timestamps``."""


OnBytes = Callable[[int], None]
"""Told how many bytes of a file are at the service by now."""


def upload(connection: Connection, capture: Capture, source: Source, on_bytes: OnBytes) -> CaptureFile:
    """Sends one file, or what is still missing of it, and has it checked.

    Args:
        connection: to the service.
        capture: as it is at the service; an upload of this file that it lists is gone on with.
        source: the file.
        on_bytes: told of progress; may raise to stop, and a later call goes on.

    Raises:
        CaptureError: the file cannot be read, or changed on the way.
        ServiceError: it was refused, or the service is gone.
    """
    try:
        size = source.path.stat().st_size
        sha256 = hash_of(source.path)
        present = next((f for f in capture.files if (f.camera, f.kind) == (source.camera, source.kind)), None)
        if present is not None and present.sha256 == sha256:
            on_bytes(size)
            return present
        with source.path.open("rb") as file:
            return _send_and_commit(connection, capture, source, file, size, sha256, on_bytes)
    except OSError as error:
        raise CaptureError(error.strerror or str(error), camera=source.camera, file=str(source.path)) from error


def hash_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _send_and_commit(
    connection: Connection,
    capture: Capture,
    source: Source,
    file: BinaryIO,
    size: int,
    sha256: str,
    on_bytes: OnBytes,
) -> CaptureFile:
    place = _open_upload(capture, source, size) or _create(connection, capture, source, size)
    for _ in range(3):
        try:
            _send(connection, place, file, size, on_bytes)
            answer = connection.ask("POST", f"{place}/commit", json={"sha256": sha256})
            return CaptureFile.of(answer.json())
        except ServiceError as error:
            if error.status not in (404, 410):  # Expired, or swept after a refused commit.
                raise
            place = _create(connection, capture, source, size)
    raise ServiceError(f"the upload of {source.path} was lost at the service again and again")


def _open_upload(capture: Capture, source: Source, size: int) -> str | None:
    """Address of an unfinished upload of this file."""
    for upload in capture.uploads:
        same = (upload["camera"], upload["kind"], upload["filename"]) == (source.camera, source.kind, source.path.name)
        if same and upload["length"] == size:
            return f"/v1/uploads/{upload['id']}"
    return None


def _create(connection: Connection, capture: Capture, source: Source, size: int) -> str:
    facts = {"camera": source.camera, "kind": source.kind, "filename": source.path.name}
    metadata = ",".join(f"{name} {base64.b64encode(text.encode()).decode()}" for name, text in facts.items())
    headers = {**TUS, "Upload-Length": str(size), "Upload-Metadata": metadata}
    answer = connection.ask("POST", f"/v1/captures/{capture.id}/uploads", headers=headers)
    return httpx.URL(answer.headers["Location"]).path


def _send(connection: Connection, place: str, file: BinaryIO, size: int, on_bytes: OnBytes) -> None:
    """Sends pieces until all of it is there."""
    patience = connection.patience()
    offset = _offset(connection, place)
    on_bytes(offset)
    while offset < size:
        span = range(offset, min(offset + REQUEST_BYTES, size))
        reached = _send_piece(connection, place, file, span, patience, on_bytes)
        if reached > offset:
            patience.renew()
        offset = reached


def _offset(connection: Connection, place: str) -> int:
    answer = connection.ask("HEAD", place, headers=TUS)
    return int(answer.headers["Upload-Offset"])


def _send_piece(
    connection: Connection, place: str, file: BinaryIO, span: range, patience: Patience, on_bytes: OnBytes
) -> int:
    """Sends a piece; returns what the service has then, whether or not that went well."""
    headers = {
        **TUS,
        "Upload-Offset": str(span.start),
        "Content-Type": "application/offset+octet-stream",
        "Content-Length": str(len(span)),
    }
    try:
        answer = connection.send("PATCH", place, headers=headers, content=_read(file, span, on_bytes))
    except httpx.TransportError as error:
        patience.wait(cause(error))
        return _offset(connection, place)
    if is_later(answer) or answer.status_code in (409, 423):  # Another offset, or the lost request still holds it.
        patience.wait(f"status {answer.status_code}", retry_after(answer))
        return _offset(connection, place)
    return int(checked(answer).headers["Upload-Offset"])


def _read(file: BinaryIO, span: range, on_bytes: OnBytes) -> Iterator[bytes]:
    """A part of the file, bit by bit."""
    file.seek(span.start)
    at = span.start
    while at < span.stop:
        data = file.read(min(_READ_BYTES, span.stop - at))
        if not data:
            raise CaptureError("became shorter while it was sent", file=file.name)
        yield data
        at += len(data)
        on_bytes(at)
