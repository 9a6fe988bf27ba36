"""What training may read, and that reading goes no further."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recon4d.capture import divide, statistics
from recon4d.errors import ConfigError
from recon4d.types import Camera, Capture, Clip, SplitRule


class Counting:
    """Frames that note which of them were read."""

    def __init__(self, count: int) -> None:
        self.read: set[int] = set()
        self._images = np.random.default_rng(count).integers(0, 255, (count, 4, 6, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> np.ndarray:
        self.read.add(index)
        return self._images[index]


def capture_of(times: list[np.ndarray], split: SplitRule | None = None) -> Capture:
    clips = []
    for index, t in enumerate(times):
        camera = Camera(name=f"cam{index}", width=6, height=4, K=np.diag([5.0, 5, 1]), T_cam_world=np.eye(4))
        clips.append(Clip(camera=camera, times=t, frames=Counting(len(t)), valid=np.ones((4, 6), bool)))
    end = min(t[-1] for t in times)
    return Capture(name="c", clips=tuple(clips), duration_s=float(end), split=split or SplitRule())


RATES = [np.arange(120) * 0.0183, np.arange(70) * 0.0333 + 0.001, np.arange(90) * 0.025 + 0.002]


def test_training_keeps_clear_of_every_held_out_instant() -> None:
    rule = SplitRule(heldout_cameras=("cam1",))
    capture = capture_of(RATES)
    division = divide(capture, rule)
    assert division.test_times == pytest.approx([0.4, 1.2, 2.0])
    assert [c.name for c in division.train.cameras] == ["cam0", "cam2"]
    for clip in division.train.clips:
        assert np.abs(clip.times[:, None] - division.test_times).min() >= rule.guard_s
        whole = capture.clip(clip.camera.name)
        gone = np.setdiff1d(whole.times, clip.times)
        assert np.abs(gone[:, None] - division.test_times).min(1).max() < rule.guard_s  # No more than needed.
    assert division.heldout.clips == capture.clips
    assert division.train.split == division.heldout.split == rule


def test_the_captures_own_rule_is_the_default() -> None:
    rule = SplitRule(heldout_cameras=("cam2",), every=0)
    division = divide(capture_of(RATES, rule))
    assert [c.name for c in division.train.cameras] == ["cam0", "cam1"]
    assert len(division.test_times) == 0
    assert len(division.train.clips[0]) == 120


def test_no_held_out_frame_is_ever_read_through_the_training_side() -> None:
    capture = capture_of(RATES)
    division = divide(capture, SplitRule(heldout_cameras=("cam1",)))
    for clip in division.train.clips:
        statistics(clip, max_frames=1000)
        for index in range(len(clip)):
            clip.frames[index]
    for clip in capture.clips:
        frames = clip.frames
        assert isinstance(frames, Counting)
        if clip.camera.name == "cam1":
            assert not frames.read
        else:
            distance = np.abs(clip.times[sorted(frames.read)][:, None] - division.test_times).min()
            assert distance >= 0.09
            assert len(frames.read) == len(division.train.clip(clip.camera.name))


def test_frames_and_times_stay_together() -> None:
    capture = capture_of(RATES)
    train = divide(capture).train
    for clip in train.clips:
        whole = capture.clip(clip.camera.name)
        for index in (0, len(clip) // 2, len(clip) - 1):
            source = int(np.flatnonzero(whole.times == clip.times[index])[0])
            assert np.array_equal(clip.frames[index], whole.frames[source])


@settings(max_examples=60, deadline=None)
@given(
    grid=st.floats(0.02, 0.5),
    every=st.integers(0, 9),
    first=st.integers(0, 9),
    guard=st.floats(0.0, 0.2),
)
def test_any_rule_is_kept_or_refused(grid: float, every: int, first: int, guard: float) -> None:
    rule = SplitRule(grid_s=grid, every=every, first=first, guard_s=guard)
    capture = capture_of(RATES)
    try:
        division = divide(capture, rule)
    except ConfigError as error:
        assert "leaves no frame" in str(error)  # noqa: PT017 (both outcomes are right; each is checked)
        return
    for clip in division.train.clips:
        if len(division.test_times):
            assert np.abs(clip.times[:, None] - division.test_times).min() >= guard


@pytest.mark.parametrize(("rule", "words"), [
    (SplitRule(heldout_cameras=("cam1", "left")), r"\['left'\] do not exist; there are \['cam0', 'cam1', 'cam2'\]"),
    (SplitRule(heldout_cameras=("cam0", "cam1", "cam2")), "all cameras are held out"),
    (SplitRule(guard_s=9.0), "leaves no frame of camera 'cam0'"),
    (SplitRule(grid_s=0.0), "grid_s > 0"),
    (SplitRule(guard_s=float("nan")), "guard_s"),
    (SplitRule(every=-1), "every"),
    (SplitRule(first=-1), "first"),
])  # fmt: skip
def test_a_rule_that_cannot_be(rule: SplitRule, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        divide(capture_of(RATES), rule)


def test_the_given_rule_wins() -> None:
    capture = replace(capture_of(RATES), split=SplitRule(heldout_cameras=("gone",)))
    assert len(divide(capture, SplitRule()).train.clips) == 3
