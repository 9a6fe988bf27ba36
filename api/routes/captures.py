"""``/v1/captures``: videos of one scene, their calibration, and what is still missing."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, File, Form, Query, Request, Response, UploadFile
from pydantic import BaseModel, Field

from api.deps import DatabaseDep, Principal, SettingsDep, allowed
from api.routes._models import CaptureFileOut, CaptureOut, Page, UploadOut
from api.storage import (
    CaptureState,
    Label,
    add_file,
    calibration,
    create_capture,
    delete_capture,
    find_capture,
    list_captures,
    remove_file,
    set_calibration,
)
from api.wire import Cursor, Limit

router = APIRouter(prefix="/v1/captures", tags=["captures"])

MULTIPART_BYTES = 256 * 2**20
"""Largest body of a form with a file."""
CALIBRATION_BYTES = 8 * 2**20


class NewCapture(BaseModel):
    """What to call it."""

    name: str = Field(min_length=1, max_length=200, examples=["bench, first take"])
    notes: str = Field(default="", max_length=10_000)


class CalibrationOut(BaseModel):
    """How the cameras stand, and what the engine has to say of it."""

    cameras: dict[str, Any]
    """By name, as capture.json describes them."""
    bench_plane: list[float] | None = None
    heldout: dict[str, Any] | None = None
    warnings: list[dict[str, Any]]


@router.post("", status_code=201, operation_id="create_capture")
def create(
    new: NewCapture, request: Request, response: Response, database: DatabaseDep, who: Principal = allowed("upload")
) -> CaptureOut:
    """Begin a capture: an empty set of videos, one a camera."""
    made = create_capture(database, new.name, new.notes)
    response.headers["Location"] = f"/v1/captures/{made.row.id}"
    return capture_out(made)


@router.get("", operation_id="list_captures")
def index(
    database: DatabaseDep, limit: Limit = 20, cursor: Cursor = None, who: Principal = allowed("read")
) -> Page[CaptureOut]:
    """Captures, newest first."""
    found, following = list_captures(database, limit, cursor)
    return Page(items=[capture_out(capture) for capture in found], next=following)


@router.get("/{id}", operation_id="get_capture")
def get(id: str, database: DatabaseDep, who: Principal = allowed("read")) -> CaptureOut:
    """One capture, with its files and open uploads."""
    return capture_out(find_capture(database, id))


@router.delete("/{id}", status_code=204, operation_id="delete_capture")
def delete(id: str, database: DatabaseDep, settings: SettingsDep, who: Principal = allowed("upload")) -> None:
    """Delete a capture and its files; scenes made from it stay."""
    delete_capture(database, settings, id)


@router.post("/{id}/files", status_code=201, operation_id="add_capture_file")
def add(
    id: str,
    camera: Annotated[str, Form(max_length=200, examples=["cam0"])],
    file: Annotated[UploadFile, File()],
    database: DatabaseDep,
    settings: SettingsDep,
    kind: Annotated[str, Form(pattern="^(video|timestamps)$")] = "video",
    sha256: Annotated[str | None, Form(pattern="^[0-9a-fA-F]{64}$")] = None,
    who: Principal = allowed("upload"),
) -> CaptureFileOut:
    """Send a small file in one request. It takes the place of an earlier one of the same camera and kind."""
    label = Label.of(id, camera, kind, file.filename or "")
    with tempfile.NamedTemporaryFile(dir=settings.data_dir / "uploads") as copy:
        shutil.copyfileobj(file.file, copy)
        copy.flush()
        return CaptureFileOut.of(add_file(database, settings, label, Path(copy.name), sha256))


@router.delete("/{id}/files/{file_id}", status_code=204, operation_id="delete_capture_file")
def delete_file(
    id: str, file_id: str, database: DatabaseDep, settings: SettingsDep, who: Principal = allowed("upload")
) -> None:
    """Take a file out of a capture."""
    remove_file(database, settings, id, file_id)


_EXAMPLE = {
    "version": 1,
    "cameras": [
        {
            "name": "cam0",
            "width": 640,
            "height": 480,
            "K": [[612.0, 0.0, 320.0], [0.0, 612.0, 240.0], [0.0, 0.0, 1.0]],
            "pose": {
                "convention": "T_cam_world",
                "axes": "opencv",
                "matrix": [[1, 0, 0, 0], [0, 0, -1, 0.5], [0, 1, 0, 1.2], [0, 0, 0, 1]],
            },
            "pixel_center": "integer",
        }
    ],
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}},
    }
}


@router.put("/{id}/calibration", operation_id="set_calibration", openapi_extra=_BODY)
async def put_calibration(
    id: str,
    request: Request,
    database: DatabaseDep,
    settings: SettingsDep,
    format: Annotated[str | None, Query(max_length=60, examples=["capture"])] = None,
    who: Principal = allowed("upload"),
) -> CalibrationOut:
    """Say how the cameras stand: the content of a capture.json, or of another layout that the engine reads."""
    text = await request.body()
    found = await to_thread.run_sync(set_calibration, database, settings, id, text, format)
    return CalibrationOut(cameras=found.cameras, warnings=found.warnings, **found.extras)


@router.get("/{id}/calibration", operation_id="get_calibration")
def get_calibration(id: str, database: DatabaseDep, who: Principal = allowed("read")) -> CalibrationOut:
    """How the cameras stand."""
    found = calibration(database, id)
    return CalibrationOut(cameras=found.cameras, warnings=found.warnings, **found.extras)


def capture_out(capture: CaptureState) -> CaptureOut:
    row = capture.row
    return CaptureOut(
        id=row.id,
        name=row.name,
        notes=row.notes,
        created_at=row.created_at,
        files=[CaptureFileOut.of(file) for file in capture.files],
        cameras=list(row.rig or ()),
        uploads=[UploadOut.of(upload) for upload in capture.uploads],
        calibrated=row.rig is not None,
        ready=not capture.missing,
        missing=capture.missing,
    )
