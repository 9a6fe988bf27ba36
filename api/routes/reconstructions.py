"""Reconstructions: jobs that make a scene out of a capture."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from api.deps import allowed
from api.jobs import check_request
from api.routes.jobs import JobPage, JobsDep, JobView, Option, State, add_resource, ready_capture, view
from api.wire import Cursor, Limit

Name = Annotated[str, Field(max_length=200)]


class ReconstructionRequest(BaseModel):
    """What to make of a capture."""

    capture: str = Field(examples=["cap_7k2mqw4x9c3t8v5z6b1n"])
    preset: Literal["fast", "balanced", "quality"] = "balanced"
    options: dict[str, Option] = Field(
        default={},
        description="Values by dotted name; `GET /v1/options` lists them.",
        examples=[{"fit.joint.steps": 5000}],
        max_length=200,
    )
    name: Name | None = Field(default=None, description="Of the scene; the capture's when left out.")
    slot: str | None = Field(default=None, description="What to compute on; whatever is free when left out.")
    heldout_cameras: list[str] | None = Field(
        default=None, description="Cameras to score on instead of those that the capture names.", max_length=200
    )


router = APIRouter(tags=["reconstructions"])


@router.post(
    "/v1/reconstructions", status_code=202, operation_id="create_reconstruction", dependencies=[allowed("run")]
)
def create_reconstruction(body: ReconstructionRequest, jobs: JobsDep, response: Response) -> JobView:
    """Queues a reconstruction. Its `result`, once it has succeeded, is `{"scene": "scn_…"}`."""
    capture = ready_capture(jobs.database, body.capture)
    request = body.model_dump(include={"preset", "options", "slot", "heldout_cameras"})
    check_request(jobs.settings, request, capture.rig or {})
    job = jobs.submit("reconstruct", body.capture, request, name=body.name or capture.name)
    response.headers["Location"] = f"/v1/reconstructions/{job.id}"
    return view(job)


@router.get("/v1/reconstructions", operation_id="list_reconstructions", dependencies=[allowed("read")])
def list_reconstructions(
    jobs: JobsDep, state: State | None = None, limit: Limit = 50, cursor: Cursor = None
) -> JobPage:
    """Reconstructions, newest first."""
    rows, following = jobs.page(kind="reconstruct", state=state, limit=limit, cursor=cursor)
    return JobPage(items=[view(row) for row in rows], next=following)


add_resource(router, "/v1/reconstructions", "reconstruction")
