"""``/v1/uploads``: resumable uploads by tus 1.0.0, with its extensions creation, creation-with-upload, expiration and
termination, and a commit that checks the whole file."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Annotated, Any, NoReturn

from anyio import to_thread
from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from api.database import Database
from api.deps import DatabaseDep, Principal, SettingsDep, allowed
from api.errors import Problem
from api.routes._models import CaptureFileOut
from api.settings import Settings
from api.storage import Label, Writer, commit_upload, create_upload, delete_upload, find_upload

router = APIRouter(prefix="/v1", tags=["uploads"])

VERSION = "1.0.0"
EXTENSIONS = "creation,creation-with-upload,expiration,termination"
BYTES = "application/offset+octet-stream"
HEADERS = (
    *("Tus-Resumable", "Tus-Version", "Tus-Extension", "Tus-Max-Size"),
    *("Upload-Length", "Upload-Offset", "Upload-Metadata", "Upload-Expires"),
)
"""Of the protocol; pages of other origins need leave to send and see them."""

_PIECE = 2**20
"""Bytes are gathered to so many before a thread writes them."""
_BODY = {"requestBody": {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}}

_NUMBER: dict[str, Any] = {"pattern": "^[0-9]{1,15}$"}

Resumable = Annotated[str | None, Header(alias="Tus-Resumable", examples=[VERSION])]
Offset = Annotated[str | None, Header(alias="Upload-Offset", examples=["0"], json_schema_extra=_NUMBER)]


class Commit(BaseModel):
    """What the whole file must be."""

    sha256: str = Field(
        pattern="^[0-9a-fA-F]{64}$", description="SHA-256 of the whole file, in hexadecimal.", examples=["0f" * 32]
    )


@router.options("/uploads", status_code=204, operation_id="upload_options")
def options(response: Response, settings: SettingsDep) -> None:
    """What of tus is spoken here."""
    response.headers.update(
        {
            "Tus-Resumable": VERSION,
            "Tus-Version": VERSION,
            "Tus-Extension": EXTENSIONS,
            "Tus-Max-Size": str(settings.max_upload_bytes),
        }
    )


@router.post("/captures/{id}/uploads", status_code=201, operation_id="create_upload", openapi_extra=_BODY)
async def create(
    id: str,
    request: Request,
    database: DatabaseDep,
    settings: SettingsDep,
    length: Annotated[
        str | None, Header(alias="Upload-Length", examples=["1048576"], json_schema_extra=_NUMBER)
    ] = None,
    metadata: Annotated[str | None, Header(alias="Upload-Metadata", examples=["camera Y2FtMA==,kind dmlkZW8="])] = None,
    version: Resumable = None,
    who: Principal = allowed("upload"),
) -> Response:
    """Begin a resumable upload of one camera's file; a body is taken as its first bytes."""
    _require_version(version)
    words = _metadata(metadata or "")
    size = _number("Upload-Length", length)
    label = Label.of(id, words.get("camera", ""), words.get("kind", "video"), words.get("filename", ""))
    row = await to_thread.run_sync(create_upload, database, settings, label, size)
    offset, expires_at = 0, row.expires_at
    if request.headers.get("content-type") == BYTES:
        offset, expires_at = await _receive(request, database, settings, row.id, 0)
    headers = {"Location": f"/v1/uploads/{row.id}", **_state(offset, expires_at)}
    return Response(status_code=201, headers=headers)


@router.head("/uploads/{id}", operation_id="upload_state")
def head(id: str, database: DatabaseDep, version: Resumable = None, who: Principal = allowed("upload")) -> Response:
    """Where an upload stands."""
    _require_version(version)
    row = find_upload(database, id)
    headers = {"Upload-Length": str(row.length), "Cache-Control": "no-store", **_state(row.offset, row.expires_at)}
    return Response(status_code=200, headers=headers)


