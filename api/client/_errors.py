"""What a client is told when something goes wrong."""

from __future__ import annotations

import json
from typing import Any

from recon4d.errors import CaptureError, ConfigError, Recon4DError, SceneError, TrainingDiverged


class ServiceError(Recon4DError):
    """The service refused a request, or did not answer.

    Attributes:
        status: HTTP status; None when there was no answer.
        kind: last part of the problem's type, such as ``conflict``; empty when the answer was no problem document.
        problem: the whole problem document (RFC 9457).
    """

    exit_code = 9

    def __init__(self, message: str, *, status: int | None = None, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}
        self.kind = str(self.problem.get("type", "")).rpartition(":")[2]


class JobFailed(ServiceError):
    """A job ended without a result: it failed, or somebody cancelled it.

    ``exit_code`` is the one that the same fault has when the work is done here.
    """

    def __init__(self, message: str, problem: dict[str, Any]) -> None:
        super().__init__(message, status=problem.get("status"), problem=problem)
        self.exit_code = _EXIT_CODES.get(self.kind, ServiceError.exit_code)


_EXIT_CODES = {
    "configuration": ConfigError.exit_code,
    "capture": CaptureError.exit_code,
    "calibration": CaptureError.exit_code,
    "scene": SceneError.exit_code,
    "diverged": TrainingDiverged.exit_code,
}
"""By kind of problem. What is wrong with the service's own disk or accelerators is no fault of that sort here."""


def refusal(status: int, body: bytes) -> ServiceError:
    """The error that an answer of 400 and above stands for."""
    try:
        problem = json.loads(body)
        detail = problem["detail"]
    except (ValueError, KeyError, TypeError):  # A proxy's answer, not the service's.
        text = body[:200].decode(errors="replace").strip()
        return ServiceError(f"the service answered {status}: {text or 'nothing more'}", status=status)
    return ServiceError(said(problem, detail), status=status, problem=problem)


def said(problem: dict[str, Any], detail: str) -> str:
    """A problem in a line or two, for people."""
    places = [
        f"{e.get('pointer', '')}: {e.get('detail', '')}" for e in problem.get("errors") or [] if isinstance(e, dict)
    ]
    text = "; ".join([detail.rstrip("."), *places])
    return f"{text}. {problem['hint']}" if problem.get("hint") else text
