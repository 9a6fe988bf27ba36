"""``/v1/bundles``: scenes made into something that can be simulated."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from api.deps import DatabaseDep, SettingsDep, allowed
from api.jobs import check_parts
from api.routes._models import Page, Time
from api.routes.jobs import JobsDep, JobView, view
from api.storage import delete_bundle, find_bundle, find_scene, list_bundles
from api.tables import BundleRow
from api.wire import Cursor, Limit

router = APIRouter(prefix="/v1/bundles", tags=["bundles"])

PARTS_BYTES = 4 * 2**20
"""Largest body with a configuration and its files."""


class BundleOut(BaseModel):
    """A scene with a robot and things, ready to be stepped."""

    id: str = Field(examples=["bun_7k2mqw4x9c3t8v5z6b1n"])
    name: str
    scene: str = Field(description="What it was made from.")
    job: str | None = Field(description="The job that made it.")
    created_at: Time
    tasks: list[str] = Field(description="What can be done in it.", examples=[["reach", "push_block"]])
    cameras: list[dict[str, Any]] = Field(description="Name, width, height, and the body that carries each.")
    objects: list[str]
    robot: dict[str, Any] | None = Field(description="Its joints and actuators.")
    findings: list[dict[str, Any]] = Field(description="What is wrong with it or may be: see before you train.")
    licence: str
    splats: int
    bytes: int

    @classmethod
    def of(cls, row: BundleRow) -> BundleOut:
        return cls(id=row.id, name=row.name, scene=row.scene_id, job=row.job_id, created_at=row.created_at, **row.facts)


class BundleRequest(BaseModel):
    """What to make of a scene."""

    scene: str = Field(examples=["scn_7k2mqw4x9c3t8v5z6b1n"])
    name: str | None = Field(default=None, max_length=200, description="The scene's when left out.")
    config: dict[str, Any] = Field(
        description="As a bundle's config.json: robot, objects, cuts, cameras.", examples=[{"licence": "CC0-1.0"}]
    )
    files: dict[str, str] = Field(
        default={}, description="Texts by the names that the configuration uses: MJCF, meshes as OBJ, splats as PLY."
    )


@router.post("", status_code=202, operation_id="create_bundle", dependencies=[allowed("run")])
def create(body: BundleRequest, jobs: JobsDep, response: Response) -> JobView:
    """Queues the making of a bundle. The job's `result`, once it has succeeded, is `{"bundle": "bun_…"}`."""
    with jobs.database.reading() as session:
        scene = find_scene(session, body.scene)
    check_parts(body.config, body.files)
    request = {"config": body.config, "files": body.files}
    job = jobs.submit("bundle", scene.id, request, name=body.name or scene.name)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return view(job)


@router.get("", operation_id="list_bundles", dependencies=[allowed("read")])
def list_all(database: DatabaseDep, limit: Limit = 20, cursor: Cursor = None) -> Page[BundleOut]:
    """Bundles, newest first."""
    rows, following = list_bundles(database, limit, cursor)
    return Page(items=[BundleOut.of(row) for row in rows], next=following)


@router.get("/{bundle_id}", operation_id="get_bundle", dependencies=[allowed("read")])
def get(bundle_id: str, database: DatabaseDep) -> BundleOut:
    """A bundle: its cameras, its tasks, and what a check found."""
    with database.reading() as session:
        return BundleOut.of(find_bundle(session, bundle_id))


@router.delete("/{bundle_id}", status_code=204, operation_id="delete_bundle", dependencies=[allowed("run")])
async def delete(bundle_id: str, request: Request, database: DatabaseDep, settings: SettingsDep) -> None:
    """Deletes a bundle with its environments; sessions in them end."""
    for environment in await to_thread.run_sync(delete_bundle, database, settings, bundle_id):
        request.app.state.environments.end(environment, "its bundle was deleted")
