"""A small server for one scene and the page that shows it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from recon4d.page import page_files, page_headers

_INDEX = "index.html"
_OWN_NAMES = {"127.0.0.1", "localhost", "[::1]"}


def view_server(view: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1 that shows one scene.

    Args:
        view: folder that ``write_view`` wrote.
        port: 0 takes a free one; ``server_port`` of the result says which.

    Returns:
        The server, listening; ``serve_forever`` answers requests.

    Raises:
        OSError: the port is taken.
    """
    return _Server(("127.0.0.1", port), partial(_Handler, places={"": page_files(), "view": view.resolve()}))


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


class _Handler(SimpleHTTPRequestHandler):
    """Files of the page at ``/``, of the view at ``/view/``; nothing else, and no listings."""

    protocol_version = "HTTP/1.1"
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript", ".svg": "image/svg+xml"}  # noqa: RUF012

    def __init__(self, *arguments: object, places: Mapping[str, Path]) -> None:
        self._places = places
        super().__init__(*arguments, directory=str(page_files()))  # pyright: ignore[reportArgumentType]

    def send_head(self) -> Any:
        """Answers only who asked for this computer: another site's name may be made to lead here by its owner."""
        if re.sub(r":\d+$", "", self.headers.get("Host", "")) not in _OWN_NAMES:
            self.send_error(421, f"this server answers for {', '.join(sorted(_OWN_NAMES))} only")
            return None
        return super().send_head()

    def translate_path(self, path: str) -> str:
        parts = PurePosixPath(unquote(urlsplit(path).path)).parts[1:]
        place = parts[0] if parts and parts[0] in self._places else ""
        inner = [part for part in parts[bool(place) :] if part not in (".", "..")]
        return str(self._places[place].joinpath(*inner or [_INDEX]))

    def list_directory(self, path: object) -> None:
        self.send_error(404)

    def end_headers(self) -> None:
        for name, value in page_headers((page_files() / _INDEX).read_text("utf-8")).items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are nobody's news."""
