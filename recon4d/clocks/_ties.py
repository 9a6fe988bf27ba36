"""Two cameras tied to each other: lag and drift between their clocks, from all over the search range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recon4d.clocks._readings import Readings, Side, read_clocks
from recon4d.clocks._search import correlation, peaks

_PEAKS = 4
_REACH_FRAMES = 4.0
"""Around a peak of the search, plus what the largest drift can make of it at the clip's ends."""
_TOLERANCE_FRAMES = 0.5
_BACKGROUND = 6
"""At how many other lags, on either side, agreement by chance is counted."""


@dataclass(frozen=True, kw_only=True)
class Tie:
    """How two cameras' clocks seem to lie, by themselves."""

    lag_s: float
    """Second camera's time minus the first's at ``at_s``."""
    rate: float
    at_s: float
    support: float
    """Tracks of the first camera with a reading that agrees, each counted by its likeness."""
    chance: float
    """The same at lags around that are wrong."""
    lags_s: np.ndarray
    """[L] the lags that were searched, for a plot."""
    score: np.ndarray
    """[L] the correlation at each."""

    @property
    def strength(self) -> float:
        """By how many standard deviations more tracks agree than by chance."""
        return (self.support - self.chance) / float(np.sqrt(self.chance + 1.0))


def tie(a: Side, b: Side, search_s: float, max_drift: float) -> Tie | None:
    """Ties two cameras; None when one of them has no tracks, or no two tracks are alike."""
    if len(a.start) < 2 or len(b.start) < 2:
        return None
    lags, score = correlation(a, b, search_s)
    best: Tie | None = None
    for lag in peaks(lags, score, _PEAKS):
        begin = max(a.time_s.min(), b.time_s.min() - lag)
        end = min(a.time_s.max(), b.time_s.max() - lag)
        if end <= begin:
            continue
        found = _line(a, b, lag, (begin, end), max_drift)
        if found is not None and (best is None or found[2] - found[3] > best.support - best.chance):
            middle = 0.5 * (begin + end)
            best = Tie(
                lag_s=found[0],
                rate=found[1],
                at_s=middle,
                support=found[2],
                chance=found[3],
                lags_s=lags,
                score=score,
            )
    return best


def _line(
    a: Side, b: Side, lag_s: float, span: tuple[float, float], max_drift: float
) -> tuple[float, float, float, float] | None:
    """Lag at the span's middle, rate, support and chance of the line that most tracks' readings lie on."""
    middle, half = 0.5 * (span[0] + span[1]), 0.5 * (span[1] - span[0])
    frame = max(a.interval_s, b.interval_s)
    reach = _REACH_FRAMES * frame + max_drift * half
    found = read_clocks(a, b, lag_s, reach)
    if len(found) == 0:
        return None
    tolerance = _TOLERANCE_FRAMES * frame
    steps = max(1, int(np.ceil(max_drift * half / tolerance)))
    best = (-1.0, lag_s, 0.0)
    for rate in np.linspace(-max_drift, max_drift, 2 * steps + 1):
        level = found.lag_s - rate * (found.at_s - middle)
        for candidate in np.arange(lag_s - reach, lag_s + reach, 0.5 * tolerance):
            total = float((found.likeness * np.exp(-0.5 * ((level - candidate) / tolerance) ** 2)).sum())
            best = max(best, (total, candidate, float(rate)))
    _, lag, rate = best
    off = found.lag_s - lag - rate * (found.at_s - middle)
    away = [sign * 2 * tolerance * (1 + n) for n in range(1, _BACKGROUND) for sign in (-1, 1)]
    chances = [_agreeing(found, off - x, tolerance) for x in away if abs(lag + x - lag_s) < reach]
    return lag, rate, _agreeing(found, off, tolerance), float(np.mean(chances)) if chances else 0.0


def _agreeing(found: Readings, off: np.ndarray, tolerance: float) -> float:
    """How many tracks of the first camera have a reading within the tolerance, each counted by its likeness."""
    near = np.abs(off) < tolerance
    most = np.zeros(found.tracks[:, 0].max() + 1)
    np.maximum.at(most, found.tracks[near, 0], found.likeness[near])
    return float(most.sum())
