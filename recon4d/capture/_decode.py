"""One pass over a camera's video: every frame handed on, its time known, what is wrong with it said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from recon4d.capture._clock import check_rhythm, check_times
from recon4d.capture._config import IngestConfig
from recon4d.capture._findings import Inspection
from recon4d.capture._likeness import compare_looks
from recon4d.capture._store import StoredClip
from recon4d.capture._survey import Filmed, Survey
from recon4d.capture._watch import Looks, PictureWatch
from recon4d.capture.video import decode


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What is known of one camera once its video is decoded."""

    times: np.ndarray
    """[F] float64, seconds on the original clock."""
    looks: Looks


def decode_one(source: Filmed, inspection: Inspection, take: Callable[[np.ndarray], None]) -> Decoded:
    """Decodes a video to the end and hands every frame to ``take``."""
    watch = PictureWatch(source.bench_px)
    presented: list[float | None] = []
    entry = source.entry
    with closing(decode(source.path, inspection.about(entry.name, entry.video), entry.camera)) as frames:
        for time_s, frame in frames:
            presented.append(time_s)
            watch.see(frame)
            take(frame)
    times = _times(source, presented, inspection)
    watch.conclude(times, inspection.about(entry.name, entry.video))
    return Decoded(times=times, looks=watch.looks)


def _times(source: Filmed, presented: list[float | None], inspection: Inspection) -> np.ndarray:
    """[F] seconds on the original clock: of the timestamp file, else of the container."""
    entry = source.entry
    if source.times is not None:
        if len(source.times) != len(presented):
            inspection.error(
                f"the video decodes to {len(presented)} frames, but {entry.timestamps} holds {len(source.times)} times",
                "every frame needs its own time: write the timestamps again, or use the video that they belong to",
                camera=entry.name,
                file=entry.video,
            )
        return entry.on_the_clock(source.times)
    if None in presented:
        inspection.error(
            f"frame {presented.index(None)} carries no presentation time",
            "use a container that stores times (MP4, MKV), or add a timestamp file",
            camera=entry.name,
            file=entry.video,
        )
    times = entry.on_the_clock(np.array(presented, np.float64))
    check_times(times, entry.name, entry.video, inspection)
    return times


def compare_cameras(
    survey: Survey, clips: Mapping[str, Decoded | StoredClip], config: IngestConfig, inspection: Inspection
) -> None:
    """Looks at rhythms, and at how the cameras' pictures differ."""
    for source in survey.sources:
        name, file = source.entry.name, source.entry.timestamps or source.entry.video
        if name in clips:
            check_rhythm(clips[name].times, name, file, config.gap_factor, inspection)
    compare_looks({name: clip.looks for name, clip in clips.items()}, config.exposure_ratio, inspection)
