"""Errors as the service answers them: problems of RFC 9457, whatever went wrong and wherever."""

from __future__ import annotations

from typing import Any

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
