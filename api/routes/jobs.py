"""Jobs: what they are doing, what they said, and how to stop them or begin them again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import BaseModel, Field

from api.database import Database
from api.deps import DatabaseDep, SettingsDep, allowed
from api.errors import Problem
from api.jobs import ENDED, Feed, Jobs, check_request, preview
from api.storage import find_capture
from api.tables import Capture, Job, JobEvent
from api.wire import Cursor, Limit, time_text

KEEP_ALIVE_S = 15.0
"""A stream that has nothing to say says so after so long, lest a proxy thinks that it is dead."""
LARGEST = 2**53
"""Of whole numbers: neither the database nor every language's JSON takes all of those beyond."""
LOG_BYTES = 256 * 1024
"""Of a log, at most so much at a time."""

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Option = bool | int | float | str


class JobView(BaseModel):
    """Work that a worker does, has done or is to do."""

    id: str = Field(examples=["job_7k2mqw4x9c3t8v5z6b1n"])
    kind: Literal["check", "reconstruct", "bundle"]
    name: str
    subject: str = Field(description="The capture or scene that it is about.")
    state: State
    stage: str = Field(description="Where the work is; empty before it begins.", examples=["joint"])
    fraction: float = Field(ge=0, le=1, description="Of the whole job, an estimate.")
    eta_s: float | None = Field(description="Seconds until the stage ends, as it says itself.")
    cancelling: bool = Field(description="Somebody has asked it to end, and it has not yet.")
    slot: str | None = Field(description="What it computes on.")
    attempt: int = Field(description="How often a process has begun with it.")
    created_at: str
    started_at: str | None
    finished_at: str | None
    request: dict[str, Any]
    result: dict[str, Any] | None = Field(description="What it made, once it has succeeded.")
    error: dict[str, Any] | None = Field(description="A problem document, when it failed.")
    continues: str | None = Field(description="The job whose finished stages it begins from.")
    links: dict[str, str]


class JobPage(BaseModel):
    """Some jobs, newest first."""

    items: list[JobView]
    next: str | None


class EventView(BaseModel):
    """One thing that a job said."""

    seq: int = Field(description="1, 2, 3 … within the job, without gaps.")
    at: str
    data: dict[str, Any] = Field(examples=[{"event": "progress", "stage": "joint", "step": 900, "total": 3000}])


class EventPage(BaseModel):
    """Events after a number."""

    items: list[EventView]
    next: int = Field(description="What to give as `after` the next time.")
    ended: bool = Field(description="The job says no more after these.")


class Changes(BaseModel):
    """What is to be different from the job that is begun again."""

    preset: Literal["fast", "balanced", "quality"] | None = None
    options: dict[str, Option] | None = Field(
        default=None, description="Added to those of the earlier job.", examples=[{"fit.joint.steps": 5000}]
    )


def jobs_of(database: DatabaseDep, settings: SettingsDep) -> Jobs:
    return Jobs(database, settings)


def feed_of(request: Request) -> Feed:
    return request.app.state.feed


JobsDep = Annotated[Jobs, Depends(jobs_of)]
FeedDep = Annotated[Feed, Depends(feed_of)]


def view(job: Job) -> JobView:
    """A job as clients see it."""
    home = f"/v1/{'reconstructions' if job.kind == 'reconstruct' else 'jobs'}/{job.id}"
    links = {"self": home, "events": f"{home}/events", "logs": f"{home}/logs"}
    links |= {"restart": f"{home}/restart"} if job.state in ENDED else {"cancel": f"{home}/cancel"}
    links |= {"subject": f"/v1/{'scenes' if job.kind == 'bundle' else 'captures'}/{job.subject}"}
    for made in ("scene", "bundle"):
        if job.result is not None and made in job.result:
            links[made] = f"/v1/{made}s/{job.result[made]}"
    if job.kind == "reconstruct":
        links["preview"] = f"/v1/jobs/{job.id}/files/preview.jpg"
    if job.result is not None and "contact" in job.result:
        links["contact"] = f"/v1/jobs/{job.id}/files/{job.result['contact']}"
    request = job.request if job.kind != "bundle" else {**job.request, "files": sorted(job.request["files"])}
    return JobView(
        id=job.id,
        kind=job.kind,  # type: ignore[arg-type]
        name=job.name,
        subject=job.subject,
        state=job.state,  # type: ignore[arg-type]
        stage=job.stage,
        fraction=job.fraction,
        eta_s=job.eta_s,
        cancelling=job.cancel_requested and job.state == "running",
        slot=job.slot,
        attempt=job.attempt,
        created_at=time_text(job.created_at),
        started_at=None if job.started_at is None else time_text(job.started_at),
        finished_at=None if job.finished_at is None else time_text(job.finished_at),
        request=request,
        result=job.result,
        error=job.error,
        continues=job.continues,
        links=links,
    )


