"""All stages of a fit in one call."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import torch

from recon4d import __version__
from recon4d.events import OnEvent, ShouldStop, ignore, never
from recon4d.train._config import FitConfig
from recon4d.train._joint import find_foreground, fit_joint, seed_dynamic
from recon4d.train._static import fit_static
from recon4d.train._views import background_color
from recon4d.types import Capture, Scene4D


def fit(
    capture: Capture,
    config: FitConfig | None = None,
    *,
    device: torch.device | str = "cpu",
    workdir: Path | None = None,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> Scene4D:
    """Fits a 4D scene to a capture.

    The method: a static pool fitted to temporal medians; short-lived Gaussians with linear motion (FreeTimeGS,
    Wang et al. 2025) and a flat-topped life span (SharpTimeGS, 2026), seeded inside the visual hull with
    velocities from optical flow; both refined together with row-wise Adam.

    Args:
        capture: training cameras and frames only (see ``recon4d.capture.divide``).
        config: the preset ``balanced`` when None.
        device: any torch device.
        workdir: where the joint fit's checkpoint goes; a checkpoint of the same fit found there is resumed.

    Raises:
        Stopped: on request; with a workdir, a later call resumes.
        TrainingDiverged: numbers stopped being finite and rolling back did not help.
    """
    config = config or FitConfig()
    still = fit_static(capture, config, device=device, on_event=on_event, should_stop=should_stop)
    capture, static = capture.exposed(still.exposures), still.pool
    foreground = find_foreground(capture, static, config, device)
    dynamic = seed_dynamic(capture, foreground, config, on_event=on_event, should_stop=should_stop)
    static, dynamic = fit_joint(
        capture,
        static,
        dynamic,
        foreground,
        config,
        device=device,
        checkpoint=workdir / "joint.safetensors" if workdir else None,
        key=_key(capture, config),
        on_event=on_event,
        should_stop=should_stop,
    )
    return Scene4D(
        static=static,
        dynamic=dynamic,
        cameras=capture.cameras,
        duration_s=capture.duration_s,
        clock_offset_s=capture.clock_offset_s,
        plane=capture.plane,
        input_hash=capture.input_hash,
        config=config.to_json(),
        software=__version__,
        background=background_color(capture),
    )


def _key(capture: Capture, config: FitConfig) -> str:
    """Names all that a joint fit depends on, so that a checkpoint of another one is not taken up."""
    facts = [__version__, capture.input_hash, asdict(capture.split), config.to_json()]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
