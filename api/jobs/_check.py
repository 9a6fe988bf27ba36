"""The work of ``check``: the engine's findings about a capture, and a picture from each camera to look at."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from av.error import FFmpegError

from api.jobs._folder import capture_of, fresh_folder
from api.jobs._kinds import Task
from recon4d.capture import Finding
from recon4d.capture import check as findings_of
from recon4d.events import Finished, Started
from recon4d.files import write_atomic

_WIDTH_PX = 480
"""Of a camera's picture."""
_COLUMNS = 4
"""Of the contact sheet, at most."""


def check(task: Task) -> None:
    """Decodes every video to its end. The result is ``findings``, how many ``errors`` and ``warnings`` there are,
    whether the capture is ``usable``, and ``pictures``: names of files by camera, with all of them on ``contact``."""
    capture = capture_of(task)
    begun = time.monotonic()
    task.on_event(Started(stage="check"))
    findings = findings_of(capture)
    task.on_event(Finished(stage="check", seconds=time.monotonic() - begun, detail=f"{len(findings)} findings"))

    begun = time.monotonic()
    task.on_event(Started(stage="pictures"))
    pictures = _pictures(capture, fresh_folder(task.folder / "files"))
    task.on_event(Finished(stage="pictures", seconds=time.monotonic() - begun))
    shutil.rmtree(capture)

    errors = sum(finding.severity == "error" for finding in findings)
    result = {
        "usable": errors == 0,
        "errors": errors,
        "warnings": len(findings) - errors,
        "findings": [_finding(finding) for finding in findings],
        **pictures,
    }
    task.finish(lambda _: result)


def _finding(finding: Finding) -> dict[str, Any]:
    return {key: value for key, value in asdict(finding).items() if value not in (None, "")}


def _pictures(capture: Path, folder: Path) -> dict[str, Any]:
    """A JPEG for each camera whose video shows one, and all of them on a sheet."""
    entries = json.loads((capture / "capture.json").read_text("utf-8"))["cameras"]
    pictures: dict[str, str] = {}
    tiles: list[np.ndarray] = []
    for number, entry in enumerate(entries):
        frame = _middle_frame(capture / entry["video"])
        if frame is not None:
            height = max(1, round(frame.shape[0] * _WIDTH_PX / frame.shape[1]))
            small = cv2.resize(frame, (_WIDTH_PX, height), interpolation=cv2.INTER_AREA)
            pictures[entry["name"]] = _write(folder / f"camera-{number}.jpg", small)
            tiles.append(small)
    if not tiles:
        return {"pictures": {}}
    return {"pictures": pictures, "contact": _write(folder / "contact.jpg", _sheet(tiles))}


def _middle_frame(video: Path) -> np.ndarray | None:
    """[H, W, 3] uint8 BGR, from about the middle of a video; None when none can be had."""
    try:
        with av.open(str(video)) as container:
            if container.duration:
                container.seek(container.duration // 2 + (container.start_time or 0))
            frame = next(container.decode(video=0))
            return frame.to_ndarray(format="bgr24")
    except (FFmpegError, StopIteration, OSError, IndexError, ValueError):
        return None  # The findings say what is wrong with it.


def _sheet(tiles: list[np.ndarray]) -> np.ndarray:
    """All pictures side by side, in rows, as high as the highest of them."""
    columns = min(_COLUMNS, len(tiles))
    height = max(len(tile) for tile in tiles)
    rows = -(-len(tiles) // columns)
    sheet = np.full((rows * height, columns * _WIDTH_PX, 3), 24, np.uint8)
    for number, tile in enumerate(tiles):
        row, column = divmod(number, columns)
        sheet[row * height : row * height + len(tile), column * _WIDTH_PX : (column + 1) * _WIDTH_PX] = tile
    return sheet


def _write(path: Path, image: np.ndarray) -> str:
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 85])
    assert done
    write_atomic(path, data.tobytes())
    return path.name
