"""Puts the pages' files where a browser asks for them."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from recon4d.page import page_files, page_headers

_PAGE = Path(__file__).parent / "page"
_FOREVER = "public, max-age=31536000, immutable"
_ASK_FIRST = "no-cache"


def add_pages(app: FastAPI) -> None:
    """Adds ``/``, ``/scene/{id}`` and ``/assets/``. They need no key: what they show they ask the service for."""
    app.mount("/assets/player", GZipMiddleware(_Assets(page_files())), name="player")
    app.mount("/assets", GZipMiddleware(_Assets(_PAGE)), name="assets")

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return _page("index.html")

    @app.get("/scene/{scene_id}", include_in_schema=False)
    def scene(scene_id: str) -> Response:
        return _page("scene.html")


def _page(name: str) -> Response:
    html = (_PAGE / name).read_text("utf-8")
    return HTMLResponse(html, headers=page_headers(html))


class _Assets(StaticFiles):
    """Static files. Those of a library lie under its version, so that a browser need never ask for them again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = _FOREVER if "/vendor/" in scope["path"] else _ASK_FIRST
        return response
