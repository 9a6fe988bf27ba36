"""``recon4d import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro


def import_(
    format: Annotated[str, tyro.conf.Positional],
    source: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    out: Path | None = None,
) -> int:
    """Make a capture folder from another layout.

    Args:
        format: pusht-embodied, or what installed packages add.
        source: folder in that layout; it is only read.
        out: capture folder to make; the source's name in the present folder when left out.
    """
    from recon4d.capture import import_capture

    capture = import_capture(format, source, out)
    print(f"capture {capture}\nnext: recon4d check {capture}; recon4d reconstruct {capture} --out SCENE")
    return 0
