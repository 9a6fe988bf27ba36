"""Decides for each request who is calling, and whether they may."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from api.database import Database
from api.deps import Principal, Scope
from api.errors import Problem
from api.keys._links import is_signed
from api.keys._store import SCOPES, any_key, verify
from api.settings import Settings

_LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
_LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1"}
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="recon4d"'}


class Doorkeeper:
    """Callable as ``(connection, scope) -> Principal``; reads the database at every call, so revoking works at once."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    def __call__(self, connection: HTTPConnection, scope: Scope) -> Principal:
        """The caller, who holds ``scope``.

        Raises:
            Problem: 401 when nobody can be made out, 403 when they lack the scope.
        """
        query = connection.query_params
        if "signature" in query and connection.scope.get("method", "GET") in ("GET", "HEAD"):
            if is_signed(self._settings, connection.scope["path"], query):
                return Principal(id="link", scopes=frozenset({scope}))
            raise Problem(403, "bad-link", "the link's signature is not right for this address, or it has run out")
        principal = self.identify(connection)
        if scope not in principal.scopes:
            held = ", ".join(sorted(principal.scopes))
            raise Problem(
                403,
                "forbidden",
                f"this needs the scope '{scope}'; the key holds {held}",
                hint=f"make a key with it: recon4d keys create NAME --scopes {scope}",
                scope=scope,
            )
        return principal

    def identify(self, connection: HTTPConnection) -> Principal:
        """The caller by key, or ``local`` while there is no key and the request is of this machine.

        Raises:
            Problem: 401.
        """
        scheme, _, text = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            principal = verify(self._database, text.strip())
            if principal is None:
                raise Problem(401, "bad-key", "the API key is not known, or was revoked", headers=_CHALLENGE)
            return principal
        if any_key(self._database):
            raise Problem(
                401,
                "key-needed",
                "this service needs an API key",
                hint="send it as 'Authorization: Bearer r4d_…'; 'recon4d keys create' makes one",
                headers=_CHALLENGE,
            )
        self._refuse_strangers(connection)
        return Principal(id="local", scopes=frozenset(SCOPES))

    def _refuse_strangers(self, connection: HTTPConnection) -> None:
        """Without keys only this machine is served, by name: neither proxies nor pages of other sites get through."""
        headers = connection.headers
        client = connection.client.host if connection.client else ""
        host = headers.get("host", "")
        forwarded = sorted(name for name in headers if name == "forwarded" or name.startswith("x-forwarded-"))
        origin = headers.get("origin")
        if client not in _LOOPBACK:
            reason = f"the request comes from {client or 'an unknown address'}, not from this machine"
        elif _name(f"//{host}") not in _LOCAL_HOSTS:
            reason = f"the request is for the host '{host[:100]}', not for localhost"
        elif forwarded:
            reason = f"the request came through a proxy ({', '.join(forwarded)})"
        elif origin is not None and origin.partition("://")[2] != host and origin not in self._settings.cors_origins:
            reason = f"the request was made by a page of '{origin[:100]}'"
        else:
            return
        raise Problem(
            401,
            "key-needed",
            f"without API keys only this machine is served: {reason}",
            hint="make a key on the server with 'recon4d keys create', and send it as 'Authorization: Bearer r4d_…'",
            headers=_CHALLENGE,
        )


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:  # What the header holds is no host.
        return None
