"""What is drawn and trained on: small scenes with known Gaussians, made in code, alike on every machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from recon4d.geometry import look_at
from recon4d.model import Gaussians4D, Layout
from recon4d.raster import rasterize
from recon4d.types import Camera, Cameras, Splats

WIDTH, HEIGHT = 64, 48
DEGREE = 3
INSTANT_S = 0.55
"""The instant of the first step: between the times at which Gaussians begin and end, so that many are fading."""
STATIC, DYNAMIC = 220, 180
_MOVING, _DURATION_S = 0.05, 1.0
"""Change in some channel over time from which a pixel counts as moving."""
_RING, _TIMES = 5, 6


def off_centre() -> Camera:
    """A camera whose axis does not pass through the middle of its picture."""
    K = np.array([[55.0, 0.0, 25.3], [0.0, 58.0, 28.1], [0.0, 0.0, 1.0]])
    pose = look_at(np.array([0.3, -2.0, 1.2]), np.array([-0.1, 0.0, 0.1]))
    return Camera(name="off centre", width=WIDTH, height=HEIGHT, K=K, T_cam_world=pose)


def cloud(seed: int) -> Gaussians4D:
    """Translucent Gaussians in front of ``off_centre``: long and thin in all directions, some on the move, some fading,
    with harmonics of every band. Raw parameters on the CPU."""
    rng, count = np.random.default_rng([seed, 1]), STATIC + DYNAMIC
    columns = {
        "mean": rng.uniform(-0.6, 0.6, (count, 3)) * [1.0, 0.7, 0.6] + [0.0, 0.0, 0.2],
        "quat": rng.normal(size=(count, 4)),
        "log_scale": np.log(0.035) + rng.normal(0.0, 0.7, (count, 3)),
        "logit_opacity": rng.normal(0.3, 1.5, (count, 1)).clip(-4.0, 3.5),
        "sh_dc": rng.uniform(-1.6, 1.9, (count, 3)),
        "sh_rest": rng.normal(0.0, 0.2, (count, 3 * ((DEGREE + 1) ** 2 - 1))),
        "velocity": rng.normal(0.0, 0.3, (count, 3)),
        "center": rng.uniform(0.2, 0.9, (count, 1)),
        "log_radius": np.log(rng.uniform(0.03, 0.15, (count, 1))),
        "log_tail": np.log(rng.uniform(0.08, 0.3, (count, 1))),
    }
    return _model(columns, STATIC)


def opaque(splats: Splats) -> Splats:
    """The same with full opacity and twice as wide: alpha meets its clamp, and the order of depths decides all."""
    return replace(splats, scales=splats.scales * 2.0, opacities=torch.ones_like(splats.opacities))


@dataclass(frozen=True)
class Lesson:
    """What the short training is given."""

    start: Gaussians4D
    """On the CPU; to be copied."""
    cameras: tuple[Camera, ...]
    """One a picture."""
    times_s: tuple[float, ...]
    """One a picture."""
    targets: Tensor
    """[pictures, H, W, 3] uint8."""
    moving: Tensor
    """[pictures, H, W] bool."""
    order: tuple[int, ...]
    """In which the pictures are looked at."""


def lesson(seed: int) -> Lesson:
    """A patterned bench and a heap that crosses it, as the reference draws them, and a poor first guess."""
    rng = np.random.default_rng([seed, 2])
    truth, start = _bench(rng)
    cameras, times_s = [], []
    for time_s in np.linspace(0.05, 0.95, _TIMES) * _DURATION_S:
        for camera in _ring():
            cameras.append(camera)
            times_s.append(float(time_s))
    pictures = []
    with torch.no_grad():
        for camera, time_s in zip(cameras, times_s, strict=True):
            drawn = rasterize(truth.at(time_s), Cameras.of(camera), backend="reference", outputs=("rgb",))
            assert drawn.rgb is not None
            pictures.append((drawn.rgb[0].clamp(0, 1) * 255).round().to(torch.uint8))
    targets = torch.stack(pictures)
    over_time = targets.reshape(_TIMES, _RING, HEIGHT, WIDTH, 3).float() / 255
    moves = (over_time.amax(0) - over_time.amin(0)).amax(-1) > _MOVING  # [cameras, H, W]
    return Lesson(
        start=start,
        cameras=tuple(cameras),
        times_s=tuple(times_s),
        targets=targets,
        moving=moves[None].expand(_TIMES, -1, -1, -1).reshape(-1, HEIGHT, WIDTH),
        order=tuple(rng.permutation(len(cameras)).tolist()),
    )


def _ring() -> list[Camera]:
    cameras = []
    for i in range(_RING):
        azimuth = 2 * np.pi * i / _RING + 0.3
        centre = np.array([1.1 * np.cos(azimuth), 1.1 * np.sin(azimuth), 0.8 + 0.05 * i])
        K = np.array([[60.0, 0.0, WIDTH / 2 + i - 2.0], [0.0, 60.0, HEIGHT / 2 - 0.4], [0.0, 0.0, 1.0]])
        pose = look_at(centre, np.array([0.0, 0.0, 0.05]))
        cameras.append(Camera(name=f"ring {i}", width=WIDTH, height=HEIGHT, K=K, T_cam_world=pose))
    return cameras


def _bench(rng: np.random.Generator) -> tuple[Gaussians4D, Gaussians4D]:
    """The truth, and where the fit starts: displaced, grey, half transparent and at rest."""
    side, heap = 13, 40
    grid = np.stack(np.meshgrid(*[np.linspace(-0.6, 0.6, side)] * 2), -1).reshape(-1, 2)
    ground = np.concatenate([grid + rng.normal(0, 0.01, grid.shape), np.zeros((len(grid), 1))], 1)
    ball = rng.normal((-0.05, 0.05, 0.12), 0.075, (heap, 3))
    means, count = np.concatenate([ground, ball]), len(ground) + heap
    colours = np.concatenate([0.9 * np.sin(ground @ rng.normal(0, 7, (3, 3))), rng.uniform(0.2, 1.7, (heap, 3))])
    columns = {
        "mean": means,
        "quat": rng.normal(size=(count, 4)),
        "log_scale": np.log(np.where(np.arange(count)[:, None] < len(ground), 0.05, 0.03))
        + rng.normal(0, 0.3, (count, 3)),
        "logit_opacity": rng.uniform(1.0, 4.0, (count, 1)),
        "sh_dc": colours,
        "sh_rest": rng.normal(0.0, 0.03, (count, 3 * ((DEGREE + 1) ** 2 - 1))),
        "velocity": np.tile([0.45, -0.2, 0.0], (count, 1)),
        "center": np.full((count, 1), 0.5),
        "log_radius": np.full((count, 1), np.log(0.5)),
        "log_tail": np.full((count, 1), np.log(0.2)),
    }
    guess = columns | {
        "mean": means + rng.normal(0.0, 0.01, means.shape),
        "log_scale": columns["log_scale"] + rng.normal(0.0, 0.1, (count, 3)),
        "logit_opacity": np.ones((count, 1)),
        "sh_dc": 0.4 * colours,
        "sh_rest": 0.0 * columns["sh_rest"],
        "velocity": 0.0 * columns["velocity"],
    }
    return _model(columns, len(ground)), _model(guess, len(ground))


def _model(columns: dict[str, np.ndarray], static: int) -> Gaussians4D:
    layout = Layout(DEGREE)
    params = torch.zeros(len(columns["mean"]), layout.width)
    for name, values in columns.items():
        params[:, layout.columns[name]] = torch.from_numpy(np.asarray(values, np.float32))
    params[:static, layout.temporal] = 0.0
    return Gaussians4D(params, static, DEGREE)
