"""All cameras' clocks together, from the readings of every pair of cameras.

A tree of the strongest ties puts all clocks within a frame of each other; then every pair is read anew, and one robust
least-squares fit finds offset and drift of every camera at once (Cauchy weights; Holland and Welsch 1977). The errors
are those of tracks and not of readings, as one track takes part in many (clustered sandwich; Liang and Zeger 1986).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from recon4d.clocks._clock import Clock, late_by
from recon4d.clocks._pencil import Pencil
from recon4d.clocks._readings import Readings, read_clocks, side
from recon4d.clocks._ties import Tie
from recon4d.clocks._tracks import Tracks
from recon4d.types import Camera

_REACH_FRAMES = (4.0, 3.0)
"""Around the clocks, round by round: a reading is exact where the clocks are right already."""
_DRIFT_S = 0.008
"""What a drift must amount to over the clip to be believed: on drawn benches without any, up to 7 ms are found in 2.5
seconds, by points that slide along what turns."""
_FOLLOWED_PX = 0.07
"""What all points of a camera may be off by together, which none of them shows; standard deviation."""
_ITERATIONS = 30
_OUTLIER_FRAMES = 0.2
_LOOSE_RATE, _HELD_RATE = 0.02, 1e-8
"""Standard deviation of a drift about which the readings say nothing, and of one that is held."""

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class View:
    """One camera as far as clocks go."""

    camera: Camera
    tracks: Tracks
    times_s: np.ndarray
    """[F] float64, the frames' own times."""

    @property
    def interval_s(self) -> float:
        return float(np.median(np.diff(self.times_s)))


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Clocks of the cameras that are tied to the reference."""

    clocks: dict[str, Clock]
    """Own times to the reference's."""
    error_s: dict[str, float]
    """Standard deviation of each clock at the worst instant of its clip."""
    misfits_s: dict[Pair, float]
    """Of each pair: how far its own readings are from the common fit, at the worst of begin, middle and end."""
    spread: dict[str, np.ndarray]
    """Of each camera: [M, 2] how far its readings are from the fit in seconds, and their weights; for a plot."""


def tree(ties: Mapping[Pair, Tie], reference: str) -> dict[str, Clock]:
    """Clocks along the strongest ties from the reference; cameras that no tie reaches are left out."""
    clocks = {reference: Clock()}
    while True:
        reach = {
            pair: tie for pair, tie in ties.items() if (pair[0] in clocks) != (pair[1] in clocks)
        }  # Prim's algorithm: the strongest edge that leaves what is tied already.
        if not reach:
            return clocks
        (a, b), strongest = max(reach.items(), key=lambda item: item[1].strength)
        between = late_by(strongest.lag_s, strongest.rate, strongest.at_s)
        if a in clocks:
            clocks[b] = clocks[a].after(between)
        else:
            clocks[a] = clocks[b].after(between.inverse())


def solve(views: Mapping[str, View], clocks: dict[str, Clock], reference: str) -> Solution:
    """Refines the clocks of a tree, which must hold the reference and at least one more."""
    views = {name: view for name, view in views.items() if name in clocks}
    names = [reference, *(name for name in views if name != reference)]
    middle, half = _common(views, clocks)
    outlier_s = _OUTLIER_FRAMES * max(view.interval_s for view in views.values())
    fit = _Fit(names, middle, outlier_s)
    for reach in _REACH_FRAMES:
        steady = frozenset(name for name in names if clocks[name].scale == 1.0)
        fit = _Fit(names, middle, outlier_s, steady if reach == _REACH_FRAMES[-1] else frozenset())
        for a, b in combinations(names, 2):
            fit.add(a, b, _read(views[a], views[b], clocks[a], clocks[b], reach))
        fit.solve()
        # What is left is a lag on the common clock; the reference's is zero.
        clocks = {name: late_by(*fit.lag(name), middle).after(clocks[name]) for name in names}
        clocks = {name: _steadied(clock, middle, half) for name, clock in clocks.items()}
    return Solution(
        clocks=clocks,
        error_s={name: 0.0 if name == reference else _error_s(fit, name, views[name], half) for name in names},
        misfits_s=fit.misfits_s(half),
        spread={name: fit.spread(name) for name in names},
    )


def _error_s(fit: _Fit, name: str, view: View, half_s: float) -> float:
    return float(np.hypot(fit.error_s(name, half_s), _FOLLOWED_PX / max(view.tracks.speed_px_s, 1e-6)))


def _steadied(clock: Clock, middle_s: float, half_s: float) -> Clock:
    """Without a drift too small to be believed; right at the middle of the clip as before."""
    if abs(clock.scale - 1) * 2 * half_s >= _DRIFT_S:
        return clock
    own_s = (middle_s - clock.offset_s) / clock.scale
    return Clock(offset_s=middle_s - own_s)


def _common(views: Mapping[str, View], clocks: Mapping[str, Clock]) -> tuple[float, float]:
    """Middle and half length of the time that is filmed, on the common clock."""
    spans = [clocks[name](view.times_s[[0, -1]]) for name, view in views.items()]
    begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
    return 0.5 * (begin + end), 0.5 * (end - begin)


def _read(a: View, b: View, clock_a: Clock, clock_b: Clock, reach_frames: float) -> Readings:
    pencil = Pencil(a.camera, b.camera)
    first, second = side(a.tracks, clock_a(a.times_s), pencil), side(b.tracks, clock_b(b.times_s), pencil)
    return read_clocks(first, second, 0.0, reach_frames * max(a.interval_s, b.interval_s))


