"""What the service is and how it does: ``/v1/info``, ``/v1/options``, ``/livez``, ``/readyz``, ``/metrics``."""

from __future__ import annotations

import os
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel
from sqlalchemy import func, select

from api.deps import DatabaseDep, Principal, SettingsDep, allowed
from api.errors import Problem
from api.keys import any_key
from api.routes._options import options
from api.storage import free_bytes
from api.tables import Job
from recon4d import __version__

router = APIRouter(tags=["service"])


class Info(BaseModel):
    """The service, its limits, and how busy it is."""

    version: str
    keys: bool
    """Whether an API key is needed."""
    slots: list[str]
    """What jobs compute on, one job a slot at a time."""
    queued: int
    running: int
    cpus: int
    free_bytes: int
    limits: dict[str, int]


class Option(BaseModel):
    """One value of a reconstruction's configuration."""

    name: str
    """As it stands under ``options`` of a reconstruction, such as ``fit.joint.steps``."""
    type: Literal["bool", "int", "float", "str"]
    defaults: dict[str, Any]
    """By preset."""
    help: str


class Options(BaseModel):
    """What a reconstruction may be told."""

    presets: list[str]
    options: list[Option]


@router.get("/v1/info", operation_id="get_info")
def info(database: DatabaseDep, settings: SettingsDep, who: Principal = allowed("read")) -> Info:
    """Version, limits and load."""
    with database.reading() as session:
        counts = dict(session.execute(select(Job.state, func.count()).group_by(Job.state)).all())
    return Info(
        version=__version__,
        keys=any_key(database),
        slots=list(settings.slots),
        queued=counts.get("queued", 0),
        running=counts.get("running", 0),
        cpus=os.cpu_count() or 1,
        free_bytes=free_bytes(settings),
        limits={name: getattr(settings, name) for name in type(settings).model_fields if name.startswith("max_")},
    )


@router.get("/v1/options", operation_id="get_options")
def get_options(who: Principal = allowed("read")) -> Options:
    """Presets, and every value that a reconstruction may change: name, type, default by preset, meaning."""
    return Options.model_validate(options())


@router.get("/livez", operation_id="is_alive")
async def livez() -> dict[str, str]:
    """Whether the process answers; needs no key."""
    return {"status": "alive"}


@router.get("/readyz", operation_id="is_ready")
def readyz(database: DatabaseDep, settings: SettingsDep) -> dict[str, str]:
    """Whether requests can be served: the database answers, and the disk has room; needs no key."""
    with database.reading() as session:
        session.execute(select(1))
    if free_bytes(settings) < settings.disk_reserve_bytes:
        raise Problem(503, "not-ready", "the disk is full", headers={"Retry-After": "60"})
    return {"status": "ready"}


@router.get("/metrics", operation_id="get_metrics", response_class=PlainTextResponse)
def metrics(request: Request, who: Principal = allowed("read")) -> Response:
    """Counters and gauges in Prometheus' format."""
    found = request.app.state.metrics
    return Response(found.text(), media_type=found.content_type)
