"""The stages of one reconstruction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recon4d import __version__, jit
from recon4d.capture import Division, divide, ingest
from recon4d.errors import ConfigError
from recon4d.events import Finished, OnEvent, Progress, Saved, Scored, ShouldStop, Started, Warned, ignore, never
from recon4d.files import write_atomic
from recon4d.reconstruct._config import ReconstructConfig
from recon4d.reconstruct._folder import RunFolder, digest, peak_resident_mib
from recon4d.reconstruct._stages import keep, pool_of, recall
from recon4d.scene import load, save
from recon4d.score import score
from recon4d.show import ReportInputs, VideoConfig, VideoKind, report, video
from recon4d.train import background_color, find_foreground, fit_joint, fit_static, seed_dynamic
from recon4d.types import Capture, DynamicPool, Scene4D, StaticPool

_FIT_STAGES = ("static", "seeds", "joint")
_FILMS: dict[VideoKind, str] = {
    "rig": "a rig camera over time",
    "orbit": "camera and time move",
    "frozen": "time stands still",
    "depth": "depth of a rig camera",
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a reconstruction leaves."""

    scene: Path
    """The scene folder."""
    report: Path
    """One HTML file."""
    scores: dict[str, Any]
    """What ``scores.json`` holds."""


def reconstruct(
    capture_dir: Path | str,
    out: Path | str,
    config: ReconstructConfig | None = None,
    *,
    device: torch.device | str = "cpu",
    resume: bool = False,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> Result:
    """Reconstructs a capture folder into a scene folder.

    Stages whose inputs have not changed since an earlier run in the same folder are not done again, and an
    interrupted joint fit goes on from its checkpoint.

    Args:
        capture_dir: folder with ``capture.json`` and the videos.
        out: scene folder: new, empty or of an earlier run.
        config: preset ``balanced`` when None.
        device: any torch device.
        resume: insist that there is an earlier run to go on with.

    Raises:
        CaptureError: the capture cannot be used.
        ConfigError: the configuration does not fit the capture, or there is nothing to resume.
        OutputError: the folder is in use, holds something else or cannot be written.
        TrainingDiverged: numbers stopped being finite.
        Stopped: on request; call again to go on.
    """
    folder = RunFolder(Path(out), on_event)
    if resume and not folder.has_run:
        raise ConfigError(f"nothing to resume: {out} holds no earlier run; leave out --resume or correct --out")
    with folder:
        return _Run(Path(capture_dir), folder, config or ReconstructConfig(), torch.device(device), should_stop).all()


class _Run:
    """One pass over the stages, with what they share."""

    def __init__(
        self, source: Path, folder: RunFolder, config: ReconstructConfig, device: torch.device, should_stop: ShouldStop
    ) -> None:
        self.source = source
        self.folder = folder
        self.config = config
        self.device = device
        self.should_stop = should_stop
        self.seconds: dict[str, float] = {}

    def all(self) -> Result:
        self._say_what_runs()
        begun = time.monotonic()
        capture = ingest(
            self.source,
            self.config.ingest,
            workdir=self.folder.work / "frames",
            on_event=self.folder.emit,
            should_stop=self.should_stop,
        )
        self.seconds["ingest"] = time.monotonic() - begun
        division = divide(capture, self.config.rule(capture.split))
        scene = self._fit(capture, division)
        scores = self._score(scene, division)
        return Result(scene=self.folder.path, report=self._report(scene, division, scores), scores=scores)

    def _say_what_runs(self) -> None:
        self.folder.emit(Started(stage="run", detail=f"recon4d {__version__}, {self.source}, device {self.device}"))
        write_atomic(self.folder.path / "config.json", json.dumps(self.config.to_json(), indent=1))
        if self.device.type == "cpu" and jit.cold():
            message = "compiling the CPU kernels: once on this machine, about a minute in all, then cached on disk"
            self.folder.emit(Warned(stage="compile", message=message))

    def _fit(self, capture: Capture, division: Division) -> Scene4D:
        """Static pool, seeds and joint fit, each taken from an earlier run where its key still holds."""
        train, fit, emit, work = division.train, self.config.fit, self.folder.emit, self.folder.work
        data = digest(
            __version__, train.input_hash, train.split, fit.seed, fit.sh_degree, fit.backend, self.device.type
        )
        static_key = digest(data, fit.static, fit.loss, fit.ssim_every)
        seeds_key = digest(static_key, fit.seeds, fit.foreground, fit.key_hz)
        joint_key = digest(seeds_key, fit.joint, fit.train_hz)
        done = recall(work / "joint.done.safetensors", joint_key)
        if done is not None and (self.folder.path / "scene.json").exists():
            self.seconds.update(done[1])
            for stage in _FIT_STAGES:
                emit(Finished(stage=stage, seconds=done[1][stage], reused=True))
            return load(self.folder.path)

        def still() -> dict[str, Tensor]:
            made = fit_static(train, fit, device=self.device, on_event=emit, should_stop=self.should_stop)
            exposures = [made.exposures[camera.name] for camera in train.cameras]
            return {**vars(made.pool), "exposures": torch.tensor(exposures, dtype=torch.float64)}

        found = self._stage("static", static_key, still)
        static = pool_of(StaticPool, found)
        exposures = {c.name: value for c, value in zip(train.cameras, found["exposures"].tolist(), strict=True)}
        capture, train = capture.exposed(exposures), train.exposed(exposures)
        foreground = find_foreground(train, static, fit, self.device)
        seeds = pool_of(
            DynamicPool,
            self._stage(
                "seeds",
                seeds_key,
                lambda: dict(vars(seed_dynamic(train, foreground, fit, on_event=emit, should_stop=self.should_stop))),
            ),
        )
        checkpoint = work / "joint.safetensors"
        begun = time.monotonic()
        static, dynamic = fit_joint(
            train,
            static,
            seeds,
            foreground,
            fit,
            device=self.device,
            checkpoint=checkpoint,
            key=joint_key,
            on_event=emit,
            should_stop=self.should_stop,
        )
        self.seconds["joint"] = time.monotonic() - begun
        scene = self._save_scene(capture, train, static, dynamic)
        keep(work / "joint.done.safetensors", joint_key, {stage: self.seconds[stage] for stage in _FIT_STAGES}, {})
        checkpoint.unlink(missing_ok=True)
        return scene

    def _stage(self, stage: str, key: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """What a stage made, in an earlier run where its key still holds, or now."""
        path = self.folder.work / f"{stage}.safetensors"
        known = recall(path, key)
        if known is not None:
            self.seconds.update(known[1])
            self.folder.emit(Finished(stage=stage, seconds=known[1][stage], reused=True))
            return known[0]
        begun = time.monotonic()
        made = make()
        self.seconds[stage] = time.monotonic() - begun
        keep(path, key, {stage: self.seconds[stage]}, made)
        return made

    def _save_scene(self, capture: Capture, train: Capture, static: StaticPool, dynamic: DynamicPool) -> Scene4D:
        scene = Scene4D(
            static=static,
            dynamic=dynamic,
            cameras=capture.cameras,
            duration_s=capture.duration_s,
            clock_offset_s=capture.clock_offset_s,
            plane=capture.plane,
            input_hash=capture.input_hash,
            config=self.config.to_json(),
            software=__version__,
            background=background_color(train),
        )
        save(scene, self.folder.path)
        self.folder.emit(Saved(stage="joint", path=str(self.folder.path)))
        return scene

    def _score(self, scene: Scene4D, division: Division) -> dict[str, Any]:
        begun = time.monotonic()
        config = self.config.score
        if config.device == "cpu":  # Not set apart: it is where everything else is computed.
            config = replace(config, device=str(self.device))
        scores = score(scene, division, config, on_event=self.folder.emit, should_stop=self.should_stop)
        self.seconds["score"] = time.monotonic() - begun
        scores |= {
            "fit_seconds": sum(self.seconds[stage] for stage in _FIT_STAGES),
            "seconds": dict(self.seconds),
            "peak_rss_mib": peak_resident_mib(),
            "peak_anonymous_mib": self.folder.peak_anonymous_mib,
            "splats": scene.splats,
        }
        write_atomic(self.folder.path / "scores.json", json.dumps(scores, indent=1))
        self.folder.emit(Scored(stage="score", scores={k: v for k, v in scores.items() if k != "per_time"}))
        return scores

    def _report(self, scene: Scene4D, division: Division, scores: dict[str, Any]) -> Path:
        """Films and the page. Made anew every time: it takes seconds and must fit the scores."""
        begun = time.monotonic()
        emit = self.folder.emit
        emit(Started(stage="report"))
        videos: dict[str, Path] = {}
        for number, (kind, title) in enumerate(_FILMS.items() if self.config.videos else ()):
            emit(Progress(stage="report", step=number, total=len(_FILMS)))
            path = self.folder.path / "videos" / f"{kind}.mp4"
            config = VideoConfig(device=str(self.device))
            videos[title] = video(scene, path, kind, config, should_stop=self.should_stop)
        inputs = ReportInputs(
            scene=scene,
            division=division,
            scores=scores,
            events=self.folder.events(),
            timings=dict(self.seconds),
            videos=videos,
            title=division.train.name,
        )
        path = report(inputs, self.folder.path / "report.html")
        emit(Finished(stage="report", seconds=time.monotonic() - begun, detail=str(path)))
        return path
