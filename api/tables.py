"""The service's tables. Times are seconds since the epoch, names come from :mod:`api.ids`."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map = {dict[str, Any]: JSON, list[str]: JSON, list[dict[str, Any]]: JSON}  # noqa: RUF012


class Key(Base):
    """An API key; its secret is kept as a hash."""

    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    secret_hash: Mapped[str]
    scopes: Mapped[list[str]]
    created_at: Mapped[float] = mapped_column(default=time.time)
    last_used_at: Mapped[float | None]
    revoked_at: Mapped[float | None]


class Answer(Base):
    """What a request with an ``Idempotency-Key`` was answered."""

    __tablename__ = "answers"

    principal: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request_hash: Mapped[str]
    status: Mapped[int | None]
    """None while the first request is at work."""
    body: Mapped[dict[str, Any] | None]
    created_at: Mapped[float] = mapped_column(default=time.time)


class Capture(Base):
    """Videos of one scene, and how their cameras stand."""

    __tablename__ = "captures"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    notes: Mapped[str] = mapped_column(default="")
    created_at: Mapped[float] = mapped_column(default=time.time, index=True)
    rig: Mapped[dict[str, Any] | None]
    """Cameras by name as ``capture.json`` describes them, without files; None before there is a calibration."""
    extras: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Further members of ``capture.json``: bench plane, split rule."""
    warnings: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    """What the engine has to say of the calibration."""


class CaptureFile(Base):
    """One whole, checked file of a capture."""

    __tablename__ = "capture_files"
    __table_args__ = (Index("one_file_a_camera_and_kind", "capture_id", "camera", "kind", unique=True),)

    id: Mapped[str] = mapped_column(primary_key=True)
    capture_id: Mapped[str] = mapped_column(ForeignKey("captures.id", ondelete="CASCADE"), index=True)
    camera: Mapped[str]
    kind: Mapped[str]
    """``video`` or ``timestamps``."""
    filename: Mapped[str]
    """What the client calls it; shown, never used as a path."""
    stored: Mapped[str]
    """Path under the data folder, chosen by the service."""
    size: Mapped[int]
    sha256: Mapped[str]
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Of a video: width, height, codec, declared frames and seconds."""
    created_at: Mapped[float] = mapped_column(default=time.time)


class Upload(Base):
    """A file on its way."""

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(primary_key=True)
    capture_id: Mapped[str] = mapped_column(ForeignKey("captures.id", ondelete="CASCADE"), index=True)
    camera: Mapped[str]
    kind: Mapped[str]
    filename: Mapped[str]
    length: Mapped[int]
    offset: Mapped[int] = mapped_column(default=0)
    """Bytes that are on disk for certain."""
    file_id: Mapped[str | None]
    """The capture's file that it became, once committed."""
    created_at: Mapped[float] = mapped_column(default=time.time)
    expires_at: Mapped[float]


class Job(Base):
    """Work for a worker process."""

    __tablename__ = "jobs"

    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(index=True)
    """``check``, ``reconstruct`` or ``bundle``."""
    name: Mapped[str] = mapped_column(default="")
    subject: Mapped[str] = mapped_column(index=True)
    """The capture or scene that it is about."""
    request: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="queued", index=True)
    """queued, running, succeeded, failed or cancelled."""
    stage: Mapped[str] = mapped_column(default="")
    fraction: Mapped[float] = mapped_column(default=0.0)
    """Of the whole job, an estimate."""
    eta_s: Mapped[float | None]
    """Seconds until the stage ends, as it says itself."""
    slot: Mapped[str | None]
    attempt: Mapped[int] = mapped_column(default=0)
    """How often a process has begun with it."""
    deaths: Mapped[int] = mapped_column(default=0)
    """How often such a process died."""
    owner: Mapped[str | None]
    """The attempt that holds the lease: only it may write."""
    lease_until: Mapped[float | None]
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[float] = mapped_column(default=time.time, index=True)
    started_at: Mapped[float | None]
    finished_at: Mapped[float | None]
    result: Mapped[dict[str, Any] | None]
    error: Mapped[dict[str, Any] | None]
    """A problem (RFC 9457) when it failed."""
    continues: Mapped[str | None]
    """The job whose finished stages this one starts from."""


class JobEvent(Base):
    """What a job said; only ever added to."""

    __tablename__ = "job_events"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    """1, 2, 3 … within the job."""
    at: Mapped[float] = mapped_column(default=time.time)
    data: Mapped[dict[str, Any]]
    """As ``recon4d.events.to_json`` writes it, or ``{"event": "state", "state": …}``."""


class Scene(Base):
    """A finished scene; its folder never changes."""

    __tablename__ = "scenes"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    job_id: Mapped[str | None] = mapped_column(unique=True)
    capture_id: Mapped[str | None] = mapped_column(index=True)
    created_at: Mapped[float] = mapped_column(default=time.time, index=True)
    facts: Mapped[dict[str, Any]]
    """cameras, duration_s, splats, preset and ``scores`` (what ``scores.json`` holds but its tables)."""


class Artifact(Base):
    """One file of a scene."""

    __tablename__ = "artifacts"

    scene_id: Mapped[str] = mapped_column(ForeignKey("scenes.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    """Path within the scene's folder."""
    size: Mapped[int]
    sha256: Mapped[str]
    media_type: Mapped[str]


class BundleRow(Base):
    """A bundle that a ``bundle`` job built from a scene."""

    __tablename__ = "bundles"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    scene_id: Mapped[str] = mapped_column(index=True)
    job_id: Mapped[str | None] = mapped_column(unique=True)
    created_at: Mapped[float] = mapped_column(default=time.time, index=True)
    facts: Mapped[dict[str, Any]]
    """tasks, cameras, findings."""


class Environment(Base):
    """A task in a bundle that clients may step; each websocket has worlds of its own."""

    __tablename__ = "environments"

    id: Mapped[str] = mapped_column(primary_key=True)
    bundle_id: Mapped[str] = mapped_column(ForeignKey("bundles.id", ondelete="CASCADE"), index=True)
    task: Mapped[str]
    options: Mapped[dict[str, Any]] = mapped_column(default=dict)
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """What the task is, in words and numbers; shapes of observations and actions."""
    created_at: Mapped[float] = mapped_column(default=time.time, index=True)
