"""Answering with files that never change: parts of them, and nothing at all when the client has them."""

from __future__ import annotations

import os
import re

from anyio import to_thread
from fastapi.responses import FileResponse, JSONResponse
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from api.errors import MEDIA_TYPE, Problem

PAGE_SECURITY = "default-src 'none'; img-src 'self' data:; media-src 'self' data:; style-src 'unsafe-inline'"
"""For pages that the engine wrote: pictures, films and looks, but no script."""

_RANGES = re.compile(r"bytes\s*=\s*(\d{0,18}-\d{0,18}(\s*,\s*\d{0,18}-\d{0,18})*)\s*", re.IGNORECASE)


def unchanged(etag: str, if_none_match: str | None) -> bool:
    """Whether ``If-None-Match`` names the ETag, or anything that there is."""
    named = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    return etag in named or "*" in named


class StoredFileResponse(FileResponse):
    """A file or parts of it; a part that it has not is a problem like any other."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.stat_result = await to_thread.run_sync(os.stat, self.path)
        self.set_stat_headers(self.stat_result)
        headers, size = Headers(scope=scope), self.stat_result.st_size
        wanted, still = headers.get("range"), headers.get("if-range")
        holds = still in (None, self.headers["etag"], self.headers["last-modified"])
        if wanted is not None and holds and not _has(wanted, size):
            detail = f"the file has {size} bytes; there is no part '{wanted[:100]}' of it"
            problem = Problem(416, "no-such-range", detail, hint="write it as bytes=FIRST-LAST")
            answer = JSONResponse(problem.to_json(), 416, {"Content-Range": f"bytes */{size}"}, MEDIA_TYPE)
            await answer(scope, receive, send)
            return
        await super().__call__(scope, receive, send)


def _has(wanted: str, size: int) -> bool:
    """Whether a file of so many bytes has all ranges of a ``Range`` header."""
    found = _RANGES.fullmatch(wanted.strip())
    if found is None:
        return False
    for part in found[1].split(","):
        first, last = (int(text) if text else None for text in part.strip().split("-"))
        if first is None:
            if not last or not size:
                return False
        elif first >= size or (last is not None and last < first):
            return False
    return True