class _Fit:
    """Robust least squares of lag(t) = p + q (t - middle) per camera, from readings of pairs."""

    def __init__(
        self, names: list[str], middle_s: float, outlier_s: float, steady: frozenset[str] = frozenset()
    ) -> None:
        self._names = names
        self._middle_s = middle_s
        self._outlier_s = outlier_s
        self._steady = steady
        """Cameras that have no drift."""
        self._readings: dict[Pair, Readings] = {}
        self._lags = np.zeros((len(names), 2))
        self._covariance = np.zeros((len(names), 2, len(names), 2))

    def add(self, a: str, b: str, readings: Readings) -> None:
        self._readings[a, b] = readings

    def solve(self) -> None:
        rows = [self._rows(pair, readings) for pair, readings in self._readings.items()]
        design = np.concatenate([row for row, _, _ in rows])
        lag = np.concatenate([readings.lag_s for readings in self._readings.values()])
        weight = np.concatenate([readings.weight for readings in self._readings.values()])
        # The reference's two columns are left out: it is right by definition.
        design, solution = design[:, 2:], np.zeros(design.shape[1] - 2)
        rates = [_HELD_RATE if name in self._steady else _LOOSE_RATE for name in self._names[1:]]
        loose = np.stack([np.zeros(len(rates)), 1 / np.square(rates)], 1).ravel()
        normal = np.diag(loose)
        for _ in range(_ITERATIONS):
            off = lag - design @ solution
            robust = weight / (1 + (off / self._outlier_s) ** 2)
            normal = design.T @ (robust[:, None] * design) + np.diag(loose + 1e-9)
            solution = np.linalg.solve(normal, design.T @ (robust * lag))
        off = lag - design @ solution
        pull = (weight / (1 + (off / self._outlier_s) ** 2) * off)[:, None] * design
        inverse = np.linalg.inv(normal)
        meat = sum((_clustered(pull, np.concatenate([row[side] for row in rows])) for side in (1, 2)), np.zeros(()))
        self._lags = np.concatenate([np.zeros(2), solution]).reshape(-1, 2)
        full = np.zeros((design.shape[1] + 2,) * 2)
        full[2:, 2:] = inverse @ meat @ inverse
        self._covariance = full.reshape(len(self._names), 2, len(self._names), 2)

    def _rows(self, pair: Pair, readings: Readings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Design matrix [M, 2 N], and which track of which camera each reading is of, on either side."""
        a, b = (self._names.index(name) for name in pair)
        basis = np.stack([np.ones(len(readings)), readings.at_s - self._middle_s], 1)
        design = np.zeros((len(readings), len(self._names), 2))
        design[:, b] += basis
        design[:, a] -= basis
        tracks = readings.tracks
        return design.reshape(len(readings), -1), a * 10**6 + tracks[:, 0], b * 10**6 + tracks[:, 1]

    def lag(self, name: str) -> tuple[float, float]:
        """Lag at the middle in seconds, and its growth per second."""
        offset, rate = self._lags[self._names.index(name)]
        return float(offset), float(rate)

    def error_s(self, name: str, half_s: float) -> float:
        """Standard deviation of a camera's lag against the reference, at the worse end of the clip."""
        n = self._names.index(name)
        own = self._covariance[n, :, n]
        ends = [np.array([1.0, x]) for x in (-half_s, 0.0, half_s)]
        return float(np.sqrt(max(x @ own @ x for x in ends)))

    def misfits_s(self, half_s: float) -> dict[Pair, float]:
        """Of each pair with readings: the worst of its own line against the common one, where it has readings."""
        misfits: dict[Pair, float] = {}
        for pair, readings in self._readings.items():
            if len(readings) == 0:
                continue
            off = self._off(pair, readings)
            basis = np.stack([np.ones(len(readings)), readings.at_s - self._middle_s], 1)
            line = np.zeros(2)
            for _ in range(_ITERATIONS):
                robust = readings.weight / (1 + ((off - basis @ line) / self._outlier_s) ** 2)
                normal = basis.T @ (robust[:, None] * basis) + np.diag([1e-9, 1 / _LOOSE_RATE**2])
                line = np.linalg.solve(normal, basis.T @ (robust * off))
            spread = float(np.sqrt(np.average(basis[:, 1] ** 2, weights=readings.weight)))
            misfits[pair] = float(max(abs(line[0] - spread * line[1]), abs(line[0] + spread * line[1])))
        return misfits

    def spread(self, name: str) -> np.ndarray:
        parts = [
            np.stack([self._off(pair, readings) * (1 if pair[1] == name else -1), readings.weight], 1)
            for pair, readings in self._readings.items()
            if name in pair
        ]
        return np.concatenate(parts)

    def _off(self, pair: Pair, readings: Readings) -> np.ndarray:
        lags = [self.lag(name) for name in pair]
        at = readings.at_s - self._middle_s
        return readings.lag_s - (lags[1][0] - lags[0][0]) - (lags[1][1] - lags[0][1]) * at


def _clustered(pull: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """Sum of outer products of each cluster's summed pull."""
    number = np.unique(cluster, return_inverse=True)[1]
    sums = np.zeros((number.max() + 1, pull.shape[1]))
    np.add.at(sums, number, pull)
    return sums.T @ sums
