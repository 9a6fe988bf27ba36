"""Seeds of what moves: where, for how long and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from recon4d.errors import ConfigError, Stopped
from recon4d.events import OnEvent, Progress, ShouldStop, ignore, never
from recon4d.geometry import SH_C0
from recon4d.points._foreground import Foreground
from recon4d.points._hull import HullConfig, hull_depths
from recon4d.points._lifetimes import Runs, sample_runs
from recon4d.points._rays import ray_directions
from recon4d.points._velocity import Flows, scene_flow
from recon4d.points._workspace import Workspace
from recon4d.types import DynamicPool


@dataclass(frozen=True, kw_only=True)
class DynamicSeedConfig:
    """How many seeds, and what they begin as."""

    count: int = 60_000
    """Dynamic Gaussians in all."""
    change: float = 0.08
    """Largest channel change in [0, 1] between key frames at which a pixel still rests."""
    rest_frames: int = 4
    """Key frames over which a pixel must rest for its seed to live as long as the rest."""
    radius_s: float = 0.06
    """Flat radius of seeds that do not rest, seconds: with key frames at 10 Hz neighbours just meet."""
    tail_s: float = 0.10
    """Fading on either side, seconds."""
    beyond_s: float = 5.0
    """How far a rest that touches the clip's ends is continued, seconds."""
    size_px: float = 2.5
    """Standard deviation in the image that a seed came from, pixels, in an image 480 pixels wide."""
    opacity: float = 0.5
    flow_s: float = 0.1
    """Time between the two frames that give a velocity, seconds."""
    max_speed_m_s: float = 1.0
    """Faster flow is taken for a mismatch and scaled down to this."""

    def __post_init__(self) -> None:
        for name in ("count", "change", "rest_frames", "beyond_s"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"seeds.{name} is {getattr(self, name)}; it must be 0 or more")
        for name in ("radius_s", "tail_s", "size_px", "flow_s", "max_speed_m_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"seeds.{name} is {getattr(self, name)}; it must be positive")
        if not 0 < self.opacity < 1:
            raise ConfigError(f"seeds.opacity is {self.opacity}; it must lie between 0 and 1")


def dynamic_seeds(
    foreground: Foreground,
    key_frames: Sequence[np.ndarray],
    workspace: Workspace,
    *,
    config: DynamicSeedConfig,
    sh_degree: int,
    rng: np.random.Generator,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> DynamicPool:
    """Seeds along the rays of moving pixels, with life span, depth, colour and velocity.

    Args:
        foreground: masks of the training clips.
        key_frames: per clip, [F] frame indices to take seeds from, about 10 a second.
        workspace: where to look.

    Returns:
        At most ``config.count`` Gaussians; none when nothing moves.

    Raises:
        Stopped: on request.
    """
    cameras = range(len(foreground.clips))
    samples = [
        sample_runs(foreground, c, key_frames[c], threshold=config.change, count=int(1.2 * config.count), rng=rng)
        for c in cameras
    ]
    runs = Runs.concatenate(samples).top(int(1.15 * config.count))
    flows = Flows(foreground, gap_s=config.flow_s)
    seeder = _Seeder(foreground, flows, key_frames, workspace, config, runs, rng)
    parts: list[dict[str, np.ndarray]] = []
    groups = _by_frame(runs)
    for number, (camera, chosen, rows) in enumerate(groups):
        if should_stop():
            raise Stopped("stopped while seeding; rerun to start this stage again")
        parts.append(seeder.seed(camera, chosen, rows))
        if number % 20 == 0:
            on_event(Progress(stage="seeds", step=number, total=len(groups)))
    return _pool(parts, config, sh_degree, rng)


def _by_frame(runs: Runs) -> list[tuple[int, int, np.ndarray]]:
    """(camera, key-frame number, rows of ``runs``) of every frame that has seeds, roughly in order of time."""
    order = np.lexsort((runs.pixel, runs.camera, runs.chosen))
    if not len(order):
        return []
    camera, chosen = runs.camera[order], runs.chosen[order]
    cuts = np.flatnonzero((np.diff(camera) != 0) | (np.diff(chosen) != 0)) + 1
    return [(int(runs.camera[rows[0]]), int(runs.chosen[rows[0]]), rows) for rows in np.split(order, cuts)]


@dataclass(frozen=True)
class _Seeder:
    """Makes the seeds of one frame after the other."""

    foreground: Foreground
    flows: Flows
    key_frames: Sequence[np.ndarray]
    workspace: Workspace
    config: DynamicSeedConfig
    runs: Runs
    rng: np.random.Generator

    def seed(self, camera: int, chosen: int, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Columns of the seeds that some rows of ``runs``, all of one key frame, become."""
        clip, runs, config = self.foreground.clips[camera], self.runs, self.config
        frame = int(self.key_frames[camera][chosen])
        u, v = runs.pixel[rows] % clip.camera.width, runs.pixel[rows] // clip.camera.width
        depth, found = hull_depths(self.foreground, camera, frame, u, v, self.workspace, HullConfig(), self.rng)
        u, v, depth, rows = u[found], v[found], depth[found], rows[found]

        times = clip.times[self.key_frames[camera]]
        first, last = runs.first[rows], runs.last[rows]
        begin = times[first] - np.where(first == 0, config.beyond_s, 0)
        end = times[last] + np.where(last == len(times) - 1, config.beyond_s, 0)
        rests = last - first + 1 >= config.rest_frames
        points = clip.camera.center_w + depth[:, None] * ray_directions(clip.camera, u, v)
        velocities = scene_flow(self.foreground, self.flows, camera, frame, u, v, points)
        speed = np.linalg.norm(velocities, axis=1, keepdims=True)
        velocities *= np.minimum(1, config.max_speed_m_s / np.maximum(speed, 1e-9))
        velocities[rests] = 0
        return {
            "means": points,
            "colors": clip.frames[frame][v, u] / (255.0 * clip.camera.exposure),
            "sizes": config.size_px * clip.camera.width / 480 * depth / clip.camera.K[0, 0],
            "velocities": velocities,
            "centers_s": np.where(rests, (begin + end) / 2, clip.times[frame]),
            "radii_s": np.where(rests, (end - begin) / 2, config.radius_s),
        }


def _pool(
    parts: list[dict[str, np.ndarray]], config: DynamicSeedConfig, sh_degree: int, rng: np.random.Generator
) -> DynamicPool:
    shapes = {
        "means": (0, 3),
        "colors": (0, 3),
        "sizes": (0,),
        "velocities": (0, 3),
        "centers_s": (0,),
        "radii_s": (0,),
    }
    rows = {name: np.concatenate([np.zeros(shape), *(part[name] for part in parts)]) for name, shape in shapes.items()}
    keep = rng.permutation(len(rows["sizes"]))[: config.count]
    rows = {name: torch.from_numpy(np.ascontiguousarray(value[keep], np.float32)) for name, value in rows.items()}
    n = len(keep)
    sh = torch.zeros(n, (sh_degree + 1) ** 2, 3)
    sh[:, 0] = (rows["colors"] - 0.5) / SH_C0
    quats = torch.from_numpy(rng.standard_normal((n, 4)).astype(np.float32) * 0.1)
    quats[:, 0] += 1
    return DynamicPool(
        means=rows["means"],
        quats=torch.nn.functional.normalize(quats, dim=-1),
        scales=rows["sizes"][:, None].repeat(1, 3),
        opacities=torch.full((n,), config.opacity),
        sh=sh,
        velocities=rows["velocities"],
        centers_s=rows["centers_s"],
        radii_s=rows["radii_s"],
        tails_s=torch.full((n,), config.tail_s),
    )
