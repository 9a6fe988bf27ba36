"""Names that clients give: what may be one, and where the service keeps what they name."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Literal, get_args

from api.errors import Problem
from api.settings import Settings

Kind = Literal["video", "timestamps"]
KINDS: tuple[str, ...] = get_args(Kind)

_LONGEST = 120


def camera_name(text: str) -> str:
    """The name, as the engine takes camera names.

    Raises:
        Problem: 422.
    """
    fits = text.strip() == text and 0 < len(text.encode(errors="replace")) <= _LONGEST
    if not fits or text in (".", "..") or "/" in text or "\\" in text or not text.isprintable():
        raise Problem(
            422,
            "bad-camera-name",
            f"a camera's name is 1 to {_LONGEST} bytes without slashes, control characters or outer blanks;"
            f" it is {text[:_LONGEST]!r}",
            hint="use the names that the calibration uses",
        )
    return text


def file_kind(text: str) -> str:
    """``video`` or ``timestamps``.

    Raises:
        Problem: 422.
    """
    if text not in KINDS:
        raise Problem(422, "bad-file-kind", f"a file's kind is one of {', '.join(KINDS)}; it is {text[:40]!r}")
    return text


def shown_name(text: str, otherwise: str) -> str:
    """What a client calls its file, for people to read: never a path."""
    last = re.split(r"[/\\]", text)[-1]
    return "".join(c for c in last if c.isprintable())[:200].strip() or otherwise


def part_path(settings: Settings, upload_id: str) -> Path:
    """Where an unfinished upload's bytes lie."""
    return settings.data_dir / "uploads" / f"{upload_id}.part"


def capture_folder(settings: Settings, capture_id: str) -> Path:
    """Where a capture's files lie."""
    return settings.data_dir / "captures" / capture_id


def place(source: Path, target: Path) -> None:
    """Gives a file a second name, or a copy where the disk knows no links; whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:  # Another disk, or one without hard links: copying reports its own trouble.
        shutil.copyfile(source, temporary)
    os.replace(temporary, target)
