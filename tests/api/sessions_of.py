"""Processes of a service's sessions."""

from __future__ import annotations

from pathlib import Path

from tests.api.service import Service, descendants


def sessions_of(service: Service, name: str) -> list[int]:
    """Numbers of the living processes of a name."""
    return [pid for pid in descendants(service.web_pid) if _name(pid) == name]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # It has ended meanwhile.
        return ""
