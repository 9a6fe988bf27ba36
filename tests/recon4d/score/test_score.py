"""Scores: golden values by hand, which frames are scored, the predictors' figures on a real capture."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recon4d.capture import IngestConfig, divide, import_capture, ingest, statistics
from recon4d.errors import ConfigError, Stopped
from recon4d.events import Event, Finished, Progress, Started
from recon4d.geometry import look_at
from recon4d.loss import psnr, ssim
from recon4d.score import ScoreConfig, score
from recon4d.score._metrics import Tally, compare
from recon4d.score._predictors import predict
from recon4d.score._samples import samples, training_frames
from recon4d.types import Camera, Capture, Clip, DynamicPool, Scene4D, SplitRule, StaticPool

GREY, BRIGHT = 102, 204  # 0.4 and 0.8 of 255, exactly.
SIZE, PATCH = 40, 8
AREA = PATCH**2 / SIZE**2
DIFFERENCE = 0.4**2


class _Patches:
    """A grey clip with one bright patch that is elsewhere in every frame; remembers what was read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.read: set[int] = set()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int, /) -> np.ndarray:
        self.read.add(int(index))
        frame = np.full((SIZE, SIZE, 3), GREY, np.uint8)
        row, column = divmod(index % 25, 5)
        frame[row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH] = BRIGHT
        return frame


def _camera(name: str) -> Camera:
    K = np.array([[40.0, 0, 20], [0, 40, 20], [0, 0, 1]])
    pose = look_at(np.array([1.0, 0.2 * ord(name[0]) % 1, 0.8]), np.zeros(3))
    return Camera(name=name, width=SIZE, height=SIZE, K=K, T_cam_world=pose)


def _capture(names: str = "abc", count: int = 41, heldout: tuple[str, ...] = ("c",)) -> Capture:
    clips = tuple(
        Clip(
            camera=_camera(name),
            times=np.arange(count) / 20,
            frames=_Patches(count),
            valid=np.ones((SIZE, SIZE), bool),
        )
        for name in names
    )
    return Capture(name="t", clips=clips, duration_s=(count - 1) / 20, split=SplitRule(heldout_cameras=heldout))


def _scene(capture: Capture, *, background: float = GREY / 255) -> Scene4D:
    """No Gaussians: every render is the background."""
    pool = {
        "means": torch.zeros(0, 3),
        "quats": torch.zeros(0, 4),
        "scales": torch.zeros(0, 3),
        "opacities": torch.zeros(0),
        "sh": torch.zeros(0, 1, 3),
    }
    times = {name: torch.zeros(0) for name in ("centers_s", "radii_s", "tails_s")}
    return Scene4D(
        static=StaticPool(**pool),
        dynamic=DynamicPool(**pool, velocities=torch.zeros(0, 3), **times),
        cameras=capture.cameras,
        duration_s=capture.duration_s,
        background=(background, background, background),
    )


def _db(error: float) -> float:
    return -10 * np.log10(error)


def test_golden_values_of_scene_and_predictors() -> None:
    capture = _capture()
    scores = score(_scene(capture), divide(capture))
    for which in ("heldout_cameras", "heldout_times", "train"):
        assert scores[which]["psnr"] == pytest.approx(_db(AREA * DIFFERENCE), abs=1e-4)
        assert scores[which]["psnr_moving"] == pytest.approx(_db(DIFFERENCE), abs=1e-4)
        assert 0 < scores[which]["ssim"] < 1
    predictors = scores["predictors"]
    expected = {
        "temporal_median": (AREA * DIFFERENCE, DIFFERENCE),
        "previous_frame": (2 * AREA * DIFFERENCE, DIFFERENCE),
        "neighbour_mean": (AREA * DIFFERENCE * (1 + 2 / 4), DIFFERENCE),
    }
    assert list(predictors) == list(expected)
    for name, (everywhere, moving) in expected.items():
        assert predictors[name]["psnr"] == pytest.approx(_db(everywhere), abs=1e-4)
        assert predictors[name]["psnr_moving"] == pytest.approx(_db(moving), abs=1e-4)
        assert set(predictors[name]["cameras"]) == {"a", "b"}
    own = predictors["temporal_median"]["heldout_cameras"]
    assert own["of"] == "the held-out camera's own frames"
    assert own["psnr"] == pytest.approx(_db(AREA * DIFFERENCE), abs=1e-4)
    assert "heldout_cameras" not in predictors["previous_frame"]


