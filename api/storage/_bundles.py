"""Bundles: folders that environments are made of, and their rows. They come to be as scenes do, in two steps."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from api import ids
from api.database import Database
from api.settings import Settings
from api.storage._folders import copy_whole, remove, settle
from api.storage._rows import found
from api.tables import BundleRow, Environment
from api.wire import page
from recon4d.errors import Recon4DError


@dataclass(frozen=True, kw_only=True)
class PreparedBundle:
    """A bundle's folder in its place, and what its row is to say."""

    id: str
    folder: Path
    facts: dict[str, Any]


def bundle_folder(settings: Settings, bundle_id: str) -> Path:
    """Where a bundle lies."""
    return settings.data_dir / "bundles" / bundle_id


def prepare_bundle(settings: Settings, folder: Path) -> PreparedBundle:
    """Copies a bundle's folder into the service and looks it through.

    Nothing counts yet: pass what comes back to :func:`insert_bundle`, or to :func:`discard_bundle`.

    Raises:
        BundleError: it holds no bundle.
    """
    from simbridge import bundle as bundles

    bundle_id = ids.fresh("bun")
    final = bundle_folder(settings, bundle_id)
    partial = final.with_name(f"{bundle_id}.tmp")
    try:
        partial.mkdir(parents=True)
        copy_whole(folder, partial, frozenset())
        facts = _facts(bundles.load(partial)) | {"findings": [vars(finding) for finding in bundles.check(partial)]}
        facts["bytes"] = sum(file.size for file in settle(partial))
        os.replace(partial, final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return PreparedBundle(id=bundle_id, folder=final, facts=facts)


def insert_bundle(
    session: Session, prepared: PreparedBundle, *, name: str, scene_id: str, job_id: str | None = None
) -> str:
    """Writes a prepared bundle's row in the caller's transaction.

    Returns:
        The bundle's id.

    Raises:
        IntegrityError: the job has a bundle already.
    """
    session.add(BundleRow(id=prepared.id, name=name, scene_id=scene_id, job_id=job_id, facts=prepared.facts))
    session.flush()
    return prepared.id


def discard_bundle(prepared: PreparedBundle) -> None:
    """Takes a prepared bundle away that is not to count."""
    remove(prepared.folder)


def add_bundle(
    database: Database, settings: Settings, folder: Path, *, name: str, scene_id: str, job_id: str | None = None
) -> str:
    """Takes up a bundle's folder: both steps at once. Returns its id; raises as they do."""
    prepared = prepare_bundle(settings, folder)
    try:
        with database.writing() as session:
            return insert_bundle(session, prepared, name=name, scene_id=scene_id, job_id=job_id)
    except BaseException:
        discard_bundle(prepared)
        raise


def find_bundle(session: Session, bundle_id: str) -> BundleRow:
    """A bundle's row.

    Raises:
        Problem: 404, there is none.
    """
    return found(session, BundleRow, bundle_id, "bundle")


def list_bundles(database: Database, limit: int, cursor: str | None) -> tuple[Sequence[BundleRow], str | None]:
    """A page of bundles, newest first, and the cursor of the next one."""
    with database.reading() as session:
        return page(session, select(BundleRow), (BundleRow.created_at, BundleRow.id), limit, cursor)


def delete_bundle(database: Database, settings: Settings, bundle_id: str) -> list[str]:
    """Takes a bundle away, and the environments in it.

    Returns:
        The ids of those environments.

    Raises:
        Problem: 404.
    """
    with database.writing() as session:
        row = find_bundle(session, bundle_id)
        environments = list(session.scalars(select(Environment.id).where(Environment.bundle_id == bundle_id)))
        session.delete(row)
    remove(bundle_folder(settings, bundle_id))
    return environments


def _facts(bundle: Any) -> dict[str, Any]:
    """What a client wants to know before it makes an environment: cameras, objects, and which tasks can be done."""
    robot = bundle.robot
    return {
        "cameras": [{"name": c.name, "width": c.width, "height": c.height, "body": c.body} for c in bundle.cameras],
        "objects": [thing.body for thing in bundle.objects],
        "robot": None if robot is None else {"joints": list(robot.joints), "actuators": list(robot.actuators)},
        "tasks": [] if robot is None else _tasks(bundle),
        "licence": bundle.licence,
        "splats": sum(len(part.splats) for part in bundle.splats),
    }


def _tasks(bundle: Any) -> list[str]:
    """Those for which the bundle has all that they need."""
    import mujoco

    from simbridge.tasks import make_task, tasks

    able = []
    for name in tasks():
        try:
            make_task(name).prepare(mujoco.MjSpec.from_file(str(bundle.model_path)), bundle)
        except Recon4DError:
            continue
        able.append(name)
    return able
