"""``simbridge bundle``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from recon4d.events import Event, Finished, Warned


def bundle(
    scene: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    config: Path,
    out: Path,
    capture: Path | None = None,
    quiet: bool = False,
) -> int:
    """Make an environment's bundle out of a scene.

    Args:
        scene: scene folder.
        config: JSON or TOML file that says what to make of it; samples/bench_sim/config.json is one.
        out: bundle folder; new, empty, or an earlier bundle, which is replaced.
        capture: the scene's capture folder; rendered colours are then fitted to its frames.
        quiet: no progress.
    """
    from simbridge.bundle import build, read_config

    def on_event(event: Event) -> None:
        if isinstance(event, Warned):
            print(f"warning: {event.message}", file=sys.stderr)
        elif isinstance(event, Finished) and not quiet:
            print(f"{event.stage}: done, {event.seconds:.1f} s", file=sys.stderr)

    built = build(scene, read_config(config), out, capture=capture, on_event=on_event)
    for part in built.splats:
        print(f"{part.body}: {len(part.splats)} splats")
    print(f"bundle  {built.path}\npictures  {built.path / 'pictures'}")
    return 0