def ready_capture(database: Database, capture_id: str) -> Capture:
    """A capture that the engine can read.

    Raises:
        Problem: 404; 409 when something is missing.
    """
    found = find_capture(database, capture_id)
    if found.missing:
        detail = f"the capture '{capture_id}' is not complete: {'; '.join(found.missing)}"
        raise Problem(409, "not-ready", detail, hint="Send what is missing first.", missing=found.missing)
    return found.row


router = APIRouter(tags=["jobs"])


@router.post(
    "/v1/captures/{capture_id}/check",
    status_code=202,
    operation_id="check_capture",
    dependencies=[allowed("run")],
)
def check_capture(capture_id: str, jobs: JobsDep, response: Response) -> JobView:
    """Begins to look a capture through: every video is decoded to its end. The job's `result` holds the findings,
    and names pictures to look at, one a camera."""
    capture = ready_capture(jobs.database, capture_id)
    job = jobs.submit("check", capture_id, {}, name=capture.name)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return view(job)


@router.get("/v1/jobs", operation_id="list_jobs", dependencies=[allowed("read")])
def list_jobs(
    jobs: JobsDep,
    kind: Literal["check", "reconstruct", "bundle"] | None = None,
    state: State | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JobPage:
    """Jobs, newest first."""
    rows, following = jobs.page(kind=kind, state=state, limit=limit, cursor=cursor)
    return JobPage(items=[view(row) for row in rows], next=following)


def kind_of(request: Request) -> str | None:
    """The kind of job that an address is about; None where it may be any."""
    return "reconstruct" if request.url.path.startswith("/v1/reconstructions/") else None


KindDep = Annotated[str | None, Depends(kind_of)]


def get_job(job_id: str, jobs: JobsDep, kind: KindDep) -> JobView:
    """A job as it is now."""
    return view(jobs.get(job_id, kind))


async def get_events(
    job_id: str,
    jobs: JobsDep,
    feed: FeedDep,
    kind: KindDep,
    accept: Annotated[str, Header()] = "*/*",
    last_event_id: Annotated[int | None, Header(ge=0, le=LARGEST, description="Goes on after this event.")] = None,
    after: Annotated[int | None, Query(ge=0, le=LARGEST, description="Events after this one.")] = None,
    wait: Annotated[float, Query(ge=0, le=30, description="Seconds to wait for one, where there is none yet.")] = 0.0,
) -> Response:
    """What a job says, in order: all that it has said, then the rest as it comes.

    As `text/event-stream`, with the event's number as its id, until the job has ended; a client that has heard the
    last event is answered 204, which ends its reconnecting. With `after` and without that type in `Accept`, one
    answer in JSON, after at most `wait` seconds.
    """
    job = await run_in_threadpool(jobs.get, job_id, kind)
    ended = job.state in ENDED
    if after is not None and "text/event-stream" not in accept:
        rows = await feed.after(job_id, after, 0.0 if ended else wait)
        items = [event_view(row) for row in rows]
        over = any(is_last(row) for row in rows) or (ended and not rows)
        return JSONResponse(
            EventPage(items=items, next=rows[-1].seq if rows else after, ended=over).model_dump(),
            headers={"Cache-Control": "no-store"},
        )
    start = last_event_id if last_event_id is not None else after or 0
    if ended and not await feed.after(job_id, start, 0.0):
        return Response(status_code=204)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(feed, job_id, start), media_type="text/event-stream", headers=headers)


async def _stream(feed: Feed, job_id: str, start: int) -> AsyncIterator[bytes]:
    async for rows in feed.stream(job_id, start, KEEP_ALIVE_S):
        yield _encoded(rows) or KEEPALIVE_COMMENT
        if any(is_last(row) for row in rows):
            return


@lru_cache(maxsize=8)
def _encoded(rows: tuple[JobEvent, ...]) -> bytes:
    """Events as a stream has them. All who listen to a job are given the same rows: they are written once."""
    return b"".join(
        format_sse_event(data_str=json.dumps(event_view(row).model_dump()), id=str(row.seq)) for row in rows
    )


def event_view(row: JobEvent) -> EventView:
    return EventView(seq=row.seq, at=time_text(row.at), data=row.data)


