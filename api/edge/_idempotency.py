"""``Idempotency-Key``: a request that is sent again is answered again, and not done again."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.database import Database
from api.errors import Problem
from api.tables import Answer

_LONGEST_KEY = 200
_KEPT_HEADERS = ("location", "upload-offset", "upload-expires", "tus-resumable")


class Idempotency:
    """ASGI middleware: keeps answers of successful POSTs by caller and key, for a day.

    Bodies of uploads and of multipart forms are too large to be compared; there the key is left out of account.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = Headers(scope=scope).get("idempotency-key") if scope["type"] == "http" else None
        if key is None or scope["method"] != "POST" or not _is_small(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        if not 0 < len(key) <= _LONGEST_KEY:
            raise Problem(400, "bad-idempotency-key", f"an idempotency key has 1 to {_LONGEST_KEY} characters")
        state = scope["app"].state
        try:
            principal = await to_thread.run_sync(state.identify, HTTPConnection(scope))
        except Problem:
            await self._app(scope, receive, send)  # The route says what is wrong.
            return
        try:
            body = await _read(receive)
        except ClientDisconnect:
            return
        kept = _Kept(state.database, principal.id, key, _digest(scope, body))
        answer = await to_thread.run_sync(kept.claim)
        if answer is not None:
            await answer(scope, receive, send)
            return
        recorder = _Recorder(body, receive, send)
        try:
            await self._app(scope, recorder.receive, recorder.send)
        finally:
            await to_thread.run_sync(kept.settle, recorder.status, recorder.headers, bytes(recorder.body))


class _Kept:
    """The row of one caller's key."""

    def __init__(self, database: Database, principal: str, key: str, digest: str) -> None:
        self._database = database
        self._id = (principal, key)
        self._digest = digest

    def claim(self) -> Response | None:
        """The earlier answer; None when this request is the first, which must be settled later.

        Raises:
            Problem: 409 while the first is at work; 422 it was another request.
        """
        principal, key = self._id
        with self._database.writing() as session:
            row = session.get(Answer, self._id)
            if row is None:
                session.add(Answer(principal=principal, key=key, request_hash=self._digest))
                return None
        if row.request_hash != self._digest:
            raise Problem(
                422, "idempotency-key-reused", "this idempotency key came with another request", hint="use a fresh key"
            )
        if row.status is None or row.body is None:
            detail = "the first request with this idempotency key is still at work"
            raise Problem(409, "in-progress", detail, hint="ask again later", headers={"Retry-After": "1"})
        return JSONResponse(row.body["content"], row.status, {**row.body["headers"], "Idempotency-Replayed": "true"})

    def settle(self, status: int | None, headers: Headers, body: bytes) -> None:
        """Keeps a success; anything else may be tried again."""
        with self._database.writing() as session:
            row = session.get(Answer, self._id)
            if row is None:
                return
            if status is None or not 200 <= status < 300:
                session.delete(row)
                return
            kept = {name: headers[name] for name in _KEPT_HEADERS if name in headers}
            row.status, row.body = status, {"headers": kept, "content": json.loads(body) if body else None}


class _Recorder:
    """Plays a body that was read already, and writes down what is answered."""

    def __init__(self, body: bytes, receive: Receive, send: Send) -> None:
        self.status: int | None = None
        self.headers = Headers()
        self.body = bytearray()
        self._request: bytes | None = body
        self._receive = receive
        self._send = send

    async def receive(self) -> Message:
        if self._request is None:
            return await self._receive()
        body, self._request = self._request, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = Headers(raw=message["headers"])
        else:
            self.body += message.get("body", b"")
        await self._send(message)


def _is_small(headers: Headers) -> bool:
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    return kind not in ("application/offset+octet-stream", "multipart/form-data")


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def _digest(scope: Scope, body: bytes) -> str:
    headers = Headers(scope=scope)
    parts = [scope["path"].encode(), scope["query_string"], body]
    parts += [headers.get(name, "").encode() for name in ("upload-length", "upload-metadata")]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
