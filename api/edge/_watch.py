"""The outermost layer: safe headers, a line in the log, a count, and an answer even to faults of our own."""

from __future__ import annotations

import logging
import time

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.edge._metrics import Metrics
from api.edge._problems import of_http, to_response
from api.errors import Problem
from api.ids import fresh

_LOG = logging.getLogger("api.requests")
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
CONTENT_SECURITY = "default-src 'none'; frame-ancestors 'none'"
"""For answers that say nothing themselves, as pages do."""


class Watch:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(scope, receive, send)
        try:
            await self._app(scope, request.receive, request.send)
        except Problem as problem:  # Of another middleware.
            await request.answer(problem)
        except HTTPException as error:
            await request.answer(of_http(scope, error))
        except Exception:
            _LOG.exception("fault", extra={"request": request.id, "path": scope["path"]})
            if request.status is not None:
                raise  # The answer has begun; all that is left is to cut it off.
            detail = f"the service made a mistake; its log has more under {request.id}"
            await request.answer(Problem(500, "fault", detail, request=request.id))
        finally:
            request.finish(self._metrics)


class _Request:
    """What is noted of one request on its way through."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = fresh("req")
        self.status: int | None = None
        self._scope = scope
        self._receive = receive
        self._send = send
        self._began = time.perf_counter()
        self._answered = self._began
        self._received = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._answered = time.perf_counter()
            headers = MutableHeaders(scope=message)
            for name, value in _SAFE.items():
                headers.setdefault(name, value)
            headers.setdefault("Content-Security-Policy", CONTENT_SECURITY)
            headers.setdefault("Cache-Control", "no-store")
            headers["X-Request-ID"] = self.id
        await self._send(message)

    async def answer(self, problem: Problem) -> None:
        if self.status is None:
            await to_response(problem)(self._scope, self._receive, self.send)

    def finish(self, metrics: Metrics) -> None:
        method = self._scope["method"] if self._scope["method"] in _METHODS else "other"
        seconds = self._answered - self._began
        # A client that left before the answer is counted as such, as web servers do.
        status = self.status or 499
        metrics.answered(method, _route(self._scope), status, seconds, self._received)
        _LOG.info(
            "request",
            extra={
                "request": self.id,
                "method": method,
                "path": self._scope["path"],
                "status": status,
                "ms": round((time.perf_counter() - self._began) * 1000, 1),
                "received": self._received,
                "client": (self._scope.get("client") or ("",))[0],
            },
        )


def _route(scope: Scope) -> str:
    """The route's pattern: few values, whatever is asked for."""
    return getattr(scope.get("route"), "path", None) or "none"