def test_a_camera_is_drawn_with_the_exposure_that_the_scene_knows() -> None:
    capture = _capture()
    plain = score(_scene(capture), divide(capture))
    darker = {"a": 0.5, "b": 0.5, "c": 0.5}
    scene = _scene(capture.exposed(darker), background=2 * GREY / 255)
    assert scene.exposures == darker
    assert score(scene, divide(capture))["train"]["psnr"] == pytest.approx(plain["train"]["psnr"], abs=1e-4)


def test_the_record_is_plain_json_and_its_keys_are_these() -> None:
    capture = _capture()
    scores = score(_scene(capture), divide(capture))
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores
    assert list(scores) == ["heldout_cameras", "heldout_times", "train", "predictors", "per_time"]
    assert set(scores["train"]) == {"psnr", "psnr_moving", "ssim", "cameras"}
    assert set(scores["train"]["cameras"]["a"]) == {"psnr", "psnr_moving", "ssim", "images"}
    assert all(set(row) == {"camera", "time_s", "set", "psnr", "psnr_moving"} for row in scores["per_time"])


def test_which_frames_are_scored() -> None:
    capture = _capture()  # Two seconds: instants 0.0 to 2.0, of which 0.4, 1.2 and 2.0 are held out.
    chosen = samples(divide(capture), 8)
    times = {(s.set, s.camera): [t.time_s for t in chosen if (t.set, t.camera) == (s.set, s.camera)] for s in chosen}
    assert times == {
        ("heldout_cameras", "c"): pytest.approx(np.arange(21) / 10),
        **{("heldout_times", name): pytest.approx([0.4, 1.2, 2.0]) for name in "ab"},
        **{("train", name): pytest.approx([0.0, 0.8, 1.6]) for name in "ab"},
    }


def test_a_frame_that_was_trained_on_never_counts_as_held_out() -> None:
    capture = _capture("a", heldout=())
    clip = capture.clips[0]
    gap = np.flatnonzero((clip.times < 1.1) | (clip.times > 1.3))  # No frame within 0.09 s of the instant 1.2.
    capture = replace(capture, clips=(clip.select(gap),))
    division = divide(capture)
    held = [s for s in samples(division, 8) if s.set == "heldout_times"]
    assert [s.instant_s for s in held] == pytest.approx([0.4, 2.0])
    trained = set(np.round(division.train.clips[0].times, 6))
    assert not trained & {round(s.time_s, 6) for s in held}


def test_reference_frames_of_a_heldout_camera_keep_the_guard() -> None:
    division = divide(_capture())
    times = training_frames(division, "c").times
    np.testing.assert_array_equal(times, division.train.clip("a").times)
    assert np.abs(times[:, None] - division.test_times).min() >= 0.09


def test_predictors_read_only_training_frames() -> None:
    capture = _capture("a", heldout=())
    frames = capture.clips[0].frames
    assert isinstance(frames, _Patches)
    division = divide(capture)
    training = training_frames(division, "a")
    stats = statistics(training)
    for instant_s in division.test_times:
        list(predict(training, stats, float(instant_s), 0.1))
    times = np.array(sorted(frames.read)) / 20
    assert np.abs(times[:, None] - division.test_times).min() >= 0.09


def test_previous_frame_and_neighbours_are_one_grid_step_away() -> None:
    division = divide(_capture("a", heldout=()))
    training = training_frames(division, "a")
    images = dict(predict(training, statistics(training), 1.2, 0.1))
    before, after = _Patches(41)[22] / 255, _Patches(41)[26] / 255
    np.testing.assert_allclose(images["previous_frame"], before, atol=1e-6)
    np.testing.assert_allclose(images["neighbour_mean"], (before + after) / 2, atol=1e-6)
    assert list(dict(predict(training, statistics(training), 2.0, 0.1))) == ["temporal_median", "previous_frame"]


