"""How this package puts a file on disk: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recon4d.errors import OutputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary name beside ``path``; on success that file takes the place of ``path`` in one step.

    On any error the temporary file is removed and what ``path`` held before stays as it was.

    Raises:
        OutputError: the file cannot be written (no space, no permission, the parent is a file).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}; what was there before is unchanged. Free space or choose"
            " another folder"
        ) from error


def write_atomic(path: Path, data: bytes | str) -> Path:
    """Writes a file whole or not at all; text is UTF-8. Returns ``path``.

    Raises:
        OutputError: the file cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)
    return path
