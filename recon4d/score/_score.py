"""The door: render every sample, compare, sum up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from recon4d.capture import Division, statistics
from recon4d.errors import ConfigError, Stopped
from recon4d.events import Finished, OnEvent, Progress, ShouldStop, Started, ignore, never
from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.score._metrics import ImageScore, Tally, compare
from recon4d.score._predictors import PREDICTORS, predict
from recon4d.score._samples import Sample, samples, training_frames
from recon4d.types import Camera, Cameras, Clip, ClipStatistics, Scene4D

_STAGE = "score"


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """How a scene is scored. The defaults are the definitions; other values give numbers of another kind."""

    moving_threshold: float = 0.08
    """A pixel moves where its largest channel difference from the temporal median exceeds this, in [0, 1]."""
    min_moving_pixels: int = 50
    """An image with fewer moving pixels has no moving score: its mean would be noise."""
    train_every: int = 8
    """Every how many grid instants, from the first, the training frames are scored."""
    cap_db: float = 100.0
    """Decibel of an exact image, whose PSNR is infinite and would have no JSON form."""
    device: str = "cpu"
    """Torch device that renders."""
    backend: str = "auto"
    """Rasterizer."""

    def __post_init__(self) -> None:
        if self.train_every < 1:
            raise ConfigError(f"train_every must be 1 or more; it is {self.train_every}")
        if not 0 <= self.moving_threshold < 1:
            raise ConfigError(f"moving_threshold must lie in [0, 1); it is {self.moving_threshold}")
        if self.min_moving_pixels < 1:
            raise ConfigError(f"min_moving_pixels must be 1 or more; it is {self.min_moving_pixels}")


def score(
    scene: Scene4D,
    division: Division,
    config: ScoreConfig = ScoreConfig(),
    *,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> dict[str, Any]:
    """Scores a scene. Every frame is rendered at its own time through its own camera, with the exposure that the
    scene knows of it.

    Args:
        scene: the scene.
        division: what was trained on and what was kept; ``heldout`` has all cameras and frames.
        config: definitions and device.
        on_event: hears Started, Progress and Finished of the stage "score".
        should_stop: asked before every image.

    Returns:
        Plain JSON. ``heldout_cameras``, ``heldout_times`` and ``train`` are each ``{psnr, psnr_moving, ssim,
        cameras: {name: {psnr, psnr_moving, ssim, images}}}``, or None when nothing belongs to the set; means are over
        images, then over cameras, in decibel. ``predictors`` maps ``temporal_median``, ``previous_frame`` and
        ``neighbour_mean`` to the same record for the held-out times (None without any); ``temporal_median`` also
        holds ``heldout_cameras``, where the median is that of the held-out camera itself (``"of": "the held-out
        camera's own frames"``): no scene can know it. ``per_time`` lists ``{camera, time_s, set, psnr,
        psnr_moving}`` of every image. ``psnr_moving`` is None where no image has enough moving pixels.

    Raises:
        Stopped: on request; nothing is kept.
    """
    began = time.monotonic()
    division = division.exposed(scene.exposures)
    chosen = samples(division, config.train_every)
    on_event(Started(stage=_STAGE, total=len(chosen)))
    book, draw, reference = _Book(), _renderer(scene, config), _References(division)
    for step, sample in enumerate(chosen):
        if should_stop():
            raise Stopped(f"scoring was stopped after {step} of {len(chosen)} images; score again to get all")
        training, stats = reference(sample.camera)
        judge = _judge(sample, stats, config)
        book.ours(sample, judge(draw(sample.clip.camera, sample.time_s)))
        if sample.set != "train":
            for name, image in predict(training, stats, sample.instant_s, division.heldout.split.grid_s):
                if sample.set == "heldout_times" or name == "temporal_median":
                    book.theirs(sample, name, judge(image))
        on_event(Progress(stage=_STAGE, step=step + 1, total=len(chosen)))
    on_event(Finished(stage=_STAGE, seconds=time.monotonic() - began))
    return book.record()


class _Book:
    """Scores as they come in, and the record that they make."""

    def __init__(self) -> None:
        self._ours = {name: Tally() for name in ("heldout_cameras", "heldout_times", "train")}
        self._theirs = {name: Tally() for name in PREDICTORS}
        self._own_median = Tally()
        self._per_time: list[dict[str, Any]] = []

    def ours(self, sample: Sample, score: ImageScore) -> None:
        self._ours[sample.set].add(sample.camera, score)
        row = {"camera": sample.camera, "time_s": sample.time_s, "set": sample.set}
        self._per_time.append({**row, "psnr": score.psnr, "psnr_moving": score.psnr_moving})

    def theirs(self, sample: Sample, predictor: str, score: ImageScore) -> None:
        tally = self._theirs[predictor] if sample.set == "heldout_times" else self._own_median
        tally.add(sample.camera, score)

    def record(self) -> dict[str, Any]:
        predictors: dict[str, Any] = {name: tally.summary() for name, tally in self._theirs.items()}
        own = self._own_median.summary()
        if own is not None:
            nothing = {"psnr": None, "psnr_moving": None, "ssim": None, "cameras": {}}
            predictors["temporal_median"] = {
                **(predictors["temporal_median"] or nothing),
                "heldout_cameras": {**own, "of": "the held-out camera's own frames"},
            }
        sets = {name: tally.summary() for name, tally in self._ours.items()}
        return {**sets, "predictors": predictors, "per_time": self._per_time}


class _References:
    """Training frames and their statistics by camera, computed when first asked for."""

    def __init__(self, division: Division) -> None:
        self._division = division
        self._known: dict[str, tuple[Clip, ClipStatistics]] = {}

    def __call__(self, camera: str) -> tuple[Clip, ClipStatistics]:
        if camera not in self._known:
            training = training_frames(self._division, camera)
            self._known[camera] = (training, statistics(training))
        return self._known[camera]


def _renderer(scene: Scene4D, config: ScoreConfig) -> Callable[[Camera, float], np.ndarray]:
    model = Gaussians4D.from_scene(scene).to(config.device)

    def draw(camera: Camera, time_s: float) -> np.ndarray:
        drawn = rasterize(
            model.at(time_s),
            Cameras.of(camera, device=config.device),
            background=scene.background,
            antialiased=scene.antialiased,
            backend=config.backend,
            outputs=("rgb",),
        )
        assert drawn.rgb is not None
        return drawn.rgb[0].clamp(0, 1).cpu().numpy()

    return draw


def _judge(sample: Sample, stats: ClipStatistics, config: ScoreConfig) -> Callable[[np.ndarray], ImageScore]:
    """What scores an image against a sample's frame."""
    truth = sample.clip.frames[sample.frame]
    moving = stats.moving(truth, config.moving_threshold)

    def judge(image: np.ndarray) -> ImageScore:
        return compare(
            image,
            truth,
            moving=moving,
            valid=sample.clip.valid,
            min_moving_pixels=config.min_moving_pixels,
            cap_db=config.cap_db,
        )

    return judge
