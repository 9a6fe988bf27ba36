"""How this package puts a file on disk: whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from recon4d.errors import OutputError

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary name beside ``path``; on success that file takes the place of ``path`` in one step.

    On any error the temporary file is removed and what ``path`` held before stays as it was. A link stays one: what it
    names is replaced.

    Raises:
        OutputError: the file cannot be written (no space, no permission, the parent is a file), or ``path`` is a
            folder, a device or a pipe, whose place no file may take.
    """
    named, path = path, Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "a device or a pipe"
            raise OSError(0, f"it is {kind}, and no file")
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
            f"cannot write {named}: {error.strerror or error}; what was there before is unchanged. Free space or choose"
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


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Writes named tensors and JSON-able facts into one safetensors file, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    from safetensors.torch import save_file  # Here, as it brings torch, which most commands start sooner without.

    with replacing(path) as temporary:
        try:
            plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
            save_file(plain, temporary, {"facts": json.dumps(facts)})
        except SafetensorError as error:  # Its own name for an error of the operating system.
            raise OSError(str(error)) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and facts that ``write_tensors`` wrote; None when there is no such file.

    Raises:
        OutputError: the file is there but damaged.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["facts"])  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise OutputError(f"{path} is damaged ({error}); delete it, and what it held will be computed again") from error
