"""Which viewpoints the capture supports: what a camera sees, and how far it is from those that were trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from recon4d.types import Camera, StaticPool
from simbridge.bundle._config import EnvelopeConfig
from simbridge.bundle._draw import draw, smaller

HOLE_ALPHA = 0.5
"""A pixel that is less opaque than this is a hole."""
_LONGEST_PX = 96


def envelope(
    pool: StaticPool, cameras: Sequence[Camera], trained: Sequence[Camera], config: EnvelopeConfig, seed: int
) -> dict[str, Any]:
    """By camera: mean alpha and share of holes at its place and at worst when randomised; the angle at what it looks at
    between it and the nearest training camera.

    Args:
        pool: all splats in the world.
        cameras: where they stand at home.
        trained: the cameras that the scene was fitted to, in the same world.
        config: how cameras are randomised.
        seed: of the draws.
    """
    draws = np.random.default_rng(seed)
    by_camera = {}
    for camera in cameras:
        variants = [camera, *(shaken(camera, config, draws) for _ in range(config.samples))]
        facts = [_seen(pool, variant, trained) for variant in variants]
        by_camera[camera.name] = {
            **facts[0],
            "worst": {
                "coverage": min(fact["coverage"] for fact in facts),
                "holes": max(fact["holes"] for fact in facts),
                "angle_rad": None if not trained else max(fact["angle_rad"] for fact in facts),
            },
        }
    return {"version": 1, "randomisation": asdict(config), "cameras": by_camera}


def shaken(camera: Camera, config: EnvelopeConfig, draws: np.random.Generator) -> Camera:
    """The camera at a random place and turn within the range."""
    T = camera.T_world_cam
    T[:3, 3] += draws.uniform(-config.position_m, config.position_m, 3)
    turn = Rotation.from_euler("xyz", draws.uniform(-config.rotation_rad, config.rotation_rad, 3))
    T[:3, :3] = T[:3, :3] @ turn.as_matrix()
    return Camera.from_json({**camera.to_json(), "T_cam_world": np.linalg.inv(T)})


def _seen(pool: StaticPool, camera: Camera, trained: Sequence[Camera]) -> dict[str, Any]:
    output = draw(pool, smaller(camera, _LONGEST_PX), (0.0, 0.0, 0.0))
    assert output.alpha is not None
    assert output.depth is not None
    alpha, depth = output.alpha[0].numpy(), output.depth[0].numpy()
    solid = depth[alpha > HOLE_ALPHA]
    distance = float(np.median(solid)) if solid.size else 1.0
    return {
        "coverage": float(alpha.mean()),
        "holes": float((alpha < HOLE_ALPHA).mean()),
        "angle_rad": nearest_angle(camera, trained, distance) if trained else None,
    }


def nearest_angle(camera: Camera, trained: Sequence[Camera], distance_m: float) -> float:
    """Angle (rad) between the camera and the nearest trained one, seen from the point ``distance_m`` before it."""
    target = camera.center_w + distance_m * camera.forward_w
    own = (camera.center_w - target) / np.linalg.norm(camera.center_w - target)
    others = np.stack([other.center_w - target for other in trained])
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    return float(np.arccos(np.clip((others @ own).max(), -1, 1)))
