"""What a reconstruction will take, before it is begun."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import get_args

from recon4d.capture import Examination
from recon4d.reconstruct._config import ReconstructConfig
from recon4d.train import Preset


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What one reconstruction on the CPU will take."""

    seconds: float
    """Until the report is written. Good to about a factor of 1.5 for captures like those that it was measured on."""
    memory_mib: float
    """Peak of memory that the system cannot drop or read back from a file."""
    cores: int
    """Of this machine, which the seconds are meant for."""


def estimates(examination: Examination) -> dict[str, Estimate]:
    """What each preset will take for a capture that was examined."""
    return {name: estimate(examination, ReconstructConfig.of(name)) for name in get_args(Preset)}


def estimate(examination: Examination, config: ReconstructConfig) -> Estimate:
    """What a reconstruction with this configuration will take on this machine's CPU.

    The factors were fitted to whole runs on two cores of one x86 server (8 cameras of 320x240, 3 of 480x270), and how
    they grow to single steps at up to 960x720. More cores are taken to share four fifths of the work.
    """
    fit = config.fit
    cameras = examination.cameras
    picture = sum(camera.width * camera.height for camera in cameras) / 1e6 / max(len(cameras), 1)
    decoded = sum((camera.frames or 0) * camera.width * camera.height for camera in cameras) / 1e6
    static, moving = fit.static.count / 1000, fit.seeds.count / 1000
    static_step_s = 0.0042 + 0.245 * picture
    joint_step_s = 0.000115 * (static + moving) + 0.0445 * picture
    seconds = 20 + 0.015 * decoded + fit.static.steps * static_step_s + fit.joint.steps * joint_step_s
    cores = os.cpu_count() or 1
    memory_mib = 265 + 1.8 * (static + moving) + 900 * picture
    kept_mib = 3 * decoded if 3 * decoded <= config.ingest.memory_budget_mib else 0  # Else they are mapped.
    return Estimate(
        seconds=seconds * (0.2 + 0.8 * 2 / cores),
        memory_mib=memory_mib + kept_mib,
        cores=cores,
    )
