"""Which frames are scored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from recon4d.capture import Division
from recon4d.types import Clip, SplitRule

SetName = Literal["heldout_cameras", "heldout_times", "train"]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One frame to score."""

    set: SetName
    clip: Clip
    """All frames of its camera."""
    frame: int
    """Index of the frame in the clip."""
    instant_s: float
    """The grid instant that it stands for, seconds on the capture clock; the frame has its own time near it."""

    @property
    def camera(self) -> str:
        return self.clip.camera.name

    @property
    def time_s(self) -> float:
        return float(self.clip.times[self.frame])


def training_frames(division: Division, camera: str) -> Clip:
    """The camera's frames that training reads; of a held-out camera those that it would read, had it been there."""
    for clip in division.train.clips:
        if clip.camera.name == camera:
            return clip
    clip = division.heldout.clip(camera)
    guard_s = division.heldout.split.guard_s
    distance = np.abs(clip.times[:, None] - division.test_times[None, :]).min(axis=1, initial=np.inf)
    return clip.select(np.flatnonzero(distance >= guard_s))


def samples(division: Division, train_every: int) -> list[Sample]:
    """All frames to score, camera after camera.

    Held-out cameras give the frame nearest to every grid instant of the whole clip; training cameras give the frame
    nearest to every held-out instant, and, for the training set, to every ``train_every``-th grid instant.
    """
    rule, end_s = division.heldout.split, division.heldout.duration_s
    trained = {clip.camera.name for clip in division.train.clips}
    grid = np.arange(int(np.floor(end_s / rule.grid_s + 1e-6)) + 1) * rule.grid_s
    chosen: list[Sample] = []
    for clip in division.heldout.clips:
        if clip.camera.name not in trained:
            chosen += _nearest(clip, grid, "heldout_cameras")
            continue
        chosen += _heldout(clip, division.test_times, rule)
        chosen += _nearest(training_frames(division, clip.camera.name), grid[::train_every], "train")
    return chosen


def _nearest(clip: Clip, instants_s: np.ndarray, name: SetName) -> Iterator[Sample]:
    """One sample an instant; a frame that is nearest to several (in a gap) is scored once."""
    seen: set[int] = set()
    for instant_s in instants_s if len(clip) else ():
        frame = clip.nearest(instant_s)
        if frame not in seen:
            seen.add(frame)
            yield Sample(set=name, clip=clip, frame=frame, instant_s=float(instant_s))


def _heldout(clip: Clip, instants_s: np.ndarray, rule: SplitRule) -> Iterator[Sample]:
    """As above, without instants at which the camera has a gap so wide that the nearest frame was trained on."""
    for sample in _nearest(clip, instants_s, "heldout_times"):
        if abs(sample.time_s - sample.instant_s) < rule.guard_s:
            yield sample
