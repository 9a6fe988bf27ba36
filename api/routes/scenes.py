"""``/v1/scenes``: finished scenes, their files, and pictures of them from wherever one likes."""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask

from api.database import Database
from api.deps import DatabaseDep, SettingsDep, allowed
from api.errors import Problem
from api.keys import sign_link
from api.routes._files import PAGE_SECURITY, StoredFileResponse, unchanged
from api.routes._models import Page, Time
from api.sessions import Order, Painter, View
from api.storage import (
    POSTER,
    artifacts,
    delete_scene,
    find_artifact,
    find_scene,
    list_scenes,
    scene_folder,
)
from api.tables import Artifact, Scene
from api.wire import Cursor, Limit
from recon4d import __version__

router = APIRouter(prefix="/v1/scenes", tags=["scenes"])

LARGEST_SIDE = 4096
_INSTANT = "Seconds on the capture's clock; the middle of the clip when absent."
_SIDE = "Pixels; one side alone keeps the proportions, without either it is the camera's own size."
_FOREVER = "private, max-age=31536000, immutable"
_FOR_AN_HOUR = "private, max-age=3600"
_MEDIA = {"png": "image/png", "jpeg": "image/jpeg", "depth": "image/png"}
_DEPTH_SCALE = "0.001"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"application/octet-stream": _BINARY}},
    206: {"description": "The part of it that `Range` asked for."},
    304: {"description": "It is what `If-None-Match` names."},
    416: {"description": "It has no such part."},
}
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The picture.", "content": {"image/png": _BINARY, "image/jpeg": _BINARY}},
    304: {"description": "It is what `If-None-Match` names."},
    429: {"description": "Too many pictures are waiting to be drawn."},
}

IfNoneMatch = Annotated[str | None, Header(description="ETags that the client has; answers 304 when one still holds.")]


class ArtifactOut(BaseModel):
    """One file of a scene."""

    name: str = Field(examples=["report.html"])
    size: int
    sha256: str
    media_type: str
    url: str

    @classmethod
    def of(cls, row: Artifact) -> ArtifactOut:
        url = quote(f"/v1/scenes/{row.scene_id}/artifacts/{row.name}")
        return cls(name=row.name, size=row.size, sha256=row.sha256, media_type=row.media_type, url=url)


class SceneOut(BaseModel):
    """A finished scene. Nothing of it ever changes."""

    id: str = Field(examples=["scn_7k2mqw4x9c3t8v5z6b1n"])
    name: str
    job: str | None = Field(description="The job that made it.")
    capture: str | None = Field(description="What it was made from.")
    created_at: Time
    cameras: list[str]
    duration_s: float = Field(description="Its instants are 0 to this.")
    splats: int
    preset: str | None
    scores: dict[str, Any] = Field(description="What `scores.json` holds, without its long tables.")
    artifacts: list[ArtifactOut]
    thumbnail: str | None = Field(description="Address of a small picture.")

    @classmethod
    def of(cls, row: Scene, files: Sequence[Artifact]) -> SceneOut:
        shown = [ArtifactOut.of(file) for file in files]
        return cls(
            id=row.id,
            name=row.name,
            job=row.job_id,
            capture=row.capture_id,
            created_at=row.created_at,
            artifacts=shown,
            thumbnail=next((file.url for file in shown if file.name == POSTER), None),
            preset=row.facts.get("preset"),
            **{name: row.facts[name] for name in ("cameras", "duration_s", "splats", "scores")},
        )


class LinkRequest(BaseModel):
    """Which file to give away, and for how long."""

    name: str = Field(max_length=500, examples=["scene.safetensors"])
    seconds: float = Field(default=600, gt=0, le=3600)


class Link(BaseModel):
    """An address that works without a key, until then."""

    url: str
    expires_at: Time


class ExportQuery(BaseModel):
    """Which instant, in which format."""

    format: Literal["ply"] = Field(default="ply", description="`ply`: splats as most viewers read them.")
    t: float | None = Field(default=None, ge=0, allow_inf_nan=False, description=_INSTANT)


