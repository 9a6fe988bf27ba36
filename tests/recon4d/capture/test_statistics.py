"""Temporal median and spread against NumPy's."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from recon4d.capture import _statistics, statistics
from recon4d.types import Camera, Clip


def clip_of(frames: np.ndarray) -> Clip:
    height, width = frames.shape[1:3]
    camera = Camera(name="a", width=width, height=height, K=np.diag([5.0, 5, 1]), T_cam_world=np.eye(4))
    times = np.arange(len(frames)) * 0.1
    return Clip(camera=camera, times=times, frames=frames, valid=np.ones((height, width), bool))


def noise(count: int, height: int = 13, width: int = 17) -> np.ndarray:
    frames = np.random.default_rng(count).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    frames[:, 0, 0] = 255  # Extremes of the range, and pixels that never change.
    frames[:, 0, 1] = 0
    frames[::2, 0, 2] = 255
    return frames


@pytest.mark.parametrize("count", [1, 2, 7, 40, 151])
def test_median_and_spread_are_numpys(count: int) -> None:
    frames = noise(count)
    found = statistics(clip_of(frames), max_frames=count)
    assert np.array_equal(found.median, np.floor(np.median(frames, 0)).astype(np.uint8))
    # Measured worst case 4e-8, of 32-bit floats.
    np.testing.assert_allclose(found.spread, (frames / 255).std(0).max(-1), atol=1e-6)
    assert found.median.dtype == np.uint8
    assert found.spread.dtype == np.float32


def test_frames_are_chosen_evenly_with_both_ends() -> None:
    frames = np.zeros((101, 2, 2, 3), np.uint8) + np.arange(101, dtype=np.uint8)[:, None, None, None]
    found = statistics(clip_of(frames), max_frames=5)
    assert (found.median == 50).all()
    np.testing.assert_allclose(found.spread, np.std([0, 25, 50, 75, 100]) / 255, rtol=1e-6)


def test_strips_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = clip_of(noise(30))
    whole = statistics(clip)
    monkeypatch.setattr(_statistics, "_STRIP_BYTES", 30 * 17 * 3 * 4)  # Strips of 4 rows; the last has 1.
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        cut = statistics(clip)
    finally:
        numba.set_num_threads(threads)
    assert np.array_equal(cut.median, whole.median)
    assert np.array_equal(cut.spread, whole.spread)


def test_moving_pixels_stand_out() -> None:
    frames = np.full((21, 6, 8, 3), 100, np.uint8)
    for index in range(8):
        frames[index, 2, index] = (100, 180, 100)
    found = statistics(clip_of(frames))
    assert (found.median == 100).all()
    assert np.argwhere(found.moving(frames[3])).tolist() == [[2, 3]]
    assert found.spread[2, 3] > 0.05
    assert found.spread[0, 0] == 0


def test_nothing_to_look_at() -> None:
    clip = clip_of(noise(3))
    with pytest.raises(ValueError, match="max_frames is 0"):
        statistics(clip, max_frames=0)
    with pytest.raises(ValueError, match="the clip has 0"):
        statistics(clip.select([]))
