"""Files from the service: gone on with where they broke off, and kept only when the hash is right."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from io import BufferedRandom
from pathlib import Path, PurePosixPath

import httpx

from api.client._errors import ServiceError
from api.client._http import Connection, Patience, cause, is_passing
from api.client._records import Artifact
from api.client._upload import hash_of
from recon4d.errors import OutputError

OnBytes = Callable[[int], None]
"""Told how many bytes of a file are here by now."""


def download(connection: Connection, artifact: Artifact, folder: Path, on_bytes: OnBytes) -> Path:
    """Fetches a file into a folder, under its own name; nothing is fetched when it is there already.

    Args:
        connection: to the service.
        artifact: the file.
        folder: the scene's folder here.
        on_bytes: told of progress; may raise to stop, and a later call goes on.

    Raises:
        OutputError: it cannot be written.
        ServiceError: it was refused, arrived damaged twice, or the service is gone.
    """
    target = place(artifact, folder)
    part = target.with_name(f".{target.name}.part")
    try:
        if target.is_file() and target.stat().st_size == artifact.size and hash_of(target) == artifact.sha256:
            on_bytes(artifact.size)
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(2):  # What an earlier try left may be damaged; a fresh copy may not.
            with part.open("ab+") as file:
                if _fetch(connection, artifact, file, on_bytes) == artifact.sha256:
                    part.replace(target)
                    return target
            part.unlink()
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    raise ServiceError(f"{artifact.name} arrives damaged: its SHA-256 is not the one that the service names")


def place(artifact: Artifact, folder: Path) -> Path:
    """Where a file goes.

    Raises:
        ServiceError: its name leads out of the folder.
    """
    name = PurePosixPath(artifact.name)
    if name.is_absolute() or not name.parts or {"..", ""} & set(name.parts) or "\\" in artifact.name:
        raise ServiceError(f"the service names a file '{artifact.name}', which is no place within a scene's folder")
    return folder.joinpath(*name.parts)


def _fetch(connection: Connection, artifact: Artifact, file: BufferedRandom, on_bytes: OnBytes) -> str:
    """Appends what is missing; returns the whole file's SHA-256."""
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256")
    patience = connection.patience()
    while (offset := file.seek(0, 2)) < artifact.size:
        try:
            headers = {"Range": f"bytes={offset}-"} if offset else {}
            with connection.stream(artifact.url, headers) as answer:
                if offset and answer.status_code != 206:  # All of it, though only a part was asked for.
                    file.truncate(0)
                    digest = hashlib.sha256()
                _append(answer, file, digest, patience, on_bytes)
            if file.tell() < artifact.size:
                patience.wait(f"{artifact.name} ends after {file.tell()} of {artifact.size} bytes")
        except httpx.TransportError as error:
            patience.wait(cause(error))
        except ServiceError as error:
            if not is_passing(error):
                raise
            patience.wait(str(error))
    file.flush()
    return digest.hexdigest()


def _append(
    answer: httpx.Response, file: BufferedRandom, digest: hashlib._Hash, patience: Patience, on_bytes: OnBytes
) -> None:
    for data in answer.iter_bytes():
        file.write(data)
        digest.update(data)
        patience.renew()
        on_bytes(file.tell())
