"""``recon4d sync``."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated, Literal

import tyro

from recon4d.commands._progress import Painter, stop_on_signal


def sync(
    capture: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    out: Path,
    method: Literal["auto", "geometric", "audio"] = "auto",
    reference: str | None = None,
    search_s: float = 10.0,
    drop_bad_cameras: bool = False,
    json: bool = False,
) -> int:
    """Find the cameras' clocks, and write the capture with them set.

    By what moves, on a calibrated rig, or by what is heard. Times that the capture gives are verified and kept where
    they agree. OUT also gets sync.json and sync.png, the score over all offsets of each camera. A camera whose clock
    cannot be relied on is refused by name.

    Args:
        capture: capture folder; it is only read.
        out: capture folder to make; videos are linked into it.
        method: auto prefers motion, and takes sound where motion does not settle all cameras.
        reference: camera whose clock is right; the one that the others hold best to when left out.
        search_s: clocks are looked for within this on either side, in seconds.
        drop_bad_cameras: leave out the cameras that are refused.
        json: print the table as JSON.
    """
    from recon4d.clocks import SyncConfig, synchronise, write_capture

    config = SyncConfig(method=method, reference=reference, search_s=search_s)
    with Painter(quiet=json) as on_event, stop_on_signal() as should_stop:
        result = synchronise(capture, config, on_event=on_event, should_stop=should_stop)
    print(json_.dumps(result.to_json(), indent=2) if json else result.text())
    write_capture(result, capture, out, drop_bad_cameras=drop_bad_cameras)
    if not json:
        print(f"capture {out}\nnext: recon4d check {out}; recon4d reconstruct {out} --out SCENE")
    return 0
