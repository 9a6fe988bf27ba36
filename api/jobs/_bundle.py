"""The work of ``bundle``: a scene, and a configuration with its files, to what environments are made of."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from api.jobs._folder import fresh_folder
from api.jobs._kinds import Task
from api.storage import discard_bundle, find_scene, insert_bundle, prepare_bundle, scene_folder
from api.tables import Scene
from recon4d.events import Finished, Started, Warned
from simbridge.bundle import build, read_config


def bundle(task: Task) -> None:
    """Builds a bundle, its colours fitted to the capture's frames while there are any. The result is ``bundle``: its
    id."""
    with task.database.reading() as session:
        scene = find_scene(session, task.job.subject)
    capture = _capture(task, scene)
    if capture is None:
        message = "the scene's capture is not here any more: colours stay as they were reconstructed"
        task.on_event(Warned(stage="colour", message=message))
    config = read_config(_write_config(task))
    out = task.folder / "bundle"
    build(scene_folder(task.settings, scene.id), config, out, capture=capture, on_event=task.on_event)

    begun = time.monotonic()
    task.on_event(Started(stage="finishing"))
    prepared = prepare_bundle(task.settings, out)
    task.on_event(Finished(stage="finishing", seconds=time.monotonic() - begun))

    def insert(session: Session) -> dict[str, Any]:
        made = insert_bundle(session, prepared, name=task.job.name, scene_id=scene.id, job_id=task.job.id)
        return {"bundle": made}

    try:
        task.finish(insert)
    except BaseException:
        discard_bundle(prepared)
        raise
    fresh_folder(out).rmdir()


def _capture(task: Task, scene: Scene) -> Path | None:
    """The capture as it was when the scene was made of it."""
    folder = None if scene.job_id is None else task.folder.with_name(scene.job_id) / "capture"
    return folder if folder is not None and folder.is_dir() else None


def _write_config(task: Task) -> Path:
    """The request's configuration as a file, with its own files beside it."""
    folder = fresh_folder(task.folder / "config")
    for name, text in task.job.request["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    config = folder / "config.json"
    config.write_text(json.dumps(task.job.request["config"]), "utf-8")
    return config
