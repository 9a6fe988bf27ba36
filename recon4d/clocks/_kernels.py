"""The CPU kernel that holds two cameras' tracks against each other."""

from __future__ import annotations

import numpy as np

from recon4d.jit import kernel

COUNT, R, RR, V, VV, T, VT, VVT, A, AA = range(10)
"""Columns of what ``compare`` writes: the sums of these over a pair's samples."""
MOMENTS = 10


@kernel(fastmath=False)
def compare(
    pairs: np.ndarray,
    angle_a: np.ndarray,
    time_a: np.ndarray,
    start_a: np.ndarray,
    angle_b: np.ndarray,
    time_b: np.ndarray,
    start_b: np.ndarray,
    lag: float,
    out: np.ndarray,
) -> None:
    """Moments of r = angle_a(t) - angle_b(t + lag) over the samples of a, for pairs of tracks [P, 2] int64.

    Angles and times are [S] float64, ``start_*`` [N + 1] int64. Camera b is read linearly between its samples; a sample
    of a outside b's track does not count. ``out`` is [P, MOMENTS] float64: sums over the samples of
    1, r, r r, v, v v, t, v t, v v t, a, a a, where v = d angle_b / dt and a = angle_a.
    """
    for p in range(pairs.shape[0]):
        i, j = pairs[p, 0], pairs[p, 1]
        k, last = start_b[j], start_b[j + 1] - 1
        for m in range(out.shape[1]):
            out[p, m] = 0.0
        for n in range(start_a[i], start_a[i + 1]):
            t = time_a[n]
            if t + lag < time_b[k] or t + lag > time_b[last]:
                continue
            while k < last - 1 and time_b[k + 1] < t + lag:
                k += 1
            v = (angle_b[k + 1] - angle_b[k]) / (time_b[k + 1] - time_b[k])
            r = angle_a[n] - angle_b[k] - v * (t + lag - time_b[k])
            out[p, COUNT] += 1
            out[p, R] += r
            out[p, RR] += r * r
            out[p, V] += v
            out[p, VV] += v * v
            out[p, T] += t
            out[p, VT] += v * t
            out[p, VVT] += v * v * t
            out[p, A] += angle_a[n]
            out[p, AA] += angle_a[n] * angle_a[n]
