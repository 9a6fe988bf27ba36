"""The work of ``reconstruct``: the engine's product door, and the finished scene's way into storage."""

from __future__ import annotations

import shutil
import time
from typing import Any

from sqlalchemy.orm import Session

from api.jobs._folder import capture_of, output_of
from api.jobs._kinds import Task
from api.jobs._requests import config_of
from api.storage import discard_scene, insert_scene, prepare_scene
from recon4d import reconstruct as room
from recon4d.events import Finished, Started


def reconstruct(task: Task) -> None:
    """Goes through the engine's stages, from wherever an earlier attempt came to. The result is ``scene``: its id."""
    request = task.job.request
    capture, out = capture_of(task), output_of(task)
    room.reconstruct(
        capture,
        out,
        config_of(request),
        device=task.device,
        on_event=task.on_event,
        should_stop=task.should_stop,
    )
    begun = time.monotonic()
    task.on_event(Started(stage="finishing"))
    prepared = prepare_scene(task.settings, out)
    task.on_event(Finished(stage="finishing", seconds=time.monotonic() - begun))

    def insert(session: Session) -> dict[str, Any]:
        name, preset = task.job.name, request["preset"]
        scene = insert_scene(
            session, prepared, name=name, job_id=task.job.id, capture_id=task.job.subject, preset=preset
        )
        return {"scene": scene}

    try:
        task.finish(insert)
    except BaseException:
        discard_scene(prepared)
        raise
    # Decoded video is large and soon made again; the rest is what a restart goes on from.
    shutil.rmtree(out / "work" / "frames", ignore_errors=True)
