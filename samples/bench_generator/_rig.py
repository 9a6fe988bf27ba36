"""The eight cameras: where they stand, their lenses, clocks and exposures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench_generator._config import BenchConfig
from recon4d.geometry import look_at
from recon4d.types import Camera

SCENE_CENTER_M = np.array([-0.02, 0.0, 0.05])

DOME_DEG = {
    "cam0": (-104.0, 30.0),
    "cam1": (-28.0, 29.0),
    "cam2": (28.0, 31.0),
    "cam3": (104.0, 30.0),
    "cam4": (-66.0, 62.0),
    "cam5": (66.0, 65.0),
    "cam6": (0.0, 42.0),
    "cam7": (66.0, 42.0),
}
"""Azimuth (0 is opposite the arm) and elevation. The last two lie inside the hull of the others, 22 to 26 degrees away
from the nearest."""
HELDOUT = ("cam6", "cam7")
SLOW = "cam4"
"""Runs at 25/30 of the others' rate."""
DROPS = "cam2"
"""Loses one frame; its container does not show it, only its timestamps do."""
CLOCKED = ("cam0", "cam2", "cam5", "cam7")
"""These have timestamp files; the others rely on their container's times and a time offset."""


@dataclass(frozen=True, kw_only=True)
class RigCamera:
    """One camera of the rig and how it is drawn."""

    camera: Camera
    fovy_deg: float
    """Vertical field of view of the larger, centred picture that is drawn."""
    drawn_size: tuple[int, int]
    """Width and height of that picture, in samples."""
    crop: tuple[int, int]
    """First column and row of the camera's own picture in it, in samples: this moves the principal point exactly."""
    gain: float
    """Exposure, as a factor on the colours."""
    times_s: np.ndarray
    """[F] float64 on the original clock: when each frame was taken."""
    fps: float
    """The nominal rate."""
    has_timestamps: bool

    @property
    def name(self) -> str:
        return self.camera.name


def draw_rig(config: BenchConfig, attempt: int) -> tuple[RigCamera, ...]:
    """Places the cameras with the jitter of hands, and starts their clocks apart from each other."""
    rng = config.rng("rig", attempt)
    starts = rng.permutation(len(DOME_DEG)) * 0.008 + rng.uniform(0.0, 0.003, len(DOME_DEG))
    gains = _exposures(rng)
    return tuple(
        _draw_camera(config, name, float(np.round(start, 5)), gains[name], rng)
        for name, start in zip(DOME_DEG, starts, strict=True)
    )


def _exposures(rng: np.random.Generator) -> dict[str, float]:
    """Factors by camera: half of the training cameras expose too much, half too little, and right on average.

    Training views can tell no other brightness than their mean: a held-out camera has that one, up to a hundredth.
    """
    trained = [name for name in DOME_DEG if name not in HELDOUT]
    errors = rng.uniform(0.015, 0.04, len(trained)) * rng.permutation([1.0, -1.0] * (len(trained) // 2))
    gains = dict(zip(trained, (1.0 + errors - errors.mean()).tolist(), strict=True))
    return gains | {name: float(1.0 + rng.uniform(-0.01, 0.01)) for name in HELDOUT}


def _draw_camera(config: BenchConfig, name: str, start_s: float, gain: float, rng: np.random.Generator) -> RigCamera:
    azimuth, elevation = np.deg2rad(np.array(DOME_DEG[name]) + rng.uniform(-1.0, 1.0, 2))
    direction = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    center = SCENE_CENTER_M + rng.uniform(1.02, 1.14) * direction
    target = SCENE_CENTER_M + rng.uniform(-0.02, 0.02, 3)
    roll = np.deg2rad(rng.uniform(-2.0, 2.0))
    T = look_at(center, target)
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]]

    samples = config.supersample
    margin = round(config.height / 24)
    drawn = (samples * (config.width + 2 * margin), samples * (config.height + 2 * margin))
    focal = config.height * rng.uniform(1.04, 1.10)
    shift = rng.integers(-margin * samples // 2, margin * samples // 2 + 1, 2)
    crop = (samples * margin + int(shift[0]), samples * margin + int(shift[1]))
    K = np.array(
        [
            [focal, 0.0, (drawn[0] / 2 - crop[0]) / samples],
            [0.0, focal, (drawn[1] / 2 - crop[1]) / samples],
            [0.0, 0.0, 1.0],
        ]
    )
    fps = config.fps * (25 / 30 if name == SLOW else 1.0)
    return RigCamera(
        camera=Camera(name=name, width=config.width, height=config.height, K=K, T_cam_world=turn @ T),
        fovy_deg=float(np.rad2deg(2 * np.arctan(drawn[1] / samples / 2 / focal))),
        drawn_size=drawn,
        crop=crop,
        gain=gain,
        times_s=_times(config, name, start_s, fps, rng),
        fps=fps,
        has_timestamps=name in CLOCKED,
    )


def _times(config: BenchConfig, name: str, start_s: float, fps: float, rng: np.random.Generator) -> np.ndarray:
    count = int(np.floor((config.seconds - start_s) * fps + 1e-9))
    times = start_s + np.arange(count) / fps
    jitter = rng.uniform(-0.0005, 0.0005, count)
    drop = int(rng.integers(count // 3, 2 * count // 3))
    if name in CLOCKED:
        times = np.round(times + jitter, 6)
    return np.delete(times, drop) if name == DROPS else times


def clock(rig: tuple[RigCamera, ...]) -> tuple[float, float]:
    """The capture clock's zero on the original clock (all cameras run) and how long all overlap, in seconds."""
    zero = max(float(c.times_s[0]) for c in rig)
    return zero, min(float(c.times_s[-1]) for c in rig) - zero
