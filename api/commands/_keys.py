"""``recon4d keys``: ``create``, ``list`` and ``revoke``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from api.commands._extra import service_extra
from recon4d.errors import ConfigError

if TYPE_CHECKING:
    from api.database import Database


@dataclass(frozen=True, kw_only=True)
class Create:
    """Make a key. It is printed once, on stdout; the service keeps only a hash of it."""

    name: Annotated[str, tyro.conf.Positional]
    """who or what will use it."""
    scopes: tuple[str, ...] = ("read", "upload", "run")
    """what it may do: read, upload (captures), run (jobs and environments); admin is all of them."""
    data_dir: Path | None = None
    """the service's folder; RECON4D_DATA_DIR, or recon4d-data, when left out."""

    def run(self) -> int:
        """Prints the key."""
        with _database(self.data_dir) as database:
            from api.keys import create_key

            row, text = create_key(database, self.name, self.scopes)
        print(
            f"key {row.id} '{row.name}' for {', '.join(row.scopes)}; keep it, it is not shown again:", file=sys.stderr
        )
        print(text)
        return 0


@dataclass(frozen=True, kw_only=True)
class List:
    """Show the keys: id, scopes, when made, last used and revoked, name."""

    data_dir: Path | None = None
    """the service's folder; RECON4D_DATA_DIR, or recon4d-data, when left out."""

    def run(self) -> int:
        """Prints a line a key."""
        with _database(self.data_dir, made=True) as database:
            from api.keys import list_keys
            from api.wire import time_text

            for key in list_keys(database):
                used = f"used {time_text(key.last_used_at)}" if key.last_used_at else "never used"
                end = f", revoked {time_text(key.revoked_at)}" if key.revoked_at else ""
                print(f"{key.id}  {','.join(key.scopes)}  made {time_text(key.created_at)}, {used}{end}  {key.name}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Revoke:
    """End a key's use, at once."""

    id: Annotated[str, tyro.conf.Positional]
    """as 'recon4d keys list' shows it."""
    data_dir: Path | None = None
    """the service's folder; RECON4D_DATA_DIR, or recon4d-data, when left out."""

    def run(self) -> int:
        """Revokes it."""
        with _database(self.data_dir, made=True) as database:
            from api.keys import revoke_key

            key = revoke_key(database, self.id)
        print(f"revoked {key.id} '{key.name}'", file=sys.stderr)
        return 0


def keys(
    action: Annotated[
        Annotated[Create, tyro.conf.subcommand("create")]
        | Annotated[List, tyro.conf.subcommand("list")]
        | Annotated[Revoke, tyro.conf.subcommand("revoke")],
        tyro.conf.arg(name=""),
    ],
) -> int:
    """API keys of the service: make, show and revoke them."""
    return action.run()


@contextmanager
def _database(data_dir: Path | None, *, made: bool = False) -> Iterator[Database]:
    """The folder's database; with ``made``, one that is there already."""
    with service_extra("recon4d keys"):
        from api.database import Database
        from api.settings import Settings

        settings = Settings() if data_dir is None else Settings(data_dir=data_dir)
        if made and not settings.database.is_file():
            raise ConfigError(
                f"'{settings.data_dir}' is no service's folder: it holds no {settings.database.name}; name the one"
                " that 'recon4d serve' or 'recon4d keys create' made, with --data-dir"
            )
        database = Database(settings.database)
        try:
            yield database
        finally:
            database.close()
