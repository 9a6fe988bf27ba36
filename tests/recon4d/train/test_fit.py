"""A whole fit: it follows what moves, repeats itself bit for bit, and reads nothing that is held out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from recon4d import jit
from recon4d.capture import Division, divide, statistics
from recon4d.errors import Stopped
from recon4d.events import Event, Finished, Progress, Saved, Started, Warned
from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.train import FitConfig, JointConfig, fit, fit_joint
from recon4d.types import Cameras, Capture, DynamicPool, Scene4D, SplitRule, StaticPool
from tests import worlds


def tensors_of(static: StaticPool, dynamic: DynamicPool) -> dict[str, Tensor]:
    return {f"{type(pool).__name__}.{name}": value for pool in (static, dynamic) for name, value in vars(pool).items()}


def assert_same(a: Scene4D, b: Scene4D) -> None:
    ours, theirs = tensors_of(a.static, a.dynamic), tensors_of(b.static, b.dynamic)
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def psnr_moving(scene: Scene4D, division: Division, *, dynamic: bool) -> float:
    """Decibel on moving pixels of the training cameras at the held-out instants."""
    model = Gaussians4D.from_scene(scene)
    errors = []
    for clip in division.train.clips:
        everything = division.heldout.clip(clip.camera.name)
        for time_s in division.test_times:
            frame = everything.nearest(time_s)
            truth = everything.frames[frame]
            splats = model.at(float(everything.times[frame]))
            if not dynamic:
                still = splats.rows < model.n_static if splats.rows is not None else None
                splats = type(splats)(**{k: v if v is None else v[still] for k, v in vars(splats).items()})
            drawn = rasterize(splats, Cameras.of(clip.camera), background=scene.background, outputs=("rgb",)).rgb
            assert drawn is not None
            moving = statistics(clip).moving(truth)
            errors.append(((drawn[0].numpy().clip(0, 1) - truth / 255.0)[moving] ** 2).mean())
    return float(np.mean(-10 * np.log10(errors)))


class Fitted:
    """One fit of a capture of its own, so that what it read can be counted."""

    def __init__(self, config: FitConfig, workdir: Path) -> None:
        self.whole = worlds.capture(seconds=1.3, split=SplitRule(heldout_cameras=("c3",)))
        self.division = divide(self.whole)
        self.workdir = workdir
        self.events: list[Event] = []
        self.scene = fit(self.division.train, config, workdir=workdir, on_event=self.events.append)
        self.reads = {clip.camera.name: set(reads_of(clip.frames)) for clip in self.whole.clips}


def reads_of(frames: object) -> set[int]:
    assert isinstance(frames, worlds.ListFrames)
    return frames.reads


@pytest.fixture(scope="module")
def fitted(config: FitConfig, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    return Fitted(config, tmp_path_factory.mktemp("fit"))


def test_it_draws_what_moves_and_not_only_what_stands(fitted: Fitted) -> None:
    whole = psnr_moving(fitted.scene, fitted.division, dynamic=True)
    static = psnr_moving(fitted.scene, fitted.division, dynamic=False)
    # Measured 20.3 and 10.7 dB.
    assert whole > static + 6
    assert whole > 18


def test_the_scene_says_where_it_comes_from(fitted: Fitted, config: FitConfig) -> None:
    scene, train = fitted.scene, fitted.division.train
    assert scene.duration_s == train.duration_s
    assert scene.input_hash == train.input_hash
    assert FitConfig.from_json(scene.config) == config
    assert all(torch.isfinite(value).all() for value in tensors_of(scene.static, scene.dynamic).values())
    for pool in (scene.static, scene.dynamic):
        assert pool.opacities.min() >= 1 / 255
        assert pool.opacities.max() <= 1
        assert pool.scales.min() > 0


def test_nothing_held_out_is_ever_read(fitted: Fitted) -> None:
    guard = fitted.whole.split.guard_s
    assert fitted.reads["c3"] == set()
    for name in ("c0", "c1", "c2"):
        times = fitted.whole.clip(name).times
        distance = np.abs(times[:, None] - fitted.division.test_times).min(1)
        read = np.array(sorted(fitted.reads[name]))
        assert distance[read].min() >= guard
        # And the rule does leave something out, else this test could not fail.
        assert (distance < guard).any()
        assert len(read) > 10


def test_events_tell_the_stages_in_order(fitted: Fitted, config: FitConfig) -> None:
    assert [e.stage for e in fitted.events if isinstance(e, Started)] == ["static", "seeds", "joint"]
    assert [e.stage for e in fitted.events if isinstance(e, Finished)] == ["static", "seeds", "joint"]
    joint = [e for e in fitted.events if isinstance(e, Progress) and e.stage == "joint"]
    assert [e.step for e in joint] == [100, 200, 220]
    assert all(e.total == config.joint.steps and e.loss is not None for e in joint)
    assert joint[-1].psnr is not None
    assert [e for e in fitted.events if isinstance(e, Warned)] == []
    assert len([e for e in fitted.events if isinstance(e, Saved)]) == 2


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    jit.use_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("count", [1, 2])
def test_a_seed_decides_everything_and_threads_nothing(fitted: Fitted, config: FitConfig, count: int) -> None:
    jit.use_threads(count)
    assert_same(fit(fitted.division.train, config), fitted.scene)


def test_another_seed_gives_another_scene(fitted: Fitted, config: FitConfig, tmp_path: Path) -> None:
    # The checkpoint that lies there is of another fit: it must not be taken up.
    shutil.copy(fitted.workdir / "joint.safetensors", tmp_path)
    events: list[Event] = []
    other = fit(fitted.division.train, replace(config, seed=1), workdir=tmp_path, on_event=events.append)
    assert not any("resumed" in e.detail for e in events if isinstance(e, Started))
    assert not torch.equal(other.static.means, fitted.scene.static.means)
    # Measured 20.4 dB.
    assert psnr_moving(other, fitted.division, dynamic=True) > 18


def stop_at(config: FitConfig, capture: Capture, workdir: Path, step: int) -> list[Event]:
    """Runs a fit and asks it to stop once the joint fit has made that many steps."""
    events: list[Event] = []

    def reached() -> bool:
        return any(isinstance(e, Progress) and e.stage == "joint" and e.step >= step for e in events)

    with pytest.raises(Stopped, match=f"step {step} of {config.joint.steps}"):
        fit(capture, config, workdir=workdir, on_event=events.append, should_stop=reached)
    return events


def test_a_stopped_fit_goes_on_to_the_same_scene(fitted: Fitted, config: FitConfig, tmp_path: Path) -> None:
    stop_at(config, fitted.division.train, tmp_path, 200)
    assert (tmp_path / "joint.safetensors").is_file()
    events: list[Event] = []
    scene = fit(fitted.division.train, config, workdir=tmp_path, on_event=events.append)
    joint = [e for e in events if e.stage == "joint"]
    assert "resumed at step 200" in next(e.detail for e in joint if isinstance(e, Started))
    assert [e.step for e in joint if isinstance(e, Progress)] == [220]
    assert_same(scene, fitted.scene)


def test_a_damaged_checkpoint_is_said_and_not_used(prepared: Any, config: FitConfig, tmp_path: Path) -> None:
    checkpoint = tmp_path / "joint.safetensors"
    checkpoint.write_bytes(b"cut short")
    events: list[Event] = []
    fit_joint(
        prepared.capture,
        prepared.static,
        prepared.dynamic,
        prepared.foreground,
        replace(config, joint=JointConfig(steps=20)),
        checkpoint=checkpoint,
        on_event=events.append,
    )
    (warning,) = [e for e in events if isinstance(e, Warned)]
    assert "joint.safetensors is damaged" in warning.message
    assert [e.step for e in events if isinstance(e, Progress)] == [20]


@pytest.mark.parametrize("stage", ["static", "seeds"])
def test_a_stop_before_the_joint_fit_ends_at_once(division: Division, config: FitConfig, stage: str) -> None:
    events: list[Event] = []

    def begun() -> bool:
        return any(isinstance(e, Started) and e.stage == stage for e in events)

    with pytest.raises(Stopped):
        fit(division.train, config, on_event=events.append, should_stop=begun)
    assert events[-1].stage == stage
    assert not any(isinstance(e, Finished) and e.stage == stage for e in events)


def test_a_capture_in_which_nothing_moves_becomes_a_static_scene(config: FitConfig) -> None:
    events: list[Event] = []
    still = worlds.capture(cameras=3, seconds=0.5, moving=False)
    scene = fit(still, config, on_event=events.append)
    assert len(scene.dynamic) == 0
    assert len(scene.static) > 0
    assert any("nothing moves" in e.message for e in events if isinstance(e, Warned))
