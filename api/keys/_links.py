"""Signed links: one address, for reading, for a short while, without a key."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from api.settings import Settings

LONGEST_S = 3600.0


def sign_link(settings: Settings, path: str, seconds: float = 600.0) -> str:
    """The path with ``expires`` and ``signature`` appended: whoever holds it may GET that path for so long.

    Args:
        settings: says where the signing key lies; it is made on first use.
        path: absolute and not percent-encoded, such as ``/v1/scenes/scn_…/artifacts/scene.json``.
        seconds: how long it works, at most an hour.
    """
    expires = str(int(time.time() + min(seconds, LONGEST_S)))
    query = urlencode({"expires": expires, "signature": _signature(settings, path, expires)})
    return f"{quote(path)}?{query}"


def is_signed(settings: Settings, path: str, query: QueryParams) -> bool:
    """Whether the query holds a signature of the path that has not run out."""
    expires, signature = query.get("expires", ""), query.get("signature", "")
    if not signature.isascii() or not (expires.isascii() and expires.isdigit()) or len(expires) > 12:
        return False
    right = hmac.compare_digest(signature, _signature(settings, path, expires))
    return right and int(expires) >= time.time()


def _signature(settings: Settings, path: str, expires: str) -> str:
    return hmac.new(
        _secret(settings.data_dir / "secret"), f"GET\n{path}\n{expires}".encode(), hashlib.sha256
    ).hexdigest()


def _secret(path: Path) -> bytes:
    """The signing key; made once, readable by its owner alone."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            os.link(temporary, path)  # Unlike a rename it fails when another process was first.
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return path.read_bytes()
