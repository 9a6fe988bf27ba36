"""Where two clocks may lie at all: a search over every lag, by how fast things turn about the baseline.

Whatever the viewpoints, a point moves through the pencil of planes at one angular speed. So each camera's tracks give a
picture, mean angular speed by plane and time, and the right lag is where the two pictures correlate. (Motion along
epipolar lines as a signal in time: Pundik and Moses 2010; there its amount, here its signed speed.)
"""

from __future__ import annotations

import numpy as np
from scipy import signal

from recon4d.clocks._readings import Side

_PLANES = 24
_STEP_S = 1 / 30
_ENOUGH = 3.0
"""Points whose mean speed counts in full; of fewer it counts less."""
_LEAST_ENERGY = 0.05
"""Share of all motion that must overlap; below it a correlation is damped, so that ends of clips prove nothing."""
_PEAKS_APART_S = 0.15


def correlation(a: Side, b: Side, search_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Lags [L] in seconds within ``search_s`` of zero, and the correlation [L] of the two cameras' motion at each."""
    step = max(_STEP_S, a.interval_s, b.interval_s)
    common = np.concatenate([x.angle[np.isfinite(x.angle)] for x in (a, b)])
    edges = np.linspace(np.percentile(common, 1), np.percentile(common, 99), _PLANES + 1)
    start = min(a.time_s.min(), b.time_s.min())
    length = int((max(a.time_s.max(), b.time_s.max()) - start) / step) + 1
    first, second = (_motion(x, edges, start, step, length) for x in (a, b))
    size = 1 << (2 * length).bit_length()

    def correlate(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        spectrum = np.conj(np.fft.rfft(x, size, axis=0)) * np.fft.rfft(y, size, axis=0)
        return np.fft.fftshift(np.fft.irfft(spectrum.sum(1), size))

    lags = (np.arange(size) - size // 2) * step
    energies = [(x**2).sum(1, keepdims=True) for x in (first, second)]
    covers = [_cover(x, start, step, length) for x in (a, b)]
    shared = np.maximum(correlate(energies[0], covers[1]), 0) * np.maximum(correlate(covers[0], energies[1]), 0)
    floor = (_LEAST_ENERGY**2) * energies[0].sum() * energies[1].sum() + 1e-30
    score = correlate(first, second) / np.sqrt(shared + floor)
    near = np.abs(lags) <= search_s
    return lags[near], score[near]


def peaks(lags: np.ndarray, score: np.ndarray, most: int) -> list[float]:
    """The lags of the highest peaks, best first."""
    apart = max(1, round(_PEAKS_APART_S / (lags[1] - lags[0]))) if len(lags) > 1 else 1
    found, _ = signal.find_peaks(np.pad(score, 1, constant_values=-np.inf), distance=apart)
    best = sorted(found - 1, key=lambda index: -score[index])
    return [float(lags[index]) for index in best[:most]]


def _motion(x: Side, edges: np.ndarray, start: float, step: float, length: int) -> np.ndarray:
    """[T, planes] mean angular speed by time and plane, radians per second; 0 where nothing moves."""
    inner = np.ones(len(x.time_s), bool)
    inner[x.start[1:] - 1] = False
    here = np.flatnonzero(inner)
    speed = (x.angle[here + 1] - x.angle[here]) / (x.time_s[here + 1] - x.time_s[here])
    middle = 0.5 * (x.angle[here + 1] + x.angle[here])
    row = ((0.5 * (x.time_s[here + 1] + x.time_s[here]) - start) / step).astype(int)
    plane = np.digitize(middle, edges) - 1
    inside = np.isfinite(speed) & (plane >= 0) & (plane < len(edges) - 1)
    cell = (row * (len(edges) - 1) + plane)[inside]
    cells = length * (len(edges) - 1)
    count = np.bincount(cell, minlength=cells)
    total = np.bincount(cell, speed[inside], minlength=cells)
    # A point is in a row once a frame; what counts is how many points there are, not how many frames.
    enough = _ENOUGH * max(1.0, step / x.interval_s)
    return (total / np.maximum(count, 1) * np.minimum(count / enough, 1)).reshape(length, -1)


def _cover(x: Side, start: float, step: float, length: int) -> np.ndarray:
    """[T, 1] float64, 1 while the camera films."""
    times = start + step * np.arange(length)
    return ((times >= x.time_s.min()) & (times <= x.time_s.max())).astype(np.float64)[:, None]