class RenderQuery(BaseModel):
    """Where to look from, when, and how large the picture is to be."""

    camera: str | None = Field(
        default=None, max_length=200, description="Of the rig; or whose lens to look through. The first when absent."
    )
    pose: str | None = Field(
        default=None,
        max_length=1000,
        description="Where to look from: `T_cam_world`, 16 numbers row by row; x right, y down, z forward; metres.",
        examples=["1,0,0,0,0,0,-1,0.5,0,1,0,2,0,0,0,1"],
    )
    position: str | None = Field(
        default=None, max_length=200, description="Where to look from, instead.", examples=["0.8,0.2,0.6"]
    )
    look_at: str | None = Field(
        default=None, max_length=200, description="What `position` looks at; +Z is up.", examples=["0,0,0"]
    )
    t: float | None = Field(default=None, ge=0, allow_inf_nan=False, description=_INSTANT)
    width: int | None = Field(default=None, ge=1, le=LARGEST_SIDE, description=_SIDE)
    height: int | None = Field(default=None, ge=1, le=LARGEST_SIDE, description=_SIDE)
    format: Literal["png", "jpeg", "depth"] = "png"

    def view(self) -> View:
        """Where to look from.

        Raises:
            Problem: 422, it is said twice or by half.
        """
        if (self.position is None) != (self.look_at is None):
            raise Problem(422, "bad-render", "position and look_at come together; one of them is missing")
        if self.pose is not None and self.position is not None:
            raise Problem(422, "bad-render", "a view is either a pose, or a position and what it looks at")
        return View(
            camera=self.camera,
            pose=_numbers(self.pose, 16, "pose"),
            position=_numbers(self.position, 3, "position"),
            look_at=_numbers(self.look_at, 3, "look_at"),
        )


def painter_of(request: Request) -> Painter:
    return request.app.state.painter


PainterDep = Annotated[Painter, Depends(painter_of)]


@router.get("", operation_id="list_scenes", dependencies=[allowed("read")])
def list_all(database: DatabaseDep, limit: Limit = 20, cursor: Cursor = None) -> Page[SceneOut]:
    """Scenes, newest first."""
    rows, following = list_scenes(database, limit, cursor)
    return Page(items=[SceneOut.of(row, files) for row, files in rows], next=following)


@router.get("/{scene_id}", operation_id="get_scene", dependencies=[allowed("read")])
def get(scene_id: str, database: DatabaseDep) -> SceneOut:
    """A scene: its cameras, scores and files."""
    with database.reading() as session:
        return SceneOut.of(find_scene(session, scene_id), artifacts(session, scene_id))


@router.delete("/{scene_id}", status_code=204, operation_id="delete_scene", dependencies=[allowed("run")])
def delete(scene_id: str, database: DatabaseDep, settings: SettingsDep) -> None:
    """Deletes a scene with its files. Bundles made from it stay."""
    delete_scene(database, settings, scene_id)


@router.head(
    "/{scene_id}/artifacts/{name:path}",
    operation_id="head_artifact",
    response_class=Response,
    dependencies=[allowed("read")],
    include_in_schema=False,
)
@router.get(
    "/{scene_id}/artifacts/{name:path}",
    operation_id="get_artifact",
    response_class=Response,
    responses=_FILE,
    dependencies=[allowed("read")],
)
def get_artifact(
    scene_id: str, name: str, database: DatabaseDep, settings: SettingsDep, if_none_match: IfNoneMatch = None
) -> Response:
    """One file of a scene, whole or in part (`Range`). Its ETag is its SHA-256; it may be kept for ever."""
    with database.reading() as session:
        row = find_artifact(session, scene_id, name)
    headers = {"ETag": f'"{row.sha256}"', "Cache-Control": _FOREVER}
    if unchanged(headers["ETag"], if_none_match):
        return Response(status_code=304, headers=headers)
    if row.media_type == "text/html":
        headers["Content-Security-Policy"] = PAGE_SECURITY
    return StoredFileResponse(
        scene_folder(settings, scene_id) / row.name,
        headers=headers,
        media_type=row.media_type,
        filename=row.name.rpartition("/")[2],
        content_disposition_type="inline",
    )


