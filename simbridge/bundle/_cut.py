"""Taking things out of the background."""

from __future__ import annotations

import numpy as np
import torch

from recon4d.types import StaticPool
from simbridge.bundle._config import BoxConfig, CutConfig
from simbridge.bundle._transform import selected


def cut(pool: StaticPool, cuts: tuple[CutConfig, ...]) -> tuple[StaticPool, tuple[int, ...]]:
    """The pool without what the cuts take, and how many splats each took."""
    means, keep, counts = pool.means.double().numpy(), np.ones(len(pool), bool), []
    for entry in cuts:
        inside = in_box(means, entry.box) if entry.box is not None else _beyond(means, entry.half_space)
        counts.append(int((keep & inside).sum()))
        keep &= ~inside
    return selected(pool, torch.from_numpy(keep)), tuple(counts)


def in_box(points: np.ndarray, box: BoxConfig) -> np.ndarray:
    """[N] bool."""
    c, s = np.cos(box.yaw_rad), np.sin(box.yaw_rad)
    local = (points - np.asarray(box.center)) @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    return (np.abs(local) <= np.asarray(box.size) / 2).all(axis=1)


def _beyond(points: np.ndarray, plane: tuple[float, float, float, float] | None) -> np.ndarray:
    assert plane is not None  # A cut has one of the two.
    return np.asarray(points @ np.asarray(plane[:3]) + plane[3] > 0)
