"""How values that every list and answer has are written: times and pages."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from fastapi import Query
from sqlalchemy import Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from api.errors import Problem

Row = TypeVar("Row")

Limit = Annotated[int, Query(ge=1, le=100, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=200, description="`next` of the page before.")]


def time_text(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, with milliseconds and a final ``Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def page(
    session: Session,
    statement: Select[Row],
    order: tuple[InstrumentedAttribute[float], InstrumentedAttribute[str]],
    limit: int,
    cursor: str | None,
) -> tuple[Sequence[Row], str | None]:
    """One page of rows, newest first, and the cursor of the next one (None at the end).

    Args:
        session: where to read.
        statement: selects whole rows, without an order.
        order: the table's ``created_at`` and ``id``.
        limit: rows a page.
        cursor: what the page before ended with.

    Raises:
        Problem: 422, the cursor is none of ours.
    """
    if cursor is not None:
        statement = statement.where(tuple_(*order) < _decode(cursor))
    rows = session.scalars(statement.order_by(*(column.desc() for column in order)).limit(limit + 1)).all()
    if len(rows) <= limit:
        return rows, None
    last: Any = rows[limit - 1]
    text = json.dumps([getattr(last, column.key) for column in order])
    return rows[:limit], base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str) -> tuple[float, str]:
    try:
        at, id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(at, float) and isinstance(id, str) and abs(at) < 1e12:
            return at, id
    except (ValueError, TypeError, RecursionError):
        pass
    raise Problem(422, "bad-cursor", f"'{cursor}' is no cursor of this list", hint="use a page's 'next' as it is")
