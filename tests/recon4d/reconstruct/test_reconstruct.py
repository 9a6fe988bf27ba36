"""The product door: what a run leaves, and what a second run does again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import pytest
import torch

from recon4d import events
from recon4d.errors import ConfigError, OutputError, Stopped
from recon4d.events import Event
from recon4d.reconstruct import ReconstructConfig, Result, reconstruct
from recon4d.scene import load
from recon4d.types import Scene4D, SplitRule


class Run:
    """A run with its events."""

    def __init__(self, capture: Path, out: Path, config: ReconstructConfig, **options: Any) -> None:
        self.events: list[Event] = []
        self.result: Result = reconstruct(capture, out, config, on_event=self.events.append, **options)

    @property
    def reused(self) -> set[str]:
        return {e.stage for e in self.events if isinstance(e, events.Finished) and e.reused}

    @property
    def done(self) -> set[str]:
        """Stages that did steps."""
        return {e.stage for e in self.events if isinstance(e, events.Started)} - {"run", "report", "video", "score"}


def values(scene: Scene4D) -> list[torch.Tensor]:
    return [value for pool in (scene.static, scene.dynamic) for value in vars(pool).values()]


def same(a: Path, b: Path) -> bool:
    ours, theirs = values(load(a)), values(load(b))
    return all(torch.equal(x, y) for x, y in zip(ours, theirs, strict=True))


def content(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_a_fit_leaves_a_picture_of_how_it_stands(finished: Any) -> None:
    picture = cv2.imread(str(finished.out / "work" / "preview.jpg"))
    camera = load(finished.out).cameras[0]
    assert picture.shape == (camera.height, camera.width, 3)
    assert picture.std() > 10


def test_a_run_leaves_a_scene_scores_events_and_a_report(finished: Any) -> None:
    out = finished.out
    assert finished.result == Result(scene=out, report=out / "report.html", scores=finished.result.scores)
    names = {f.name for f in out.iterdir() if not f.name.startswith(".")}
    assert names == {
        *("scene.json", "scene.safetensors", "scores.json", "config.json", "events.jsonl", "report.html"),
        *("run.json", "work"),
    }
    assert not list(out.rglob("*.tmp"))
    assert "<html" in (out / "report.html").read_text("utf-8")[:200]
    config = json.loads((out / "config.json").read_text())
    assert config["fit"]["joint"]["steps"] == 220
    scene = load(out)
    assert scene.config == config
    assert [c.name for c in scene.cameras] == ["c0", "c1", "c2", "c3"]


def test_scores_hold_what_the_readme_promises(finished: Any) -> None:
    scores = json.loads((finished.out / "scores.json").read_text())
    assert scores == finished.result.scores
    for name in ("heldout_cameras", "heldout_times", "train"):
        assert {"psnr", "psnr_moving", "ssim", "cameras"} <= scores[name].keys()
        assert all(math.isfinite(scores[name][key]) for key in ("psnr", "psnr_moving", "ssim"))
    assert list(scores["heldout_cameras"]["cameras"]) == ["c3"]
    assert list(scores["heldout_times"]["cameras"]) == ["c0", "c1", "c2"]
    assert set(scores["predictors"]) == {"temporal_median", "previous_frame", "neighbour_mean"}
    assert scores["fit_seconds"] == pytest.approx(sum(scores["seconds"][s] for s in ("static", "seeds", "joint")))
    assert 50 < scores["peak_anonymous_mib"] <= scores["peak_rss_mib"]
    assert scores["splats"] == load(finished.out).splats
    # Measured 21.0 and 11.5 dB.
    assert scores["heldout_times"]["psnr_moving"] > scores["predictors"]["temporal_median"]["psnr_moving"] + 6


def test_events_are_the_same_in_the_file_and_in_the_ear(finished: Any) -> None:
    lines = [json.loads(line) for line in (finished.out / "events.jsonl").read_text().splitlines()]
    # What listeners hear is exactly what is logged.
    assert lines == [json.loads(json.dumps(events.to_json(e))) for e in finished.events]
    stages = [e.stage for e in finished.events if isinstance(e, events.Finished)]
    assert stages == ["ingest", "static", "seeds", "joint", "score", "report"]
    (scored,) = [e for e in finished.events if isinstance(e, events.Scored)]
    assert scored.scores["heldout_cameras"] == finished.result.scores["heldout_cameras"]


def test_a_second_run_does_nothing_again(finished: Any, config: ReconstructConfig, tmp_path: Path) -> None:
    out = finished.copy(tmp_path)
    run = Run(finished.capture, out, config, resume=True)
    assert run.reused == {"ingest", "static", "seeds", "joint"}
    assert run.done == {"ingest"}
    assert (out / "scene.safetensors").read_bytes() == (finished.out / "scene.safetensors").read_bytes()
    for name in ("heldout_cameras", "heldout_times", "train", "splats", "fit_seconds"):
        assert run.result.scores[name] == finished.result.scores[name]


Change = Callable[[ReconstructConfig], ReconstructConfig]


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (lambda c: c.with_value("fit.joint.steps=120"), {"joint"}),
        (lambda c: c.with_value("fit.train_hz=5"), {"joint"}),
        (lambda c: c.with_value("fit.seeds.count=300"), {"seeds", "joint"}),
        (lambda c: c.with_value("fit.static.steps=40"), {"static", "seeds", "joint"}),
        (lambda c: replace(c, split=SplitRule(heldout_cameras=("c1",))), {"static", "seeds", "joint"}),
    ],
    ids=["joint", "rate", "seeds", "static", "split"],
)
def test_a_change_redoes_what_depends_on_it(
    finished: Any, config: ReconstructConfig, tmp_path: Path, change: Change, again: set[str]
) -> None:
    out = finished.copy(tmp_path)
    run = Run(finished.capture, out, change(config))
    assert run.done == {"ingest"} | again
    assert run.reused == {"ingest", "static", "seeds", "joint"} - again
    assert not same(out, finished.out)
    assert load(out).config == change(config).to_json() | {"split": load(out).config["split"]}


def test_an_interrupted_run_goes_on_to_the_same_scene(finished: Any, config: ReconstructConfig, tmp_path: Path) -> None:
    heard: list[Event] = []

    def reached() -> bool:
        return any(isinstance(e, events.Progress) and e.stage == "joint" for e in heard)

    with pytest.raises(Stopped, match="step 100 of 220"):
        reconstruct(finished.capture, tmp_path, config, on_event=heard.append, should_stop=reached)
    assert not (tmp_path / "scene.json").exists()
    run = Run(finished.capture, tmp_path, config, resume=True)
    assert run.reused == {"ingest", "static", "seeds"}
    (started,) = [e for e in run.events if isinstance(e, events.Started) and e.stage == "joint"]
    assert "resumed at step 100" in started.detail
    assert same(tmp_path, finished.out)
    assert not (tmp_path / "work" / "joint.safetensors").exists()


def test_resume_without_an_earlier_run_is_refused(capture: Path, config: ReconstructConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing to resume.*--out"):
        reconstruct(capture, tmp_path / "new", config, resume=True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["static.safetensors", "seeds.safetensors"])
def test_a_damaged_stage_is_done_again(finished: Any, config: ReconstructConfig, tmp_path: Path, name: str) -> None:
    out = finished.copy(tmp_path)
    file = out / "work" / name
    file.write_bytes(file.read_bytes()[:100])
    (out / "work" / "joint.done.safetensors").write_bytes(b"broken")
    run = Run(finished.capture, out, config)
    assert run.done == {"ingest", "joint", name.split(".")[0]}
    assert same(out, finished.out)


def test_a_scene_that_was_deleted_is_made_again(finished: Any, config: ReconstructConfig, tmp_path: Path) -> None:
    out = finished.copy(tmp_path)
    (out / "scene.json").unlink()
    run = Run(finished.capture, out, config)
    assert run.done == {"ingest", "joint"}
    assert same(out, finished.out)


def test_films_are_made_when_asked_for(finished: Any, config: ReconstructConfig, tmp_path: Path) -> None:
    out = finished.copy(tmp_path)
    Run(finished.capture, out, replace(config, videos=True))
    assert {f.name for f in (out / "videos").iterdir()} == {"rig.mp4", "orbit.mp4", "frozen.mp4", "depth.mp4"}


def test_a_full_disk_leaves_the_earlier_scene_whole(
    finished: Any, config: ReconstructConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    out = finished.copy(tmp_path)
    before = content(out)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # Where data reaches the disk: a full one says so there at the latest.
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        reconstruct(finished.capture, out, config.with_value("fit.joint.steps=120"))
    monkeypatch.undo()
    after = content(out)
    assert {name for name in before if after.get(name) != before[name]} == {"events.jsonl"}
    assert after.keys() == before.keys()
    assert Run(finished.capture, out, config).reused >= {"static", "seeds", "joint"}