@router.post("/{scene_id}/links", status_code=201, operation_id="link_artifact", dependencies=[allowed("read")])
def link(scene_id: str, wanted: LinkRequest, database: DatabaseDep, settings: SettingsDep) -> Link:
    """An address of one file that needs no key for a while: for players, viewers and colleagues."""
    with database.reading() as session:
        row = find_artifact(session, scene_id, wanted.name)
    path = f"/v1/scenes/{scene_id}/artifacts/{row.name}"
    return Link(url=sign_link(settings, path, wanted.seconds), expires_at=time.time() + wanted.seconds)


@router.get(
    "/{scene_id}/render",
    operation_id="render_scene",
    response_class=Response,
    responses=_PICTURE,
    dependencies=[allowed("read")],
)
async def render(
    scene_id: str,
    wanted: Annotated[RenderQuery, Query()],
    database: DatabaseDep,
    settings: SettingsDep,
    painter: PainterDep,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """A picture of a scene: as a camera of its rig sees it, or from anywhere else, at any instant.

    Depth is a 16-bit PNG along the camera's axis; one step is `X-Depth-Scale` metres, 0 is where nothing is.
    """
    view = wanted.view()
    await to_thread.run_sync(_check_scene, database, scene_id, view.camera)
    headers = {"ETag": _tag(scene_id, wanted), "Cache-Control": _FOR_AN_HOUR}
    if wanted.format == "depth":
        headers["X-Depth-Scale"] = _DEPTH_SCALE
    if unchanged(headers["ETag"], if_none_match):
        return Response(status_code=304, headers=headers)
    order = Order(
        scene=scene_id,
        folder=scene_folder(settings, scene_id),
        view=view,
        **wanted.model_dump(include={"format", "t", "width", "height"}),
    )
    return Response(await painter.draw(order), headers=headers, media_type=_MEDIA[wanted.format])


@router.get(
    "/{scene_id}/export",
    operation_id="export_scene",
    response_class=Response,
    responses=_FILE,
    dependencies=[allowed("read")],
)
async def export(
    scene_id: str,
    wanted: Annotated[ExportQuery, Query()],
    database: DatabaseDep,
    settings: SettingsDep,
    painter: PainterDep,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """A scene at an instant, as a file for other programs."""
    await to_thread.run_sync(_check_scene, database, scene_id, None)
    headers = {"ETag": _tag(scene_id, wanted), "Cache-Control": _FOR_AN_HOUR}
    if unchanged(headers["ETag"], if_none_match):
        return Response(status_code=304, headers=headers)
    file = settings.data_dir / "exports" / f"{secrets.token_hex(8)}.{wanted.format}"
    folder = scene_folder(settings, scene_id)
    await painter.draw(Order(scene=scene_id, folder=folder, format=wanted.format, t=wanted.t, file=file))
    return StoredFileResponse(
        file,
        headers=headers,
        media_type="application/octet-stream",
        filename=f"{scene_id}.{wanted.format}",
        background=BackgroundTask(file.unlink, missing_ok=True),
    )


def _check_scene(database: Database, scene_id: str, camera: str | None) -> None:
    with database.reading() as session:
        cameras = find_scene(session, scene_id).facts["cameras"]
    if camera is not None and camera not in cameras:
        detail = f"the scene has no camera '{camera[:100]}'; it has {', '.join(cameras)}"
        raise Problem(422, "bad-render", detail, camera=camera[:100])


def _tag(scene_id: str, wanted: BaseModel) -> str:
    """The ETag of what is drawn: the scene never changes, so what was asked for decides."""
    asked = f"{__version__} {scene_id} {wanted.model_dump_json()}"
    return f'"{hashlib.sha256(asked.encode()).hexdigest()[:32]}"'


def _numbers(text: str | None, count: int, name: str) -> tuple[float, ...] | None:
    """Numbers between commas.

    Raises:
        Problem: 422, they are not so many finite ones.
    """
    if text is None:
        return None
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != count or not all(math.isfinite(number) for number in numbers):
        detail = f"{name} must be {count} numbers between commas; it is '{text[:100]}'"
        raise Problem(422, "bad-render", detail, errors=[{"parameter": name, "in": "query", "detail": detail}])
    return numbers