def test_an_exact_image_has_a_finite_score() -> None:
    truth = np.full((20, 20, 3), 51, np.uint8)
    everything = np.ones((20, 20), bool)
    exact = compare(
        truth.astype(np.float32) / np.float32(255),
        truth,
        moving=everything,
        valid=everything,
        min_moving_pixels=50,
        cap_db=100.0,
    )
    assert (exact.psnr, exact.psnr_moving) == (100.0, 100.0)
    assert exact.ssim == pytest.approx(1)


def test_pixels_without_a_source_are_ignored() -> None:
    truth = np.full((20, 20, 3), GREY, np.uint8)
    image = np.full((20, 20, 3), 0.5, np.float32)
    image[::2] = 0.3  # Off by 0.1 everywhere, and structured.
    valid, moving = np.ones((20, 20), bool), np.zeros((20, 20), bool)
    valid[:, 15:] = False
    moving[:8, :8] = True
    options = {"moving": moving, "valid": valid, "min_moving_pixels": 50, "cap_db": 100.0}
    clean = compare(image, truth, **options)
    assert clean.psnr == pytest.approx(20, abs=1e-4)
    image[:, 15:], truth[:, 15:] = 1.0, 0
    assert compare(image, truth, **options) == clean


def test_measures_are_those_of_the_loss_room() -> None:
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 256, (31, 45, 3), np.uint8)
    image = np.clip(truth / 255 + generator.normal(0, 0.1, truth.shape), 0, 1).astype(np.float32)
    everything = np.ones(truth.shape[:2], bool)
    found = compare(image, truth, moving=everything, valid=everything, min_moving_pixels=1, cap_db=100.0)
    # Both differ by at most 1e-6 (SSIM) and 2e-6 dB from each other: the order of float32 sums.
    assert found.ssim == pytest.approx(float(ssim(torch.from_numpy(image), torch.from_numpy(truth))), abs=1e-5)
    assert found.psnr == pytest.approx(float(psnr(torch.from_numpy(image), torch.from_numpy(truth))), abs=1e-4)
    assert found.psnr_moving == found.psnr


def test_too_few_moving_pixels_have_no_score_and_do_not_enter_means() -> None:
    capture = _capture()
    division = divide(capture)
    scores = score(_scene(capture), division, ScoreConfig(min_moving_pixels=PATCH**2 + 1))
    assert scores["heldout_times"]["psnr_moving"] is None
    assert all(row["psnr_moving"] is None for row in scores["per_time"])
    assert score(_scene(capture), division, ScoreConfig(min_moving_pixels=PATCH**2))["train"]["psnr_moving"] is not None


def test_means_are_over_images_then_over_cameras() -> None:
    image, moving = np.zeros((10, 10, 3), np.float32), np.zeros((10, 10), bool)
    tally = Tally()
    for camera, value in (("a", 51), ("a", 51), ("a", 51), ("b", 102)):
        truth = np.full((10, 10, 3), value, np.uint8)
        tally.add(camera, compare(image, truth, moving=moving, valid=~moving, min_moving_pixels=50, cap_db=100.0))
    summary = tally.summary()
    assert summary is not None
    assert summary["psnr"] == pytest.approx((_db(0.04) + _db(0.16)) / 2, abs=1e-4)
    assert summary["psnr_moving"] is None
    assert summary["cameras"]["a"]["images"] == 3


def test_sets_with_nothing_in_them_are_none() -> None:
    capture = replace(_capture(heldout=()), split=SplitRule(every=0))
    scores = score(_scene(capture), divide(capture))
    assert scores["heldout_cameras"] is None
    assert scores["heldout_times"] is None
    assert scores["predictors"] == {"temporal_median": None, "previous_frame": None, "neighbour_mean": None}
    assert scores["train"]["cameras"]["a"]["images"] == 3


