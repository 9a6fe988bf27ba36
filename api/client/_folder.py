"""A capture folder as it lies here: what is to be sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from api.client._upload import Source
from recon4d.errors import CaptureError

MANIFEST = "capture.json"


def read_folder(folder: Path) -> tuple[dict[str, Any], list[Source]]:
    """What ``capture.json`` says, and the files that it names. The service checks what is in them.

    Raises:
        CaptureError: there is no such folder or file, or it names none.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise CaptureError(
            f"cannot be read: {error.strerror}. A capture folder holds {MANIFEST}", file=str(path)
        ) from error
    except ValueError as error:
        raise CaptureError(f"is no JSON: {error}", file=str(path)) from error
    cameras = manifest.get("cameras") if isinstance(manifest, dict) else None
    if not isinstance(cameras, list) or not cameras:
        raise CaptureError("names no cameras", file=str(path))
    sources = [source for camera in cameras for source in _sources(camera, folder, path)]
    for source in sources:
        if not source.path.is_file():
            raise CaptureError("there is no such file", camera=source.camera, file=str(source.path))
    return manifest, sources


def _sources(camera: Any, folder: Path, path: Path) -> list[Source]:
    if not (isinstance(camera, dict) and isinstance(camera.get("name"), str) and isinstance(camera.get("video"), str)):
        raise CaptureError("each camera needs a 'name' and a 'video'", file=str(path))
    found = [Source(path=folder / camera["video"], camera=camera["name"])]
    if camera.get("timestamps"):
        found.append(Source(path=folder / str(camera["timestamps"]), camera=camera["name"], kind="timestamps"))
    return found
