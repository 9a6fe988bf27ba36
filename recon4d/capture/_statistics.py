"""Temporal median and spread of a clip."""

from __future__ import annotations

import numpy as np

from recon4d.types import Clip, ClipStatistics

_STRIP_BYTES = 32 * 2**20
"""Memory for the frames' rows that are looked at together."""


def statistics(clip: Clip, *, max_frames: int = 150) -> ClipStatistics:
    """Median and spread over at most ``max_frames`` evenly chosen frames, first and last included.

    Only these frames of this clip are read: give a training clip, and no held-out picture leaks into the result.
    Frames are read in strips of rows, so memory does not grow with the clip. Deterministic for any thread count.

    Raises:
        ValueError: ``max_frames`` is less than 1, or the clip is empty.
    """
    if max_frames < 1 or len(clip) == 0:
        raise ValueError(f"statistics need at least one frame; max_frames is {max_frames}, the clip has {len(clip)}")
    from recon4d.capture._kernels import median_and_variance  # Importing Numba takes half a second.

    chosen = np.unique(np.linspace(0, len(clip) - 1, min(max_frames, len(clip))).round().astype(np.int64))
    height, width = clip.camera.height, clip.camera.width
    median = np.empty((height, width, 3), np.uint8)
    variance = np.empty((height, width), np.float64)
    rows = max(1, _STRIP_BYTES // (len(chosen) * width * 3))
    strip = np.empty((len(chosen), min(rows, height), width, 3), np.uint8)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        for i, index in enumerate(chosen):
            strip[i, : bottom - top] = clip.frames[int(index)][top:bottom]
        median_and_variance(strip[:, : bottom - top], median[top:bottom], variance[top:bottom])
    return ClipStatistics(median=median, spread=(np.sqrt(variance) / 255).astype(np.float32))
