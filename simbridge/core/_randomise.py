"""What differs from episode to episode beside the task's own beginning."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from scipy.spatial.transform import Rotation

from recon4d.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Randomisation:
    """Half-widths of what is drawn at the beginning of each episode, uniformly and from its seed. 0 leaves it as it is.

    Moving a fixed camera makes its picture differ from world to world, so that nothing of it can be shared.
    """

    camera_shift_m: float = 0.0
    """Of a camera's place, along each of its axes."""
    camera_turn_deg: float = 0.0
    """Of its direction, about each of its axes."""
    focal_share: float = 0.0
    """Of its focal length."""
    exposure_share: float = 0.0
    """Of its exposure."""
    mass_share: float = 0.0
    """Of the mass and inertia of every object."""
    friction_share: float = 0.0
    """Of the sliding friction of every geom."""
    latency_steps: int = 0
    """Largest number of control steps by which pictures are late; drawn from 0 to this."""
    noise: float = 0.0
    """Standard deviation of each pixel's noise, in [0, 1]; drawn for every picture."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"randomisation.{entry.name} must be at least 0; it is {value}")
        for name in ("focal_share", "exposure_share", "mass_share", "friction_share"):
            if getattr(self, name) >= 1:
                raise ConfigError(f"randomisation.{name} must be below 1; it is {getattr(self, name)}")

    @property
    def moves_cameras(self) -> bool:
        """Whether cameras that stand still look different from world to world."""
        return max(self.camera_shift_m, self.camera_turn_deg, self.focal_share) > 0


@dataclass(frozen=True, kw_only=True)
class CameraDraw:
    """One camera in one episode."""

    T_cam_moved: np.ndarray
    """[4, 4] from the moved camera's frame to the bundle's camera's."""
    focal: float
    """Factor on the focal lengths."""
    exposure: float


@dataclass(frozen=True, kw_only=True)
class Draw:
    """All that was drawn for one episode."""

    cameras: tuple[CameraDraw, ...]
    mass: float
    friction: float
    latency: int


def draw(config: Randomisation, cameras: int, rng: np.random.Generator) -> Draw:
    """Draws an episode. The same numbers are drawn whatever the widths, so that one does not change another."""
    drawn = []
    for _ in range(cameras):
        shift, turn = rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3)
        T = np.eye(4)
        T[:3, :3] = Rotation.from_rotvec(np.deg2rad(config.camera_turn_deg * turn)).as_matrix()
        T[:3, 3] = config.camera_shift_m * shift
        focal, exposure = rng.uniform(-1, 1, 2)
        drawn.append(
            CameraDraw(
                T_cam_moved=T, focal=1 + config.focal_share * focal, exposure=1 + config.exposure_share * exposure
            )
        )
    mass, friction = rng.uniform(-1, 1, 2)
    return Draw(
        cameras=tuple(drawn),
        mass=1 + config.mass_share * mass,
        friction=1 + config.friction_share * friction,
        latency=int(rng.integers(0, config.latency_steps + 1)),
    )