def is_last(row: JobEvent) -> bool:
    """Whether a job says no more after an event."""
    return row.data["event"] == "state" and row.data["state"] in ENDED


def get_logs(
    job_id: str,
    jobs: JobsDep,
    kind: KindDep,
    offset: Annotated[int, Query(ge=0, le=LARGEST, description="Bytes that are known already: `X-Next-Offset`.")] = 0,
) -> PlainTextResponse:
    """The log of the processes that worked at a job, a part at a time."""
    path = jobs.folder(jobs.get(job_id, kind).id) / "log.txt"
    data = b""
    if path.is_file():
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(LOG_BYTES)
    headers = {"X-Next-Offset": str(offset + len(data)), "Cache-Control": "no-store"}
    return PlainTextResponse(data, headers=headers)


def cancel_job(job_id: str, jobs: JobsDep, kind: KindDep) -> JobView:
    """Asks a job to end. One that runs stops at its next step and keeps what it has come to: restarting goes on from
    there. One that has ended stays as it is."""
    return view(jobs.cancel(job_id, kind))


def restart_job(
    job_id: str, jobs: JobsDep, kind: KindDep, response: Response, changes: Changes | None = None
) -> JobView:
    """Begins an ended job again, as a new one. Stages that the changes do not touch are not done again."""
    job = jobs.get(job_id, kind)
    if job.state not in ENDED:
        raise Problem(409, "conflict", f"job {job.id} is {job.state}", hint="Cancel it first, and wait.")
    request = changed(job, changes or Changes())
    if job.kind != "bundle":
        capture = ready_capture(jobs.database, job.subject)
        if job.kind == "reconstruct":
            check_request(jobs.settings, request, capture.rig or {})
    again = jobs.submit(job.kind, job.subject, request, name=job.name, continues=job.id)
    shown = view(again)
    response.headers["Location"] = shown.links["self"]
    return shown


def changed(job: Job, changes: Changes) -> dict[str, Any]:
    """A job's request with changes made."""
    given = changes.model_dump(exclude_none=True)
    if given and job.kind != "reconstruct":
        raise Problem(422, "no-options", f"a job of the kind '{job.kind}' has neither preset nor options")
    options = {"options": {**job.request["options"], **given["options"]}} if "options" in given else {}
    return {**job.request, **given, **options}


def delete_job(job_id: str, jobs: JobsDep, kind: KindDep) -> None:
    """Forgets an ended job, its events, its log, and what a restart would go on from. A scene that it made stays."""
    jobs.delete(job_id, kind)


_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "model": EventPage},
    204: {"description": "The job has ended and has said all this before."},
}
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


def add_resource(router: APIRouter, path: str, noun: str) -> None:
    """The addresses of one job and what belongs to it, the same for jobs of all kinds and of one."""
    read, run = [allowed("read")], [allowed("run")]
    add, home = router.add_api_route, f"{path}/{{job_id}}"
    add(home, get_job, methods=["GET"], operation_id=f"get_{noun}", dependencies=read)
    add(home, delete_job, methods=["DELETE"], operation_id=f"delete_{noun}", dependencies=run, status_code=204)
    add(
        f"{home}/events",
        get_events,
        methods=["GET"],
        operation_id=f"get_{noun}_events",
        dependencies=read,
        response_class=Response,
        responses=_STREAM,
    )
    add(
        f"{home}/logs",
        get_logs,
        methods=["GET"],
        operation_id=f"get_{noun}_logs",
        dependencies=read,
        response_class=PlainTextResponse,
        responses=_TEXT,
    )
    for name, handler in (("cancel", cancel_job), ("restart", restart_job)):
        add(
            f"{home}/{name}",
            handler,
            methods=["POST"],
            operation_id=f"{name}_{noun}",
            dependencies=run,
            status_code=202,
        )


add_resource(router, "/v1/jobs", "job")


@router.get("/v1/jobs/{job_id}/files/{name}", operation_id="get_job_file", dependencies=[allowed("read")])
def get_job_file(job_id: str, name: str, jobs: JobsDep) -> FileResponse:
    """A picture: of a check, one of those that its result names; of a reconstruction under way, `preview.jpg`, the
    latest render."""
    job = jobs.get(job_id)
    folder = jobs.folder(job.id)
    path = preview(folder) if (job.kind, name) == ("reconstruct", "preview.jpg") else folder / "files" / name
    if Path(name).name != name or name.startswith(".") or not path.is_file():
        raise Problem(404, "not-found", f"job {job_id} has no file '{name}'", file=name)
    return FileResponse(path, headers={"Cache-Control": "no-cache"})
