"""Cameras as they were filmed: times of all frames, and what moves in them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from itertools import chain, islice

import numpy as np

from recon4d.capture import Source, frames
from recon4d.clocks._clock import Clock
from recon4d.clocks._solve import View
from recon4d.clocks._tracks import Follower
from recon4d.errors import CaptureError, Stopped
from recon4d.events import OnEvent, Progress, ShouldStop

STAGE = "sync"
_FIRST = 12
"""Frames that tell the usual interval before anything is followed."""


def film(sources: Sequence[Source], on_event: OnEvent, should_stop: ShouldStop) -> dict[str, View]:
    """Decodes every video once and follows what moves.

    Raises:
        CaptureError: a video cannot be read, or has no times, or other than its timestamp file.
        Stopped: ``should_stop`` said so.
    """
    views: dict[str, View] = {}
    began = time.monotonic()
    for index, source in enumerate(sources):
        views[source.name] = _film(source, should_stop)
        eta_s = (time.monotonic() - began) / (index + 1) * (len(sources) - index - 1)
        on_event(Progress(stage=STAGE, step=index + 1, total=len(sources), eta_s=eta_s))
    return views


def _film(source: Source, should_stop: ShouldStop) -> View:
    stamps: list[float | None] = []
    with closing(frames(source.video, camera=source.name)) as decoded:
        first = list(islice(decoded, _FIRST))
        given = source.times if source.times is not None else np.array([t for t, _ in first if t is not None])
        if len(first) < 2 or len(given) < 2:
            raise CaptureError(
                f"{len(first)} frames with {len(given)} times are too few to tell a clock",
                camera=source.name,
                file=source.video.name,
            )
        follower = Follower(source.rig, float(np.median(np.diff(given))))
        for stamp, frame in chain(first, decoded):
            if should_stop():
                raise Stopped("stopped while following what moves; nothing is written")
            stamps.append(stamp)
            follower.see(frame)
    times = source.times
    if times is None:
        if None in stamps:
            raise CaptureError(
                f"frame {stamps.index(None)} carries no presentation time; add a timestamp file",
                camera=source.name,
                file=source.video.name,
            )
        times = np.array(stamps, np.float64)
    if len(times) != len(stamps):
        raise CaptureError(
            f"the video decodes to {len(stamps)} frames, its timestamp file holds {len(times)} times",
            camera=source.name,
            file=source.video.name,
        )
    return View(camera=source.rig.camera, tracks=follower.tracks(), times_s=given_clock(source)(times))


def given_clock(source: Source) -> Clock:
    """What the capture says of a camera's clock."""
    return Clock(scale=source.time_scale, offset_s=source.time_offset_s)
