"""Bodies are no larger than their path allows, whether their length is announced or not."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """ASGI middleware.

    Args:
        app: what it wraps.
        default: bytes that a body may have.
        others: pairs of a pattern of paths and the bytes allowed there, the first that matches counts; None is without
            a limit, for paths that count for themselves.
    """

    def __init__(self, app: ASGIApp, default: int, others: Sequence[tuple[re.Pattern[str], int | None]] = ()) -> None:
        self._app = app
        self._default = default
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._limit(scope["path"]) if scope["type"] == "http" else None
        if limit is None:
            await self._app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if announced.isdigit() and int(announced) > limit:
            raise _too_large(limit)
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > limit:
                raise _too_large(limit)
            return message

        await self._app(scope, counted, send)

    def _limit(self, path: str) -> int | None:
        return next((limit for pattern, limit in self._others if pattern.fullmatch(path)), self._default)


def _too_large(limit: int) -> HTTPException:
    # Of this kind, as whatever else comes up while a body is read is taken for a fault of the body's syntax.
    return HTTPException(
        413, f"the request's body has more than the {limit:,} bytes that are allowed here", {"Connection": "close"}
    )
