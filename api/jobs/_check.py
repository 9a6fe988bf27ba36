"""The work of ``check``: what the engine finds out about a capture, and pictures to look at."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from api.jobs._folder import capture_of, fresh_folder
from api.jobs._kinds import Task
from recon4d.capture import Examination, contact_sheet, examine
from recon4d.events import Finished, Started
from recon4d.files import write_atomic


def check(task: Task) -> None:
    """Decodes every video to its end.

    The result is what ``Examination.to_json`` says, and ``pictures``: names of files by camera, with all cameras at
    three times, the bench's grid, the axes and the cameras' places on ``contact``.
    """
    capture = capture_of(task)
    examination = examine(capture, on_event=task.on_event)
    begun = time.monotonic()
    task.on_event(Started(stage="pictures"))
    pictures = _pictures(examination, fresh_folder(task.folder / "files"))
    task.on_event(Finished(stage="pictures", seconds=time.monotonic() - begun))
    shutil.rmtree(capture)
    found = examination.to_json()
    result = {**found, "findings": [_plain(finding) for finding in found["findings"]], **pictures}
    task.finish(lambda _: result)


def _plain(finding: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in finding.items() if value not in (None, "")}


def _pictures(examination: Examination, folder: Path) -> dict[str, Any]:
    """A JPEG for each camera whose video shows one, and the contact sheet."""
    pictures = {
        view.name: _write(folder / f"camera-{number}.jpg", view.pictures[len(view.pictures) // 2])
        for number, view in enumerate(examination.views)
        if view.pictures
    }
    sheet = contact_sheet(examination)
    contact = {} if sheet is None else {"contact": _write(folder / "contact.jpg", sheet)}
    return {"pictures": pictures, **contact}


def _write(path: Path, image: np.ndarray) -> str:
    done, data = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])
    assert done
    write_atomic(path, data.tobytes())
    return path.name