@router.patch("/uploads/{id}", status_code=204, operation_id="append_upload", openapi_extra=_BODY)
async def patch(
    id: str,
    request: Request,
    database: DatabaseDep,
    settings: SettingsDep,
    offset: Offset = None,
    version: Resumable = None,
    who: Principal = allowed("upload"),
) -> Response:
    """Send bytes from where the upload stands; what has arrived stays when the connection breaks."""
    _require_version(version)
    kind = request.headers.get("content-type")
    if kind != BYTES:
        raise Problem(415, "unsupported-media-type", f"the content type must be {BYTES}; it is {kind!r:.100}")
    stands = await _receive(request, database, settings, id, _number("Upload-Offset", offset))
    return Response(status_code=204, headers=_state(*stands))


@router.delete("/uploads/{id}", status_code=204, operation_id="delete_upload")
def delete(
    id: str,
    database: DatabaseDep,
    settings: SettingsDep,
    version: Resumable = None,
    who: Principal = allowed("upload"),
) -> Response:
    """Give an upload up."""
    _require_version(version)
    delete_upload(database, settings, id)
    return Response(status_code=204, headers={"Tus-Resumable": VERSION})


@router.post("/uploads/{id}/commit", status_code=201, operation_id="commit_upload")
def commit(
    id: str, whole: Commit, database: DatabaseDep, settings: SettingsDep, who: Principal = allowed("upload")
) -> CaptureFileOut:
    """Make a whole upload a file of its capture: its hash and its content are checked. Answers the same twice."""
    return CaptureFileOut.of(commit_upload(database, settings, id, whole.sha256))


async def _receive(request: Request, database: Database, settings: Settings, id: str, offset: int) -> tuple[int, float]:
    """Writes the request's body; what came before the connection broke counts. Memory stays the same."""
    writer = Writer(database, settings, id, offset)
    await to_thread.run_sync(writer.__enter__)
    piece = bytearray()
    try:
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > writer.left:
            raise Problem(413, "too-large", f"the request brings {announced} bytes; {writer.left:,} are still to come")
        async for data in _brisk(request.stream(), settings.upload_idle_s):
            piece += data
            if len(piece) >= _PIECE:
                full, piece = piece, bytearray()  # What a failed write has taken must not be written again.
                await to_thread.run_sync(writer.write, full)
    except ClientDisconnect:
        pass
    finally:
        await to_thread.run_sync(_finish, writer, piece)
    return writer.offset, writer.expires_at


async def _brisk(stream: AsyncIterator[bytes], idle_s: float) -> AsyncIterator[bytes]:
    """The stream, as long as something comes."""
    while True:
        try:
            async with asyncio.timeout(idle_s):
                data = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Problem(
                408,
                "stalled",
                f"nothing came for {idle_s:g} s",
                hint="ask with HEAD where the upload stands, and send from there",
                headers={"Connection": "close"},
            ) from None
        yield data


def _finish(writer: Writer, rest: bytearray) -> None:
    try:
        writer.write(rest)
    finally:
        writer.__exit__(None, None, None)


def _state(offset: int, expires_at: float) -> dict[str, str]:
    return {
        "Tus-Resumable": VERSION,
        "Upload-Offset": str(offset),
        "Upload-Expires": formatdate(expires_at, usegmt=True),
    }


def _require_version(version: str | None) -> None:
    if version not in (None, VERSION):
        detail = f"tus {version[:20]!r} is not spoken here; {VERSION} is"
        raise Problem(412, "unsupported-version", detail, headers={"Tus-Version": VERSION})


def _number(header: str, text: str | None) -> int:
    if text is None:
        _bad_header(header, "is missing")
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        _bad_header(header, f"must be a number of bytes; it is {text[:40]!r}")
    return int(text)


def _metadata(text: str) -> dict[str, str]:
    """Words by key: ``key base64,key base64``."""
    words: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = pair.partition(" ")
        try:
            words[key] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError):
            _bad_header("Upload-Metadata", f"holds {value[:40]!r} for '{key[:40]}', which is not UTF-8 in base64")
    return words


def _bad_header(header: str, fault: str) -> NoReturn:
    raise Problem(400, "bad-header", f"the header {header} {fault}", header=header)
