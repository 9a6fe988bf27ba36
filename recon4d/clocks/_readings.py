"""Each pair of tracks that look alike, read as a clock: by how much one camera's time is ahead of another's.

Whether two tracks show one point nobody knows. But if they do, their planes' angles agree over time once the lag is
right; and two points of a thing that is only shifted differ by a constant, which tells the same lag. So every pair of
tracks whose angles agree in shape gives a reading, most of them are about right, and the right ones agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recon4d.clocks import _kernels as k
from recon4d.clocks._pencil import Pencil
from recon4d.clocks._tracks import Tracks

_SHAPE_PX = 0.1
"""How far two tracks' angles may differ in shape, standard deviation in pixels: what a corner is followed to."""
_APART_PX = 4.0
"""And by a constant: calibrations are off by pixels, and neighbours on one thing tell the time as well."""
_MOVED_PX = 1.0
"""Standard deviation of the motion across the planes that a reading needs."""
_KIN = 5.0
"""Errors of following last for about this many samples."""
_LEAST_SAMPLES = 6
_LEAST_SHARE = 0.7
"""Of the samples that overlap at the best-covered lag: fewer agree too easily."""
_LEAST_LIKENESS = 0.05
_SYSTEMATIC_S = 0.008
"""What even the fastest pair of tracks is off by, standard deviation: contours slide over round things."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One camera's tracks as seen from a pencil of planes."""

    angle: np.ndarray
    """[S] float64, radians; NaN where a ray grazes the baseline."""
    time_s: np.ndarray
    """[S] float64."""
    start: np.ndarray
    """[N + 1] int64."""
    pixel: np.ndarray
    """[N] float64, radians of the planes' angle per pixel of the video."""
    interval_s: float
    """Usual time between two frames."""

    @property
    def begin_s(self) -> np.ndarray:
        return self.time_s[self.start[:-1]]

    @property
    def end_s(self) -> np.ndarray:
        return self.time_s[self.start[1:] - 1]


def side(tracks: Tracks, times_s: np.ndarray, pencil: Pencil) -> Side:
    """A camera's tracks, with the times [F] of its frames, in a pencil."""
    angle, sine = pencil.angles(tracks.ray_w)
    counts = np.diff(tracks.start)
    mean = np.add.reduceat(sine, tracks.start[:-1]) / counts if len(tracks) else np.zeros(0)
    return Side(
        angle=angle,
        time_s=times_s[tracks.frame],
        start=tracks.start,
        pixel=tracks.pixel_rad / np.maximum(mean, 1e-3),
        interval_s=float(np.median(np.diff(times_s))),
    )


@dataclass(frozen=True, kw_only=True)
class Readings:
    """Readings of one camera's clock against another's; arrays [M]."""

    lag_s: np.ndarray
    """Second camera's time minus the first's, of one instant."""
    at_s: np.ndarray
    """When, on the first camera's clock."""
    likeness: np.ndarray
    """How alike the two tracks are, 0 to 1."""
    weight: np.ndarray
    """Likeness over expected variance, 1 / s^2."""
    tracks: np.ndarray
    """[M, 2] int64, of the first and of the second camera."""

    def __len__(self) -> int:
        return len(self.lag_s)


def read_clocks(a: Side, b: Side, lag_s: float, reach_s: float) -> Readings:
    """Readings between ``lag_s`` - ``reach_s`` and ``lag_s`` + ``reach_s``."""
    step = 0.5 * max(a.interval_s, b.interval_s)
    lags = lag_s + step * np.arange(-np.ceil(reach_s / step) - 1, np.ceil(reach_s / step) + 2)
    pairs = _overlapping(a, b, float(lags[0]), float(lags[-1]))
    moments = np.empty((len(lags), len(pairs), k.MOMENTS))
    for index, lag in enumerate(lags):
        k.compare(pairs, a.angle, a.time_s, a.start, b.angle, b.time_s, b.start, float(lag), moments[index])
    count = np.maximum(moments[..., k.COUNT], 1)
    spread = np.maximum(moments[..., k.RR] / count - (moments[..., k.R] / count) ** 2, 0)
    enough = np.maximum(_LEAST_SAMPLES, _LEAST_SHARE * count.max(0, initial=1))
    spread = np.where((moments[..., k.COUNT] >= enough) & np.isfinite(spread), spread, np.inf)
    best = np.clip(spread.argmin(0) if len(lags) else np.zeros(0, int), 1, len(lags) - 2)
    every = np.arange(len(pairs))
    before, least, after = spread[best - 1, every], spread[best, every], spread[best + 1, every]
    lowest = (least <= before) & (least <= after) & (before + after > 2 * least)
    inside = lowest & np.isfinite(before) & np.isfinite(after)
    pairs, best, every = pairs[inside], best[inside], every[inside]
    before, least, after = before[inside], least[inside], after[inside]
    bend = before - 2 * least + after
    shift = 0.5 * (before - after) / bend
    least = np.maximum(least - 0.125 * (before - after) ** 2 / bend, 0)
    return _readings(a, b, pairs, moments[best, every], lags[best] + shift * step, least)


def _overlapping(a: Side, b: Side, first: float, last: float) -> np.ndarray:
    """[P, 2] int64, pairs of tracks that share some time at any lag from the first to the last."""
    early = a.begin_s[:, None] + first < b.end_s[None]
    late = a.end_s[:, None] + last > b.begin_s[None]
    return np.ascontiguousarray(np.argwhere(early & late).astype(np.int64))


def _readings(
    a: Side, b: Side, pairs: np.ndarray, moments: np.ndarray, lag_s: np.ndarray, spread: np.ndarray
) -> Readings:
    pixel = np.maximum(a.pixel[pairs[:, 0]], b.pixel[pairs[:, 1]])
    count = moments[:, k.COUNT]
    shape = np.sqrt(spread) / pixel
    apart = moments[:, k.R] / count / pixel
    moved = np.sqrt(np.maximum(moments[:, k.AA] / count - (moments[:, k.A] / count) ** 2, 0)) / pixel
    # Of the angular speed about its mean: a constant difference is taken off, so constant speed tells nothing.
    mean = moments[:, k.V] / count
    speed = np.maximum(moments[:, k.VV] - moments[:, k.V] * mean, 1e-30)
    at_s = (moments[:, k.VVT] - 2 * mean * moments[:, k.VT] + mean**2 * moments[:, k.T]) / speed
    variance = _SYSTEMATIC_S**2 + _KIN * _SHAPE_PX**2 * pixel**2 / speed
    likeness = np.exp(-0.5 * (shape / _SHAPE_PX) ** 2 - 0.5 * (apart / _APART_PX) ** 2)
    kept = (likeness > _LEAST_LIKENESS) & (moved > _MOVED_PX)
    return Readings(
        lag_s=lag_s[kept],
        at_s=at_s[kept],
        likeness=likeness[kept],
        weight=(likeness / variance)[kept],
        tracks=pairs[kept],
    )
