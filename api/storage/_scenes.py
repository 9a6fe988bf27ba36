"""Finished scenes: folders that never change, and their rows.

A scene comes to be in two steps. ``prepare_scene`` does all that takes long and can be thrown away; ``insert_scene``
makes it count, within a transaction that the caller may make depend on more.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from api import ids
from api.database import Database
from api.errors import Problem
from api.settings import Settings
from api.storage._folders import StoredFile, copy_whole, remove, settle, strangers
from api.storage._rows import found
from api.tables import Artifact, BundleRow, Job, Scene
from api.wire import page

VIEW = "view"
POSTER = "view/poster.jpg"
"""A small picture of the scene; one without cameras has none."""
_LEFT_OUT = frozenset({"work", ".lock"})


@dataclass(frozen=True, kw_only=True)
class PreparedScene:
    """A scene's folder in its place, and what its rows are to say."""

    id: str
    folder: Path
    facts: dict[str, Any]
    files: tuple[StoredFile, ...]


def scene_folder(settings: Settings, scene_id: str) -> Path:
    """Where a scene lies."""
    return settings.data_dir / "scenes" / scene_id


def prepare_scene(settings: Settings, folder: Path) -> PreparedScene:
    """Copies a scene folder of the engine into the service, with what the page draws it from.

    Nothing counts yet: pass what comes back to :func:`insert_scene`, or to :func:`discard_scene`.

    Args:
        folder: what ``recon4d.reconstruct`` left; it is only read.

    Raises:
        SceneError: it holds no scene.
        OutputError: there is no room for the copy.
    """
    from recon4d import scene as scenes
    from recon4d import show

    scene_id = ids.fresh("scn")
    final = scene_folder(settings, scene_id)
    partial = final.with_name(f"{scene_id}.tmp")
    try:
        partial.mkdir(parents=True)
        copy_whole(folder, partial, _LEFT_OUT)
        scene = scenes.load(partial)
        show.write_view(scene, partial / VIEW)
        files = settle(partial)
        os.replace(partial, final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    facts = {
        "cameras": [camera.name for camera in scene.cameras],
        "duration_s": scene.duration_s,
        "splats": scene.splats,
        "scores": _scores(final),
    }
    return PreparedScene(id=scene_id, folder=final, facts=facts, files=files)


def insert_scene(
    session: Session,
    prepared: PreparedScene,
    *,
    name: str,
    job_id: str | None = None,
    capture_id: str | None = None,
    preset: str | None = None,
) -> str:
    """Writes a prepared scene's rows in the caller's transaction, with which they stand or fall.

    Returns:
        The scene's id.

    Raises:
        IntegrityError: the job has a scene already.
    """
    facts = prepared.facts | ({} if preset is None else {"preset": preset})
    session.add(Scene(id=prepared.id, name=name, job_id=job_id, capture_id=capture_id, facts=facts))
    session.flush()
    session.add_all(Artifact(scene_id=prepared.id, **vars(file)) for file in prepared.files)
    session.flush()
    return prepared.id


def discard_scene(prepared: PreparedScene) -> None:
    """Takes a prepared scene away that is not to count."""
    remove(prepared.folder)


def add_scene(
    database: Database,
    settings: Settings,
    folder: Path,
    *,
    name: str,
    job_id: str | None = None,
    capture_id: str | None = None,
) -> str:
    """Takes up a scene folder: both steps at once.

    Returns:
        The scene's id.

    Raises:
        SceneError, OutputError: see :func:`prepare_scene`.
        IntegrityError: the job has a scene already.
    """
    prepared = prepare_scene(settings, folder)
    try:
        with database.writing() as session:
            return insert_scene(session, prepared, name=name, job_id=job_id, capture_id=capture_id)
    except BaseException:
        discard_scene(prepared)
        raise


def find_scene(session: Session, scene_id: str) -> Scene:
    """A scene's row.

    Raises:
        Problem: 404, there is none.
    """
    return found(session, Scene, scene_id, "scene")


def find_artifact(session: Session, scene_id: str, name: str) -> Artifact:
    """The row of one file of a scene.

    Raises:
        Problem: 404, there is no such scene, or it has no such file.
    """
    row = session.get(Artifact, (scene_id, name))
    if row is None:
        find_scene(session, scene_id)
        hint = f"GET /v1/scenes/{scene_id} lists its files"
        raise Problem(404, "not-found", f"scene {scene_id} has no file '{name[:200]}'", file=name[:200], hint=hint)
    return row


def artifacts(session: Session, scene_id: str) -> list[Artifact]:
    """Rows of a scene's files, by name."""
    return list(session.scalars(select(Artifact).where(Artifact.scene_id == scene_id).order_by(Artifact.name)))


def list_scenes(
    database: Database, limit: int, cursor: str | None
) -> tuple[list[tuple[Scene, list[Artifact]]], str | None]:
    """A page of scenes with their files, newest first, and the cursor of the next one."""
    with database.reading() as session:
        rows, following = page(session, select(Scene), (Scene.created_at, Scene.id), limit, cursor)
        return [(row, artifacts(session, row.id)) for row in rows], following


def delete_scene(database: Database, settings: Settings, scene_id: str) -> None:
    """Takes a scene away. Bundles that were built from it stay: they hold all that they need.

    Raises:
        Problem: 404 when there is none, 409 while a job reads it.
    """
    with database.writing() as session:
        row = find_scene(session, scene_id)
        busy = select(Job.id).where(Job.subject == scene_id, Job.state.in_(("queued", "running")))
        job = session.scalars(busy).first()
        if job is not None:
            raise Problem(
                409, "conflict", f"job {job} uses scene {scene_id}", hint="wait until it has ended, or cancel it"
            )
        session.delete(row)
    remove(scene_folder(settings, scene_id))


def sweep_finished(database: Database, settings: Settings, *, older_than_s: float = 3600.0) -> int:
    """Removes folders of scenes and bundles that no row names: what processes that died had left.

    Args:
        older_than_s: younger ones may be on their way to a row.

    Returns:
        How many there were.
    """
    count = 0
    for parent, table in (("scenes", Scene), ("bundles", BundleRow)):
        lost = strangers(settings.data_dir / parent, set(), older_than_s)
        with database.reading() as session:
            known = set(session.scalars(select(table.id)))
        for folder in lost:
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)
                count += 1
    return count


def _scores(folder: Path) -> dict[str, Any]:
    """What ``scores.json`` holds but its tables; nothing when the scene was never scored."""
    path = folder / "scores.json"
    if not path.is_file():
        return {}
    return {key: value for key, value in json.loads(path.read_text("utf-8")).items() if not isinstance(value, list)}
