"""API keys in the database; of a key's secret only a hash is kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from api.database import Database
from api.deps import Principal
from api.ids import fresh
from api.tables import Key
from recon4d.errors import ConfigError

SCOPES = ("read", "upload", "run", "admin")
"""``read`` everything, ``upload`` captures, ``run`` jobs and environments; ``admin`` holds all of them."""

_MARK = "r4d_"
_USED_EVERY_S = 60.0
"""A key's last use is noted no more often than this, so that reading stays reading."""


def create_key(database: Database, name: str, scopes: Sequence[str]) -> tuple[Key, str]:
    """Makes a key.

    Returns:
        The row, and the key as its owner is to send it; it cannot be had again.

    Raises:
        ConfigError: an unknown scope, none, or no name.
    """
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise ConfigError(f"a key's scopes are some of {', '.join(SCOPES)}; got {', '.join(unknown) or 'none'}")
    if not name.strip():
        raise ConfigError("a key needs a name, such as who will use it")
    secret = secrets.token_hex(24)
    key = Key(id=fresh("key"), name=name, secret_hash=_hash(secret), scopes=sorted(set(scopes)))
    with database.writing() as session:
        session.add(key)
    return key, f"{_MARK}{key.id.removeprefix('key_')}_{secret}"


def list_keys(database: Database) -> list[Key]:
    """All keys, revoked ones too, oldest first."""
    with database.reading() as session:
        return list(session.scalars(select(Key).order_by(Key.created_at)))


def revoke_key(database: Database, id: str) -> Key:
    """Ends a key's use, from the next request on.

    Raises:
        ConfigError: there is no such key.
    """
    with database.writing() as session:
        key = session.get(Key, id)
        if key is None:
            raise ConfigError(f"there is no key '{id}'; 'recon4d keys list' shows them")
        key.revoked_at = key.revoked_at or time.time()
        return key


def any_key(database: Database) -> bool:
    """Whether there has ever been a key: once there was one, revoking it does not open the service again."""
    with database.reading() as session:
        return session.scalar(select(Key.id).limit(1)) is not None


def verify(database: Database, text: str) -> Principal | None:
    """The owner of a key as it was sent; None when there is none, or it was revoked."""
    part, _, secret = text.removeprefix(_MARK).partition("_")
    if not text.startswith(_MARK) or not secret:
        return None
    with database.reading() as session:
        key = session.get(Key, f"key_{part}")
    if key is None or key.revoked_at is not None or not hmac.compare_digest(key.secret_hash, _hash(secret)):
        return None
    if key.last_used_at is None or key.last_used_at < time.time() - _USED_EVERY_S:
        with database.writing() as session:
            _note_use(session, key.id)
    return Principal(id=key.id, scopes=frozenset(SCOPES if "admin" in key.scopes else key.scopes))


def _note_use(session: Session, id: str) -> None:
    key = session.get(Key, id)
    if key is not None:
        key.last_used_at = time.time()


def _hash(secret: str) -> str:
    # 192 random bits need no slow hash.
    return hashlib.sha256(secret.encode()).hexdigest()
