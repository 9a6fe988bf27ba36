"""Where the page lies, and what a server says of it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

_FILES = Path(__file__).parent / "files"
_INLINE = re.compile(r"<script[^>]*>([^<]+)</script>")


def page_files() -> Path:
    """The folder of the scene page: static files that need no build step and nothing from elsewhere."""
    return _FILES


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
