"""The static fit: what stands still, from the temporal medians."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from recon4d.errors import Stopped
from recon4d.events import Finished, OnEvent, Progress, ShouldStop, Started, Warned, ignore, never
from recon4d.loss import LossTerms
from recon4d.model import Gaussians4D
from recon4d.points import StaticView, Workspace, static_seeds
from recon4d.raster import rasterize
from recon4d.train._config import FitConfig
from recon4d.train._optimize import ROUND, Costs, Descent, Step, View
from recon4d.train._views import background_color, clip_statistics, static_views
from recon4d.types import Cameras, Capture, DynamicPool, StaticPool


@dataclass(frozen=True, kw_only=True)
class StaticFit:
    """What stands still, and how bright each camera shows it."""

    pool: StaticPool
    """Gaussians on the CPU, in the colours of a camera of exposure 1."""
    exposures: dict[str, float]
    """Of every training camera, of mean 1 in the logarithm."""


def fit_static(
    capture: Capture,
    config: FitConfig,
    *,
    device: torch.device | str = "cpu",
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> StaticFit:
    """Fits plain 3D Gaussians to the temporal-median image of every camera.

    Args:
        capture: training cameras and frames only.

    Returns:
        ``config.static.count`` Gaussians, and the exposures that matching found: one factor a camera, the same for
        all channels and the whole clip.

    Raises:
        Stopped: on request; this stage takes seconds and starts again.
        TrainingDiverged: numbers stopped being finite.
    """
    begun = time.monotonic()
    on_event(Started(stage="static", total=config.static.steps, detail=f"{config.static.count} Gaussians"))
    views = static_views(capture, clip_statistics(capture), config.static)
    workspace = Workspace.of(capture.cameras, capture.plane)
    rng = np.random.default_rng([config.seed, 1])
    seeds, exposures = static_seeds(views, workspace, count=config.static.count, sh_degree=config.sh_degree, rng=rng)
    views = [
        replace(view, camera=replace(view.camera, exposure=float(exposure)))
        for view, exposure in zip(views, exposures, strict=True)
    ]
    model = Gaussians4D.from_pools(seeds, no_dynamic(config.sh_degree)).to(device)
    rates = (config.static.rates, config.static.rates)
    descent = Descent(model, rates, workspace.distance_m, background_color(capture), config.backend)
    _run(descent, views, config, on_event, should_stop)
    on_event(Finished(stage="static", seconds=time.monotonic() - begun))
    return StaticFit(
        pool=model.to("cpu").to_pools()[0], exposures={view.camera.name: view.camera.exposure for view in views}
    )


def _run(
    descent: Descent, views: list[StaticView], config: FitConfig, on_event: OnEvent, should_stop: ShouldStop
) -> None:
    begun, steps, step = time.monotonic(), config.static.steps, 0
    targets = [_target(view, descent.model.device) for view in views]
    while step < steps:
        if should_stop():
            raise Stopped("stopped during the static fit; rerun to start this stage again")
        size = min(ROUND, steps - step)
        descent.round(_step(config, targets, k) for k in range(step, step + size))
        loss, good = descent.end_round(step + size)
        if not good:
            on_event(Warned(stage="static", message=f"numbers went wrong before step {step + size}: rolled back"))
            continue
        step += size
        elapsed = time.monotonic() - begun
        on_event(
            Progress(
                stage="static",
                step=step,
                total=steps,
                eta_s=elapsed / step * (steps - step),
                loss=loss,
                splats=len(descent.model),
                psnr=_psnr(descent, views),
            )
        )


def _step(config: FitConfig, targets: list[View], k: int) -> Step:
    """The k-th step: the views take turns."""
    return Step(
        number=k,
        view=targets[k % len(targets)],
        terms=_terms(config, k // len(targets)),
        costs=Costs(static=config.static.opacity_cost / config.static.count),
        decay=0.1 ** (k / config.static.steps),
    )


def render_backgrounds(
    pool: StaticPool, capture: Capture, device: torch.device | str = "cpu", backend: str = "auto"
) -> list[np.ndarray]:
    """[H, W, 3] float32 picture of the static pool from every camera of the capture."""
    splats = Gaussians4D.from_pools(pool, no_dynamic(round(pool.sh.shape[1] ** 0.5) - 1)).to(device).at(0.0)
    images, background = [], background_color(capture)
    with torch.no_grad():
        for camera in capture.cameras:
            cameras = Cameras.of(camera, device=device)
            drawn = rasterize(splats, cameras, background=background, backend=backend, outputs=("rgb",))
            assert drawn.rgb is not None
            images.append(drawn.rgb[0].cpu().numpy())
    return images


def no_dynamic(sh_degree: int) -> DynamicPool:
    """A dynamic pool of no rows."""
    widths = {"means": (3,), "quats": (4,), "scales": (3,), "sh": ((sh_degree + 1) ** 2, 3), "velocities": (3,)}
    return DynamicPool(**{f.name: torch.zeros(0, *widths.get(f.name, ())) for f in fields(DynamicPool)})


def _target(view: StaticView, device: torch.device) -> View:
    return View(
        camera=view.camera,
        time_s=0.0,
        target=torch.from_numpy(np.rint(view.image * 255).astype(np.uint8)).to(device),
        weight=torch.from_numpy(view.weight).to(device),
        pixels=view.camera.width * view.camera.height,
    )


def _terms(config: FitConfig, visit: int) -> LossTerms:
    """The loss of a view's so-manieth visit."""
    if visit % config.ssim_every == 0:
        return config.loss
    return LossTerms(l1=config.loss.l1, ssim=0.0, l2=config.loss.l2)


def _psnr(descent: Descent, views: list[StaticView]) -> float:
    """Decibel on the settled pixels of the first view."""
    view = views[0]
    with torch.no_grad():
        cameras = Cameras.of(view.camera, device=descent.model.device)
        drawn = rasterize(
            descent.model.at(0.0), cameras, background=descent.background, backend=descent.backend, outputs=("rgb",)
        )
    assert drawn.rgb is not None
    settled = view.weight > 0.5
    if not settled.any():
        settled = view.weight > 0
    error = (drawn.rgb[0].cpu().numpy() - view.image)[settled]
    return float(-10 * np.log10(np.mean(error.clip(-1, 1) ** 2) + 1e-10))