def test_events_tell_the_way_and_a_stop_is_heeded() -> None:
    capture = _capture()
    heard: list[Event] = []
    scores = score(_scene(capture), divide(capture), on_event=heard.append)
    total = len(scores["per_time"])
    assert isinstance(heard[0], Started)
    assert heard[0].total == total
    assert [event.step for event in heard if isinstance(event, Progress)] == list(range(1, total + 1))
    assert isinstance(heard[-1], Finished)
    with pytest.raises(Stopped, match="after 0 of"):
        score(_scene(capture), divide(capture), should_stop=lambda: True)


def test_frames_are_rendered_at_their_own_times() -> None:
    """A bright Gaussian crosses the view at 1 m/s; frames drawn 40 ms off the grid are met only at their own times."""
    from recon4d.model import Gaussians4D
    from recon4d.raster import rasterize
    from recon4d.types import Cameras

    capture = _capture("ab", heldout=("b",))
    scene = _scene(capture, background=0.1)
    scene = replace(
        scene,
        dynamic=DynamicPool(
            means=torch.tensor([[0.0, 0.0, 0.0]]),
            quats=torch.tensor([[1.0, 0, 0, 0]]),
            scales=torch.full((1, 3), 0.08),
            opacities=torch.tensor([0.95]),
            sh=torch.full((1, 1, 3), 1.0),
            velocities=torch.tensor([[0.0, 0.4, 0.0]]),
            centers_s=torch.tensor([1.0]),
            radii_s=torch.tensor([9.0]),
            tails_s=torch.tensor([0.1]),
        ),
    )
    model = Gaussians4D.from_scene(scene)
    clips = []
    for clip in capture.clips:
        times = np.arange(20) / 10 + 0.04
        drawn = [rasterize(model.at(t), Cameras.of(clip.camera), background=scene.background).rgb for t in times]
        frames = np.stack([(d[0].clamp(0, 1) * 255).round().byte().numpy() for d in drawn if d is not None])
        clips.append(replace(clip, times=times, frames=frames))
    scores = score(scene, divide(replace(capture, clips=tuple(clips))))
    # Only the rounding to 8 bits is left, at most half a step everywhere: 54.2 dB. Off by 40 ms it is 28 dB.
    assert scores["heldout_cameras"]["psnr"] > 54
    assert scores["heldout_times"]["psnr"] > 54


@pytest.mark.parametrize("options", [{"train_every": 0}, {"moving_threshold": 1.0}, {"min_moving_pixels": 0}])
def test_definitions_out_of_range_are_refused(options: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        ScoreConfig(**options)


@pytest.mark.skipif("RECON4D_TEST_DATA" not in os.environ, reason="RECON4D_TEST_DATA names no folder of real captures")
def test_predictors_on_a_real_capture(tmp_path: Path) -> None:
    source = Path(os.environ["RECON4D_TEST_DATA"]) / "embodied_pusht"
    division = divide(ingest(import_capture("pusht-embodied", source, tmp_path / "c"), IngestConfig()))
    tallies: dict[str, Tally] = {}
    references = {clip.camera.name: statistics(clip) for clip in division.train.clips}
    for sample in samples(division, 8):
        if sample.set == "heldout_times":
            stats, truth = references[sample.camera], sample.clip.frames[sample.frame]
            options = {"moving": stats.moving(truth), "valid": sample.clip.valid, "min_moving_pixels": 50}
            training = training_frames(division, sample.camera)
            for name, image in predict(training, stats, sample.instant_s, 0.1):
                tallies.setdefault(name, Tally()).add(sample.camera, compare(image, truth, **options, cap_db=100.0))
    found = {name: tally.summary() for name, tally in tallies.items()}
    # Measured; the tolerance leaves room for another decoder's rounding.
    for name, everywhere, moving in (
        ("temporal_median", 20.35, 9.87),
        ("previous_frame", 27.14, 18.39),
        ("neighbour_mean", 29.76, 20.91),
    ):
        summary = found[name]
        assert summary is not None
        assert summary["psnr"] == pytest.approx(everywhere, abs=0.1)
        assert summary["psnr_moving"] == pytest.approx(moving, abs=0.1)
