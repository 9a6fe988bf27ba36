"""What the service answers, as records. Members not known here are left out: a newer service is understood too."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

OVER = ("succeeded", "failed", "cancelled")
"""States in which a job stays."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Base of all records; times are RFC 3339 texts in UTC."""

    id: str

    @classmethod
    def of(cls, members: dict[str, Any]) -> Self:
        """The record that a JSON object describes."""
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in members.items() if name in known})


@dataclass(frozen=True, kw_only=True)
class CaptureFile(Record):
    """A whole, checked file of a capture."""

    camera: str
    kind: str
    """``video`` or ``timestamps``."""
    filename: str
    size: int
    """Bytes."""
    sha256: str
    facts: dict[str, Any] = field(default_factory=dict)
    """Of a video: width, height, codec, declared frames and seconds."""


@dataclass(frozen=True, kw_only=True)
class Capture(Record):
    """Videos of one scene, and what is still missing before they can be reconstructed."""

    name: str
    notes: str = ""
    created_at: str = ""
    files: tuple[CaptureFile, ...] = ()
    cameras: tuple[str, ...] = ()
    uploads: tuple[dict[str, Any], ...] = ()
    """Uploads that are not finished."""
    calibrated: bool = False
    ready: bool = False
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, members: dict[str, Any]) -> Self:
        lists = {name: tuple(members.get(name) or ()) for name in ("cameras", "uploads", "missing")}
        files = tuple(CaptureFile.of(file) for file in members.get("files") or ())
        return super().of({**members, **lists, "files": files})


@dataclass(frozen=True, kw_only=True)
class Job(Record):
    """Work that the service does."""

    kind: str
    """``check``, ``reconstruct`` or ``bundle``."""
    name: str = ""
    subject: str = ""
    """The capture or scene that it is about."""
    state: str = "queued"
    """queued, running, succeeded, failed or cancelled."""
    stage: str = ""
    fraction: float = 0.0
    eta_s: float | None = None
    slot: str | None = None
    attempt: int = 0
    created_at: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    request: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    """``{"scene": …}``, ``{"bundle": …}``, or a check's findings."""
    error: dict[str, Any] | None = None
    """A problem document when it failed."""
    links: dict[str, Any] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.state in OVER


@dataclass(frozen=True, kw_only=True)
class JobEvent:
    """One thing that a job said."""

    seq: int
    """1, 2, 3 … within the job."""
    at: str
    data: dict[str, Any]
    """As ``recon4d.events.to_json`` writes events, or ``{"event": "state", "state": …}``."""

    @property
    def last(self) -> bool:
        """Whether the job says no more after this."""
        return self.data.get("event") == "state" and self.data.get("state") in OVER


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One file of a scene."""

    name: str
    """Path within the scene's folder."""
    size: int
    sha256: str
    media_type: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Scene(Record):
    """A finished scene."""

    name: str = ""
    job: str | None = None
    capture: str | None = None
    created_at: str = ""
    cameras: tuple[str, ...] = ()
    duration_s: float = 0.0
    splats: int = 0
    scores: dict[str, Any] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()

    @classmethod
    def of(cls, members: dict[str, Any]) -> Self:
        known = {f.name for f in fields(Artifact)}
        artifacts = tuple(
            Artifact(**{name: value for name, value in item.items() if name in known})
            for item in members.get("artifacts") or ()
        )
        lists = {"cameras": tuple(members.get("cameras") or ()), "artifacts": artifacts}
        return super().of({**members, "scores": members.get("scores") or {}, **lists})


@dataclass(frozen=True, kw_only=True)
class Bundle(Record):
    """A scene with a robot and objects in it."""

    name: str = ""
    scene: str = ""
    created_at: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Environment(Record):
    """A task in a bundle, to be stepped over a websocket."""

    bundle: str
    task: str
    options: dict[str, Any] = field(default_factory=dict)
    url: str = ""
