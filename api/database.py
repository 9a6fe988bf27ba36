"""The database: one SQLite file that web and worker processes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from api.tables import Base
from recon4d.errors import OutputError

BUSY_MS = 30_000
"""How long a writer waits for another one."""


class Database:
    """Sessions on the service's tables, from any thread.

    Args:
        path: the SQLite file, made where there is none.

    Raises:
        OutputError: it is no such file, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_MS / 1000})
        event.listen(self.engine, "connect", _set_up)
        event.listen(self.engine, "begin", _begin)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            Base.metadata.create_all(self.engine)
        except (OSError, DBAPIError) as error:
            self.close()
            reason = error.strerror if isinstance(error, OSError) else error.orig
            raise OutputError(
                f"the service's database '{path}' cannot be used: {reason}; free space, correct its permissions,"
                " restore it from a backup, or choose another folder with --data-dir"
            ) from error

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction: committed at the end of the block, rolled back when it raises.

        It takes the writers' lock at once, so what it reads cannot change before it writes. Keep it short.
        """
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A consistent view of the tables; waits for nobody."""
        engine = self.engine.execution_options(reading=True)
        with Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        self.engine.dispose()


def _set_up(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # The driver is to leave transactions to us.
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={BUSY_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Any) -> None:
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
