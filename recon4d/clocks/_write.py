"""A capture folder with the clocks that were found."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from recon4d.clocks._plot import plot
from recon4d.clocks._table import Synchronised
from recon4d.errors import CaptureError, OutputError
from recon4d.files import write_atomic

_MANIFEST = "capture.json"


def write_capture(
    result: Synchronised, capture: Path | str, target: Path | str, *, drop_bad_cameras: bool = False
) -> Path:
    """Writes the capture with its clocks set, and the sync table beside it as ``sync.json`` and ``sync.png``.

    Videos and timestamp files are linked into the target, or copied where the file system cannot link. Where a camera
    is refused and not to be dropped, the table is written and the capture is not.

    Args:
        result: what ``synchronise`` found.
        capture: the folder that it was found of; only read.
        target: the folder to write.
        drop_bad_cameras: leave out the cameras that were refused.

    Returns:
        The target.

    Raises:
        CaptureError: a camera was refused and is not to be dropped, or less than two remain.
        OutputError: the target holds a capture already, or cannot be written.
    """
    capture, target = Path(capture), Path(target)
    if (target / _MANIFEST).exists():
        raise OutputError(f"'{target / _MANIFEST}' exists already; remove it, or choose another folder")
    write_atomic(target / "sync.json", json.dumps(result.to_json(), indent=2, ensure_ascii=False) + "\n")
    plot(result, target / "sync.png")
    if not drop_bad_cameras:
        result.require()
    kept = {clock.camera: clock for clock in result.clocks if clock.status != "refused"}
    if len(kept) < 2:
        raise CaptureError(f"only {sorted(kept)} would remain; at least 2 cameras are needed")
    manifest: dict[str, Any] = json.loads((capture / _MANIFEST).read_text("utf-8-sig"))
    manifest["cameras"] = [camera for camera in manifest["cameras"] if camera["name"] in kept]
    heldout = manifest.get("heldout") or {}
    if heldout.get("cameras"):
        heldout["cameras"] = [name for name in heldout["cameras"] if name in kept]
    for camera in manifest["cameras"]:
        clock = kept[camera["name"]]
        camera |= {"time_offset_s": clock.time_offset_s, "time_scale": clock.time_scale}
        for key in ("video", "timestamps"):
            if camera.get(key):
                _link(capture / camera[key], target / camera[key])
    write_atomic(target / _MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return target


def _link(source: Path, place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        try:
            os.link(source.resolve(), place)
        except OSError:  # Another disk, or a file system or owner that forbids links: copy, which says what is wrong.
            shutil.copyfile(source, place)
    except OSError as error:
        raise OutputError(f"'{place}' cannot be written: {error}; choose another folder") from error
