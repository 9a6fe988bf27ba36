"""What routes ask for: settings, database, who is calling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends
from starlette.requests import HTTPConnection

from api.database import Database
from api.settings import Settings

Scope = Literal["read", "upload", "run", "admin"]


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who is calling."""

    id: str
    """A key's id, ``local`` while there is no key, or ``link`` for the bearer of a signed link."""
    scopes: frozenset[str]


Authorise = Callable[[HTTPConnection, Scope], Principal]
"""What ``app.state.authorise`` holds: who calls, or a Problem (401, 403)."""


def settings_of(connection: HTTPConnection) -> Settings:
    return connection.app.state.settings


def database_of(connection: HTTPConnection) -> Database:
    return connection.app.state.database


def allowed(scope: Scope) -> Any:
    """A dependency: the caller, who must hold ``scope``; use ``who: Principal = allowed("run")``.

    It serves requests and websockets alike.

    Raises:
        Problem: 401 without a valid key, 403 without the scope.
    """

    def check(connection: HTTPConnection) -> Principal:
        return connection.app.state.authorise(connection, scope)

    return Depends(check)


SettingsDep = Annotated[Settings, Depends(settings_of)]
DatabaseDep = Annotated[Database, Depends(database_of)]
