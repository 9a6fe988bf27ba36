"""``recon4d import``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro


def import_(
    format: Annotated[str, tyro.conf.Positional],
    source: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    out: Path | None = None,
    calibration: Path | None = None,
    episode: int | None = None,
    cameras: tuple[str, ...] | None = None,
) -> int:
    """Make a capture folder from another layout.

    Args:
        format: lerobot, pusht-embodied, or what installed packages add.
        source: folder in that layout; it is only read.
        out: capture folder to make; the source's name in the present folder when left out.
        calibration: file with the cameras' calibration, for layouts that have none.
        episode: which recording of a dataset of several.
        cameras: which cameras to take; all that are calibrated and stand still when left out.
    """
    from recon4d.capture import import_capture

    options = {"calibration": calibration, "episode": episode, "cameras": cameras}
    given = {name: value for name, value in options.items() if value is not None}
    capture = import_capture(
        format, source, out, on_finding=lambda f: print(f"{f.severity}: {f}", file=sys.stderr), **given
    )
    print(f"capture {capture}\nnext: recon4d check {capture}; recon4d reconstruct {capture} --out SCENE")
    return 0
