"""The scene page's files, and a small server for them and one scene."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

_PAGE = Path(__file__).parent / "page"
_INDEX = "index.html"
_INLINE = re.compile(r"<script[^>]*>([^<]+)</script>")


def page_files() -> Path:
    """The folder of the scene page: static files that need no build step and nothing from elsewhere."""
    return _PAGE


def page_headers(html: str) -> dict[str, str]:
    """Headers for a page: it may load its own server's files, run its own modules and its import map, and no more.

    Args:
        html: the page. Scripts inside it, which an import map must be, are allowed by their hash.
    """
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in _INLINE.findall(html)]
    scripts = " ".join(["'self'", "'wasm-unsafe-eval'", *(f"'sha256-{digest}'" for digest in hashes)])
    # Spark sorts in a worker that it makes of its own text, with WebAssembly that it carries as a data URI.
    policy = {
        "default-src": "'self'",
        "script-src": scripts,
        "worker-src": "'self' blob:",
        "connect-src": "'self' data:",
        "img-src": "'self' blob: data:",
        "media-src": "'self' blob:",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }


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
    return _Server(("127.0.0.1", port), partial(_Handler, places={"": _PAGE, "view": view.resolve()}))


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
        super().__init__(*arguments, directory=str(_PAGE))  # pyright: ignore[reportArgumentType]

    def translate_path(self, path: str) -> str:
        parts = PurePosixPath(unquote(urlsplit(path).path)).parts[1:]
        place = parts[0] if parts and parts[0] in self._places else ""
        inner = [part for part in parts[bool(place) :] if part not in (".", "..")]
        return str(self._places[place].joinpath(*inner or [_INDEX]))

    def list_directory(self, path: object) -> None:
        self.send_error(404)

    def end_headers(self) -> None:
        for name, value in page_headers((_PAGE / _INDEX).read_text("utf-8")).items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are nobody's news."""
