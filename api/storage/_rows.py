"""Rows by their ids, and what is answered where there is none."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy.orm import Session

from api.errors import Problem
from api.tables import Base

Row = TypeVar("Row", bound=Base)


def found(session: Session, table: type[Row], id: str, noun: str) -> Row:
    """The row of that id.

    Raises:
        Problem: 404, there is none.
    """
    row = session.get(table, id)
    if row is None:
        hint = f"GET /v1/{noun}s lists those there are"
        raise Problem(404, "not-found", f"there is no {noun} '{id[:60]}'", hint=hint)
    return row
