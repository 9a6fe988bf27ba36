"""Folders that come to be at once: copied under another name, made durable, then renamed."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 20
_TYPES = {".jsonl": "application/x-ndjson", ".ply": "application/octet-stream", ".webp": "image/webp"}


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """One file of a finished folder."""

    name: str
    """Path within the folder, with ``/``."""
    size: int
    sha256: str
    media_type: str


def copy_whole(source: Path, target: Path, left_out: frozenset[str]) -> None:
    """Copies a folder's plain files; links, and what ``left_out`` names at the top, stay behind."""
    for path in plain_files(source):
        name = path.relative_to(source)
        if name.parts[0] in left_out:
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)


def plain_files(folder: Path) -> Iterator[Path]:
    """Files of a folder and of the folders in it, by name; nothing that is reached through a link."""
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink():
            continue
        if entry.is_dir():
            yield from plain_files(entry)
        elif entry.is_file():
            yield entry


def settle(folder: Path) -> tuple[StoredFile, ...]:
    """Hashes a folder's files and waits until the disk holds them."""
    found = []
    for path in plain_files(folder):
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
            os.fsync(file.fileno())
        name = path.relative_to(folder).as_posix()
        found.append(StoredFile(name=name, size=size, sha256=digest.hexdigest(), media_type=media_type(name)))
    return tuple(found)


def media_type(name: str) -> str:
    """What a file is, by the name that this service or the engine gave it."""
    known = _TYPES.get(Path(name).suffix)
    return known or mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"


def remove(folder: Path) -> None:
    """Takes a folder away at once, then frees its space."""
    gone = folder.with_name(f"{folder.name}.gone")
    with suppress(FileNotFoundError):
        os.replace(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def strangers(parent: Path, known: set[str], older_than_s: float) -> list[Path]:
    """Folders whose names are not known, and that nobody has touched for a while."""
    if not parent.is_dir():
        return []
    limit = time.time() - older_than_s
    return [entry for entry in parent.iterdir() if entry.name not in known and entry.stat().st_mtime < limit]
