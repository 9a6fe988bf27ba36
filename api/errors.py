"""Errors as the service answers them: problems of RFC 9457, whatever went wrong and wherever."""

from __future__ import annotations

from typing import Any

from recon4d.errors import (
    AcceleratorError,
    BackendError,
    CalibrationError,
    CaptureError,
    ConfigError,
    MissingExtraError,
    OutputError,
    Recon4DError,
    SceneError,
    TrainingDiverged,
)

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """An answer that says what went wrong.

    Args:
        status: HTTP status.
        kind: last part of the type, ``urn:recon4d:problem:<kind>``; stable, for programs.
        detail: what was wrong, the value, what is allowed: for people.
        hint: what to do.
        members: further members: ``camera``, ``file``, ``errors`` …
        headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        hint: str | None = None,
        headers: dict[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.hint = hint
        self.headers = headers or {}
        self.members = {key: value for key, value in members.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """The problem document."""
        hint = {} if self.hint is None else {"hint": self.hint}
        return {
            "type": f"urn:recon4d:problem:{self.kind}",
            "title": self.kind.replace("-", " ").capitalize(),
            "status": self.status,
            "detail": self.detail,
            **hint,
            **self.members,
        }


_OF_ENGINE: tuple[tuple[type[Recon4DError], int, str], ...] = (
    (CalibrationError, 422, "calibration"),
    (CaptureError, 422, "capture"),
    (ConfigError, 422, "config"),
    (SceneError, 422, "scene"),
    (TrainingDiverged, 422, "diverged"),
    (OutputError, 507, "output"),
    (AcceleratorError, 503, "accelerator"),
    (BackendError, 503, "accelerator"),
    (MissingExtraError, 501, "missing-extra"),
)


def problem_of(error: Recon4DError) -> Problem:
    """The problem that stands for an error of the engine: its message, its camera and its file."""
    status, kind = next(((s, k) for known, s, k in _OF_ENGINE if isinstance(error, known)), (422, "refused"))
    camera, file = (error.camera, error.file) if isinstance(error, CaptureError) else (None, None)
    return Problem(status, kind, str(error), camera=camera, file=file)
