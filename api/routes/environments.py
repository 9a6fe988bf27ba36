"""``/v1/environments``: tasks in bundles, stepped through websockets."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, WebSocket
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.database import Database
from api.deps import DatabaseDep, SettingsDep, allowed
from api.errors import MEDIA_TYPE, Problem
from api.keys import sign_link
from api.routes._models import Page, Time
from api.sessions import Environments, EnvironmentSpec, SessionConfig, relay
from api.settings import Settings
from api.storage import (
    bundle_folder,
    create_environment,
    delete_environment,
    find_bundle,
    find_environment,
    list_environments,
)
from api.tables import Environment
from api.wire import Cursor, Limit

router = APIRouter(prefix="/v1/environments", tags=["environments"])

MOST_WORLDS = 256
_Name = Annotated[str, Field(max_length=200)]
_Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class Randomisation(BaseModel):
    """Half-widths of what differs from episode to episode; 0 leaves it as it is."""

    model_config = ConfigDict(extra="forbid")

    camera_shift_m: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    camera_turn_deg: float = Field(default=0.0, ge=0, le=180, allow_inf_nan=False)
    focal_share: _Share = 0.0
    exposure_share: _Share = 0.0
    mass_share: _Share = 0.0
    friction_share: _Share = 0.0
    latency_steps: int = Field(default=0, ge=0, le=100, description="By which pictures may be late.")
    noise: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False, description="Of each pixel, in [0, 1].")


class EnvironmentOptions(BaseModel):
    """How worlds run and are seen."""

    model_config = ConfigDict(extra="forbid")

    num_envs: int = Field(default=1, ge=1, le=MOST_WORLDS, description="Of a session that does not ask for others.")
    cameras: list[_Name] = Field(default=[], max_length=16, description="By name; all of the bundle's when empty.")
    width: int | None = Field(default=None, ge=1, le=2048, description="With `height`; else each camera's own size.")
    height: int | None = Field(default=None, ge=1, le=2048)
    kinds: list[Literal["rgb", "depth", "segmentation"]] = Field(default=["rgb"], min_length=1, max_length=3)
    control: Literal["joint_delta", "joint_position", "ee_delta"] = "joint_delta"
    control_hz: float = Field(default=10.0, gt=0, le=1000, allow_inf_nan=False, description="Actions a second.")
    placements: Literal["drawn", "bundle"] = Field(
        default="drawn", description="Where objects begin: drawn by the task, or as the bundle lists them."
    )
    max_steps: int | None = Field(default=None, ge=1, le=1_000_000, description="Of an episode; the task's own.")
    end_on_success: bool = True
    home_noise: float = Field(default=0.02, ge=0, le=1, allow_inf_nan=False)
    randomisation: Randomisation = Randomisation()
    task_options: dict[str, Any] = Field(default={}, max_length=50, description="Of the task itself.")


class NewEnvironment(BaseModel):
    """What to do, and where."""

    bundle: str = Field(max_length=100, examples=["bun_7k2mqw4x9c3t8v5z6b1n"])
    task: str = Field(max_length=200, examples=["reach"])
    options: EnvironmentOptions = EnvironmentOptions()


class EnvironmentOut(BaseModel):
    """A task in a bundle. It costs nothing until somebody connects to it."""

    id: str = Field(examples=["env_7k2mqw4x9c3t8v5z6b1n"])
    bundle: str
    task: str
    options: EnvironmentOptions
    created_at: Time
    url: str = Field(
        description="Path of its websocket: MessagePack in binary messages, as `simbridge.remote.RemoteEnv` speaks it."
        " Query: `num_envs`, `autoreset_mode` (NextStep, SameStep, Disabled), `images` (raw, png, jpeg)."
    )
    facts: dict[str, Any] = Field(description="The task in words, steps, control; shapes of what is seen and done.")

    @classmethod
    def of(cls, row: Environment) -> EnvironmentOut:
        return cls(
            id=row.id,
            bundle=row.bundle_id,
            task=row.task,
            options=EnvironmentOptions.model_validate(row.options),
            created_at=row.created_at,
            url=_path(row.id),
            facts=row.facts,
        )


class SocketQuery(BaseModel):
    """What one client wants of its session."""

    num_envs: int | None = Field(default=None, ge=1, le=MOST_WORLDS)
    autoreset_mode: Literal["NextStep", "SameStep", "Disabled"] = "NextStep"
    images: Literal["raw", "png", "jpeg"] = "raw"


class SocketLink(BaseModel):
    """An address of a websocket that works without a key, until then."""

    url: str
    expires_at: Time


def environments_of(request: Request) -> Environments:
    return request.app.state.environments


EnvironmentsDep = Annotated[Environments, Depends(environments_of)]


@router.post("", status_code=201, operation_id="create_environment", dependencies=[allowed("run")])
async def create(
    new: NewEnvironment, database: DatabaseDep, settings: SettingsDep, environments: EnvironmentsDep
) -> EnvironmentOut:
    """Sets up a task in a bundle. Worlds are made once, in a process of their own, to see that it can be done."""
    options = new.options.model_dump(mode="json")
    await to_thread.run_sync(_check_bundle, database, new.bundle)
    spec = EnvironmentSpec(bundle=bundle_folder(settings, new.bundle), task=new.task, options=options)
    facts = await environments.describe(spec)
    row = await to_thread.run_sync(create_environment, database, new.bundle, new.task, options, facts)
    return EnvironmentOut.of(row)


@router.get("", operation_id="list_environments", dependencies=[allowed("read")])
def list_all(database: DatabaseDep, limit: Limit = 20, cursor: Cursor = None) -> Page[EnvironmentOut]:
    """Environments, newest first."""
    rows, following = list_environments(database, limit, cursor)
    return Page(items=[EnvironmentOut.of(row) for row in rows], next=following)


@router.get("/{environment_id}", operation_id="get_environment", dependencies=[allowed("read")])
def get(environment_id: str, database: DatabaseDep) -> EnvironmentOut:
    """An environment."""
    with database.reading() as session:
        return EnvironmentOut.of(find_environment(session, environment_id))


@router.delete("/{environment_id}", status_code=204, operation_id="delete_environment", dependencies=[allowed("run")])
async def delete(environment_id: str, database: DatabaseDep, environments: EnvironmentsDep) -> None:
    """Forgets an environment; sessions in it end."""
    await to_thread.run_sync(delete_environment, database, environment_id)
    environments.end(environment_id, "the environment was deleted")


@router.post("/{environment_id}/links", status_code=201, operation_id="link_environment", dependencies=[allowed("run")])
def link(environment_id: str, database: DatabaseDep, settings: SettingsDep) -> SocketLink:
    """An address of the websocket that needs no key for ten minutes: for clients that cannot send headers, as pages
    cannot. A connection that has been made goes on."""
    with database.reading() as session:
        path = _path(find_environment(session, environment_id).id)
    return SocketLink(url=sign_link(settings, path, 600), expires_at=time.time() + 600)


@router.websocket("/{environment_id}/ws")
async def step(websocket: WebSocket, environment_id: str) -> None:
    """A session: worlds of its own, in a process of its own, for as long as the connection lasts."""
    state = websocket.app.state
    try:
        spec, config = await to_thread.run_sync(_wanted, websocket, environment_id)
        async with state.environments.session(environment_id, spec, config) as session:
            await relay(websocket, session, state.settings.session_idle_s)
    except Problem as problem:  # Only before the connection was accepted; the relay tells its own over the wire.
        answer = JSONResponse(problem.to_json(), problem.status, problem.headers, MEDIA_TYPE)
        await websocket.send_denial_response(answer)


def _wanted(websocket: WebSocket, environment_id: str) -> tuple[EnvironmentSpec, SessionConfig]:
    """What a client that knocks is to get.

    Raises:
        Problem: 401, 403 it may not; 404 there is none; 422 its query is wrong.
    """
    state = websocket.app.state
    settings: Settings = state.settings
    state.authorise(websocket, "run")
    try:
        query = SocketQuery.model_validate(dict(websocket.query_params))
    except ValidationError as error:
        faults = [
            {"parameter": str(fault["loc"][0]), "in": "query", "detail": fault["msg"]} for fault in error.errors()
        ]
        detail = f"{faults[0]['parameter']}: {faults[0]['detail']}"
        raise Problem(422, "invalid-request", detail, errors=faults) from None
    with state.database.reading() as session:
        row = find_environment(session, environment_id)
    options = EnvironmentOptions.model_validate(row.options).model_dump(mode="json")
    spec = EnvironmentSpec(bundle=bundle_folder(settings, row.bundle_id), task=row.task, options=options)
    count = query.num_envs or options["num_envs"]
    return spec, SessionConfig(num_envs=count, autoreset_mode=query.autoreset_mode, images=query.images)


def _check_bundle(database: Database, bundle_id: str) -> None:
    with database.reading() as session:
        find_bundle(session, bundle_id)


def _path(environment_id: str) -> str:
    return f"/v1/environments/{environment_id}/ws"
