"""Which frames a fit looks at: picked, never resampled, whole or cropped to what moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from recon4d.capture import Division
from recon4d.geometry import look_at
from recon4d.points import Foreground
from recon4d.train import FitConfig, background_color
from recon4d.train._views import FrameSampler, clip_statistics, key_frames, static_views
from recon4d.types import Capture, Clip
from tests import worlds


def clip_at(times: np.ndarray) -> Clip:
    """A clip whose frames are not looked at."""
    camera = worlds.ring(1)[0]
    images = np.zeros((len(times), camera.height, camera.width, 3), np.uint8)
    valid = np.ones((camera.height, camera.width), bool)
    return Clip(camera=camera, times=times, frames=worlds.ListFrames(images, set()), valid=valid)


def test_key_frames_are_the_nearest_to_each_instant() -> None:
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 2, 70))
    picked = key_frames(clip_at(times), 10)
    assert (np.diff(picked) > 0).all()
    instants = np.arange(21) / 10
    distance = np.abs(times[None] - instants[:, None])
    expected = {int(d.argmin()) for d in distance if d.min() <= 0.05}
    assert set(picked.tolist()) == expected


def test_a_gap_has_no_key_frames() -> None:
    times = np.concatenate([np.arange(0, 0.5, 0.05), np.arange(1.5, 2.0, 0.05)])
    picked = times[key_frames(clip_at(times), 10)]
    # The instants 0.5 and 2.0 have frames at exactly half the spacing; 0.6 to 1.4 have none that near.
    assert picked == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.45, 1.5, 1.6, 1.7, 1.8, 1.9, 1.95])


def test_frames_rarer_than_the_rate_are_all_taken_once() -> None:
    times = np.arange(8) * 0.21
    assert key_frames(clip_at(times), 10).tolist() == list(range(8))


def test_a_single_frame_is_a_key_frame() -> None:
    assert key_frames(clip_at(np.array([0.3])), 10).tolist() == [0]


def test_static_views_trust_what_is_settled(division: Division, config: FitConfig) -> None:
    statistics = clip_statistics(division.train)
    for view, statistic, clip in zip(
        static_views(division.train, statistics, config.static), statistics, division.train.clips, strict=True
    ):
        assert view.image.dtype == view.weight.dtype == np.float32
        assert view.weight.min() >= config.static.least_weight
        still = statistic.spread < 0.01
        assert view.weight[still].min() > 0.9
        path = np.abs(
            worlds.image(clip.camera, clip.times[0]).astype(int) - worlds.image(clip.camera, clip.times[-1])
        ).max(-1)
        assert view.weight[path > 100].mean() < 0.5


def test_pixels_without_a_source_weigh_nothing(division: Division, config: FitConfig) -> None:
    (clip, *others) = division.train.clips
    valid = clip.valid.copy()
    valid[:5] = False
    holed = Clip(camera=clip.camera, times=clip.times, frames=clip.frames, valid=valid)
    capture = type(division.train)(**{**vars(division.train), "clips": (holed, *others)})
    view = static_views(capture, clip_statistics(capture), config.static)[0]
    assert (view.weight[:5] == 0).all()
    assert (view.weight[5:] > 0).all()


def _without_plane(capture: Capture) -> Capture:
    return replace(capture, plane=None)


def test_the_background_is_the_mean_colour_of_the_medians(division: Division) -> None:
    means = [statistic.median.reshape(-1, 3).mean(0) / 255 for statistic in clip_statistics(division.train)]
    assert background_color(_without_plane(division.train)) == pytest.approx(np.mean(means, 0), abs=1e-4)


def test_the_background_is_the_colour_beyond_the_bench_where_some_view_shows_it(division: Division) -> None:
    """Only the one camera that looks level sees past the bench, and all that it sees is green."""
    clip = division.train.clips[0]
    camera = replace(clip.camera, T_cam_world=look_at(clip.camera.center_w, clip.camera.center_w * [-1, -1, 1]))
    frames = np.full((len(clip), camera.height, camera.width, 3), [10, 200, 30], np.uint8)
    level = replace(clip, camera=camera, frames=worlds.ListFrames(frames, set()))
    capture = replace(division.train, clips=(level, *division.train.clips[1:]))
    assert background_color(capture) == pytest.approx(np.array([10, 200, 30]) / 255, abs=1e-3)


@pytest.fixture
def foreground(division: Division) -> Foreground:
    clips = division.train.clips
    backgrounds = [worlds.image(clip.camera, None).astype(np.float32) / 255 for clip in clips]
    return Foreground(clips, clip_statistics(division.train), backgrounds)


def test_draws_are_frames_at_their_own_time_whole_or_cropped(division: Division, foreground: Foreground) -> None:
    rng = np.random.default_rng(0)
    sampler = FrameSampler(foreground, rate_hz=10, whole_every=4, rng=rng, device=torch.device("cpu"))
    seen: set[tuple[str, float]] = set()
    for step in range(80):
        view = sampler.draw(step)
        clip = division.train.clip(view.camera.name)
        (frame,) = np.flatnonzero(clip.times == view.time_s)
        image = clip.frames[int(frame)]
        assert view.target.shape == (view.camera.height, view.camera.width, 3)
        assert view.pixels == clip.camera.width * clip.camera.height
        x0, y0 = np.rint(clip.camera.K[:2, 2] - view.camera.K[:2, 2]).astype(int)
        assert np.array_equal(view.target.numpy(), image[y0 : y0 + view.camera.height, x0 : x0 + view.camera.width])
        is_whole = (view.camera.width, view.camera.height) == (clip.camera.width, clip.camera.height)
        assert is_whole == (step % 4 == 0)
        seen.add((view.camera.name, view.time_s))
    assert {name for name, _ in seen} == {"c0", "c1", "c2"}
    # 3 cameras with some 10 key frames each, 80 draws with replacement.
    assert len(seen) > 20
