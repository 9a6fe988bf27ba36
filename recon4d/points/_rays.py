"""Pixel rays and look-ups shared by the static and the dynamic depth search."""

from __future__ import annotations

import numpy as np

from recon4d.types import Camera


def ray_directions(camera: Camera, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """World directions [n, 3] of the rays through pixel centres (u, v), scaled to camera-z 1."""
    y = (v + 0.5 - camera.K[1, 2]) / camera.K[1, 1]
    x = (u + 0.5 - camera.K[0, 2]) / camera.K[0, 0]
    return (np.stack([x, y, np.ones_like(x)], -1) @ camera.T_cam_world[:3, :3]).astype(np.float32)


def pixels_of(camera: Camera, points_w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Column, row (clamped into the image) and visibility of world points [..., 3]."""
    T = camera.T_cam_world.astype(np.float32)
    points_cam = points_w @ T[:3, :3].T + T[:3, 3]
    z = points_cam[..., 2]
    safe = np.where(z > 0.01, z, np.float32(1))
    u = points_cam[..., 0] / safe * np.float32(camera.K[0, 0]) + np.float32(camera.K[0, 2])
    v = points_cam[..., 1] / safe * np.float32(camera.K[1, 1]) + np.float32(camera.K[1, 2])
    seen = (z > 0.01) & (u >= 0) & (u < camera.width) & (v >= 0) & (v < camera.height)
    column = np.clip(u, 0, camera.width - 1).astype(np.int32)
    row = np.clip(v, 0, camera.height - 1).astype(np.int32)
    return column, row, seen


def stratified_depths(near_m: float, far_m: float, count: int, rays: int, rng: np.random.Generator) -> np.ndarray:
    """[rays, count] float32 ascending depths, uniform in inverse depth, one random shift a ray."""
    steps = (np.arange(count, dtype=np.float32)[None] + rng.random((rays, 1), np.float32)) / count
    return (1 / (1 / near_m + steps * (1 / far_m - 1 / near_m))).astype(np.float32)
