"""Models that several nouns answer with."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, PlainSerializer

from api.tables import CaptureFile, Upload
from api.wire import time_text

Item = TypeVar("Item")

Time = Annotated[float, PlainSerializer(time_text, return_type=str)]
"""Seconds since the epoch, written as RFC 3339 in UTC."""


class Page(BaseModel, Generic[Item]):
    """Part of a list, newest first."""

    items: list[Item]
    next: str | None = None
    """Cursor of the next page; null at the end."""


class CaptureFileOut(BaseModel):
    """A whole, checked file of a capture."""

    id: str
    camera: str
    kind: str
    filename: str
    size: int
    sha256: str
    facts: dict[str, Any]
    """Of a video: width, height, codec, frames and seconds as its header has them; of timestamps: frames, first_s,
    last_s."""

    @classmethod
    def of(cls, row: CaptureFile) -> CaptureFileOut:
        return cls.model_validate(row, from_attributes=True)


class UploadOut(BaseModel):
    """A file on its way."""

    id: str
    url: str
    camera: str
    kind: str
    filename: str
    length: int
    offset: int
    created_at: Time
    expires_at: Time

    @classmethod
    def of(cls, row: Upload) -> UploadOut:
        facts = {name: getattr(row, name) for name in cls.model_fields if name != "url"}
        return cls(url=f"/v1/uploads/{row.id}", **facts)


class CaptureOut(BaseModel):
    """A capture: files, calibration, and what is missing before it can be reconstructed."""

    id: str
    name: str
    notes: str
    created_at: Time
    files: list[CaptureFileOut]
    cameras: list[str]
    """Names in the calibration."""
    uploads: list[UploadOut]
    """Those that are not finished."""
    calibrated: bool
    ready: bool
    missing: list[str]
    """Why it is not ready, in words."""
