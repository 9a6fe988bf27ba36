"""Environments: a task in a bundle, with options; worlds exist only while a client steps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from api import ids
from api.database import Database
from api.storage._bundles import find_bundle
from api.storage._rows import found
from api.tables import Environment
from api.wire import page


def create_environment(
    database: Database, bundle_id: str, task: str, options: dict[str, Any], facts: dict[str, Any]
) -> Environment:
    """A new environment.

    Raises:
        Problem: 404, there is no such bundle.
    """
    row = Environment(id=ids.fresh("env"), bundle_id=bundle_id, task=task, options=options, facts=facts)
    with database.writing() as session:
        find_bundle(session, bundle_id)
        session.add(row)
    return row


def find_environment(session: Session, environment_id: str) -> Environment:
    """An environment's row.

    Raises:
        Problem: 404, there is none.
    """
    return found(session, Environment, environment_id, "environment")


def list_environments(database: Database, limit: int, cursor: str | None) -> tuple[Sequence[Environment], str | None]:
    """A page of environments, newest first, and the cursor of the next one."""
    with database.reading() as session:
        return page(session, select(Environment), (Environment.created_at, Environment.id), limit, cursor)


def delete_environment(database: Database, environment_id: str) -> None:
    """Forgets an environment.

    Raises:
        Problem: 404.
    """
    with database.writing() as session:
        session.delete(find_environment(session, environment_id))
