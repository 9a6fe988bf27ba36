"""The block's path, and the arm that follows it.

The tool comes down on the block, carries it along an arc while lifting and turning it, puts it down, and leaves. All of
it is scripted: positions are functions of time, the joints follow by inverse kinematics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

BASE_XY_M = np.array([-0.34, 0.0])
SHOULDER_HEIGHT_M = 0.20
UPPER_ARM_M = 0.32
FOREARM_M = 0.32
TOOL_M = 0.11
"""From the wrist down to the suction cup's mouth."""
BLOCK_SIZE_M = np.array([0.10, 0.075, 0.07])


def smooth_step(x: float) -> float:
    """Minimum-jerk ramp from 0 to 1: velocity and acceleration vanish at both ends (Flash and Hogan 1985)."""
    x = min(max(x, 0.0), 1.0)
    return x**3 * (10 - 15 * x + 6 * x * x)


@dataclass(frozen=True, kw_only=True)
class Motion:
    """Where block and arm are at any time on the original clock."""

    seconds: float
    radii_m: tuple[float, float]
    """Distance from the arm's base to the block at the start and at the end."""
    azimuths_rad: tuple[float, float]
    """Direction from the base to the block, likewise."""
    yaws_rad: tuple[float, float]
    """The block's own heading in the world, likewise."""
    lift_m: float

    @property
    def grasp_s(self) -> float:
        return 0.12 * self.seconds

    @property
    def release_s(self) -> float:
        return 0.84 * self.seconds

    def block(self, t: float) -> tuple[np.ndarray, float]:
        """The block's centre [3] in metres and its yaw in radians."""
        s = smooth_step((t - self.grasp_s) / (self.release_s - self.grasp_s))
        radius, azimuth, yaw = (a + s * (b - a) for a, b in (self.radii_m, self.azimuths_rad, self.yaws_rad))
        xy = BASE_XY_M + radius * np.array([np.cos(azimuth), np.sin(azimuth)])
        return np.array([*xy, BLOCK_SIZE_M[2] / 2 + self.lift_m * np.sin(np.pi * s) ** 2]), yaw

    def T_world_block(self, t: float) -> np.ndarray:
        """[4, 4] block to world."""
        position, yaw = self.block(t)
        T = np.eye(4)
        T[:2, :2] = [[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]]
        T[:3, 3] = position
        return T

    def joints(self, t: float) -> np.ndarray:
        """[5] joint angles in radians: base yaw, shoulder, elbow, wrist (pitch, positive is down), tool yaw."""
        position, yaw = self.block(t)
        before = 1 - smooth_step(t / self.grasp_s)
        after = smooth_step((t - self.release_s) / (self.seconds - self.release_s))
        tip = position + np.array([0.0, 0.0, BLOCK_SIZE_M[2] / 2 + 0.07 * before + 0.09 * after])
        swing = np.sign(self.azimuths_rad[1] - self.azimuths_rad[0]) * 0.25 * after
        offset = tip[:2] - BASE_XY_M
        azimuth = np.arctan2(offset[1], offset[0]) + swing
        shoulder, elbow = _two_link(float(np.hypot(*offset)), float(tip[2]) + TOOL_M - SHOULDER_HEIGHT_M)
        return np.array([azimuth, shoulder, elbow, np.pi / 2 - shoulder - elbow, yaw - azimuth])


def _two_link(reach: float, height: float) -> tuple[float, float]:
    """Shoulder and elbow pitch (positive is down) that bring the wrist to (reach, height), elbow up."""
    distance = float(np.hypot(reach, height))
    if distance >= UPPER_ARM_M + FOREARM_M:
        raise ValueError(f"the wrist's target is {distance:.3f} m away; the arm reaches {UPPER_ARM_M + FOREARM_M} m")
    bend = np.arccos((distance**2 - UPPER_ARM_M**2 - FOREARM_M**2) / (2 * UPPER_ARM_M * FOREARM_M))
    inner = np.arctan2(FOREARM_M * np.sin(bend), UPPER_ARM_M + FOREARM_M * np.cos(bend))
    return float(-np.arctan2(height, reach) - inner), float(bend)


def draw_motion(rng: Generator, seconds: float) -> Motion:
    """A random arc of 0.26 to 0.36 m in front of the arm, either way round."""
    way = rng.choice([-1.0, 1.0])
    start = rng.uniform(0.28, 0.42)
    yaw = rng.uniform(-np.pi, np.pi)
    turn = rng.choice([-1.0, 1.0]) * np.deg2rad(rng.uniform(45, 90))
    return Motion(
        seconds=seconds,
        radii_m=(float(rng.uniform(0.36, 0.46)), float(rng.uniform(0.38, 0.50))),
        azimuths_rad=(-way * start, way * (rng.uniform(0.66, 0.80) - start)),
        yaws_rad=(yaw, yaw + turn),
        lift_m=float(rng.uniform(0.03, 0.07)),
    )
