"""The joint fit: both pools, on video frames at their own times."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from recon4d.errors import OutputError, Stopped
from recon4d.events import Finished, OnEvent, Progress, Saved, ShouldStop, Started, Warned, ignore, never
from recon4d.files import read_tensors, write_atomic, write_tensors
from recon4d.loss import LossTerms
from recon4d.model import Gaussians4D
from recon4d.points import Foreground, Workspace, dynamic_seeds
from recon4d.raster import rasterize
from recon4d.train._config import FitConfig
from recon4d.train._optimize import ROUND, Costs, Descent, Step, View
from recon4d.train._static import render_backgrounds
from recon4d.train._views import FrameSampler, background_color, clip_statistics, key_frames
from recon4d.types import Cameras, Capture, DynamicPool, StaticPool

PREVIEW = "preview.jpg"


def find_foreground(
    capture: Capture, static: StaticPool, config: FitConfig, device: torch.device | str = "cpu"
) -> Foreground:
    """What differs from the fitted static pool."""
    backgrounds = render_backgrounds(static, capture, device, config.backend)
    return Foreground(capture.clips, clip_statistics(capture), backgrounds, config.foreground)


def seed_dynamic(
    capture: Capture,
    foreground: Foreground,
    config: FitConfig,
    *,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> DynamicPool:
    """Seeds of what moves.

    Raises:
        Stopped: on request; this stage takes seconds and starts again.
    """
    begun = time.monotonic()
    on_event(Started(stage="seeds", detail=f"at most {config.seeds.count} Gaussians"))
    pool = dynamic_seeds(
        foreground,
        [key_frames(clip, config.key_hz) for clip in capture.clips],
        Workspace.of(capture.cameras, capture.plane),
        config=config.seeds,
        sh_degree=config.sh_degree,
        rng=np.random.default_rng([config.seed, 2]),
        on_event=on_event,
        should_stop=should_stop,
    )
    if len(pool) == 0:
        on_event(Warned(stage="seeds", message="nothing moves in this capture: the scene will be static"))
    on_event(Finished(stage="seeds", seconds=time.monotonic() - begun, detail=f"{len(pool)} Gaussians"))
    return pool


@dataclass
class _Joint:
    """A joint fit under way."""

    descent: Descent
    sampler: FrameSampler
    rng: np.random.Generator
    config: FitConfig
    path: Path | None
    key: str
    step: int = 0

    def save(self) -> None:
        if self.path is not None:
            facts = {"step": self.step, "key": self.key, "rng": dict(self.rng.bit_generator.state)}
            write_tensors(self.path, self.descent.state_dict(), facts)

    def show(self, rgb: Tensor) -> None:
        """Leaves a picture, [H, W, 3] in [0, 1], beside the checkpoint."""
        if self.path is not None:
            image = (rgb.clamp(0, 1) * 255).round().byte().cpu().numpy()
            _, data = cv2.imencode(".jpg", np.ascontiguousarray(image[..., ::-1]))
            write_atomic(self.path.with_name(PREVIEW), data.tobytes())

    def resume(self, on_event: OnEvent) -> bool:
        """Goes on from the checkpoint when there is a sound one of this very fit."""
        try:
            found = read_tensors(self.path) if self.path is not None else None
        except OutputError as error:
            on_event(Warned(stage="joint", message=f"no going on from the checkpoint, the fit starts anew: {error}"))
            return False
        if found is None or found[1]["key"] != self.key:
            return False
        self.descent.load_state_dict(found[0])
        self.rng.bit_generator.state = found[1]["rng"]
        self.step = int(found[1]["step"])
        return True


def fit_joint(
    capture: Capture,
    static: StaticPool,
    dynamic: DynamicPool,
    foreground: Foreground,
    config: FitConfig,
    *,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    key: str = "",
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> tuple[StaticPool, DynamicPool]:
    """Fits both pools to random frames of random cameras, each drawn at its own time.

    Args:
        capture: training cameras and frames only.
        checkpoint: file to save progress to and to resume from; None saves nothing. Beside it lies ``preview.jpg``,
            what the first camera sees, as often as events tell a PSNR.
        key: names this fit's inputs; a checkpoint with another key is ignored.

    Returns:
        The fitted pools, on the CPU, without Gaussians that can never be drawn.

    Raises:
        Stopped: on request, with the checkpoint written.
        TrainingDiverged: numbers stopped being finite.
    """
    begun = time.monotonic()
    model = Gaussians4D.from_pools(static, dynamic).to(device)
    rates = (config.joint.static_rates, config.joint.rates)
    distance_m = Workspace.of(capture.cameras, capture.plane).distance_m
    descent = Descent(model, rates, distance_m, background_color(capture), config.backend)
    rng = np.random.default_rng([config.seed, 3])
    sampler = FrameSampler(
        foreground, rate_hz=config.train_hz, whole_every=config.joint.whole_every, rng=rng, device=model.device
    )
    joint = _Joint(descent=descent, sampler=sampler, rng=rng, config=config, path=checkpoint, key=key)
    resumed = joint.resume(on_event)
    detail = f"{len(model)} Gaussians" + (f", resumed at step {joint.step}" if resumed else "")
    on_event(Started(stage="joint", total=config.joint.steps, detail=detail))
    _run(joint, on_event, should_stop)
    on_event(Finished(stage="joint", seconds=time.monotonic() - begun))
    return _visible(*model.to("cpu").to_pools())


def _run(joint: _Joint, on_event: OnEvent, should_stop: ShouldStop) -> None:
    steps, first, begun = joint.config.joint.steps, joint.step, time.monotonic()
    while joint.step < steps:
        if should_stop():
            joint.save()
            raise Stopped(f"stopped at step {joint.step} of {steps}; run again with --resume to go on")
        size = min(ROUND, steps - joint.step)
        before = joint.rng.bit_generator.state
        active = joint.descent.round(
            joint_step(joint.config, k, joint.sampler.draw(k)) for k in range(joint.step, joint.step + size)
        )
        loss, good = joint.descent.end_round(joint.step + size)
        if not good:
            joint.rng.bit_generator.state = before
            on_event(Warned(stage="joint", message=f"numbers went wrong before step {joint.step + size}: rolled back"))
            continue
        joint.step += size
        elapsed = time.monotonic() - begun
        on_event(
            Progress(
                stage="joint",
                step=joint.step,
                total=steps,
                eta_s=elapsed / (joint.step - first) * (steps - joint.step),
                loss=loss,
                psnr=_progress_psnr(joint) if joint.step % (5 * ROUND) == 0 or joint.step == steps else None,
                splats=len(joint.descent.model),
                active=int(np.mean(active)),
            )
        )
        if joint.path is not None and joint.step % joint.config.joint.checkpoint_every == 0 and joint.step < steps:
            joint.save()
            on_event(Saved(stage="joint", path=str(joint.path)))


def joint_step(config: FitConfig, k: int, view: View) -> Step:
    """The k-th step of a joint fit, which looks at ``view``."""
    terms = config.loss
    # Whole images and crops alternate with their own period, so SSIM must not always meet the same kind.
    if (k // 2) % config.ssim_every:
        terms = LossTerms(l1=terms.l1, ssim=0.0, l2=terms.l2)
    return Step(
        number=k,
        view=view,
        terms=terms,
        costs=Costs(dynamic=config.joint.opacity_cost),
        decay=0.1 ** (k / config.joint.steps),
    )


def _progress_psnr(joint: _Joint) -> float:
    """Mean decibel over one whole training frame of every camera, spread over the clip."""
    values = []
    for camera in range(joint.sampler.cameras):
        view = joint.sampler.whole(camera, (camera + 0.5) / joint.sampler.cameras)
        with torch.no_grad():
            splats = joint.descent.model.at(view.time_s)
            cameras = Cameras.of(view.camera, device=view.target.device)
            background, backend = joint.descent.background, joint.descent.backend
            drawn = rasterize(splats, cameras, background=background, backend=backend, outputs=("rgb",))
        assert drawn.rgb is not None
        if camera == 0:
            joint.show(drawn.rgb[0])
        error = drawn.rgb[0].clamp(0, 1) - view.target.float() / 255
        values.append(-10 * torch.log10((error * error).mean() + 1e-10))
    return float(torch.stack(values).mean())


def _visible(static: StaticPool, dynamic: DynamicPool) -> tuple[StaticPool, DynamicPool]:
    """Without Gaussians whose opacity is below what a rasterizer draws."""
    keep_static, keep_dynamic = static.opacities >= 1 / 255, dynamic.opacities >= 1 / 255
    return (
        StaticPool(**{name: value[keep_static] for name, value in vars(static).items()}),
        DynamicPool(**{name: value[keep_dynamic] for name, value in vars(dynamic).items()}),
    )
