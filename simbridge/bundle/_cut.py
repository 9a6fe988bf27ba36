"""Taking things out of the background, and covering the bench where they stood."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import KDTree

from recon4d.errors import ConfigError
from recon4d.types import StaticPool
from simbridge.bundle._config import BoxConfig, CutConfig
from simbridge.bundle._transform import joined, selected

_PATCH_STEP_M = 0.01
_RING_M = 0.12
"""How far around a footprint colours are taken from."""
_NEIGHBOURS = 24


def cut(pool: StaticPool, cuts: tuple[CutConfig, ...]) -> tuple[StaticPool, tuple[int, ...]]:
    """The pool without what the cuts take, and how many splats each took."""
    means, keep, counts = pool.means.double().numpy(), np.ones(len(pool), bool), []
    for entry in cuts:
        inside = in_box(means, entry.box) if entry.box is not None else _beyond(means, entry.half_space)
        counts.append(int((keep & inside).sum()))
        keep &= ~inside
    rest = selected(pool, torch.from_numpy(keep))
    patches = [_patch(rest, entry.box) for entry in cuts if entry.patch and entry.box is not None]
    return joined([rest, *patches]), tuple(counts)


def _patch(pool: StaticPool, box: BoxConfig) -> StaticPool:
    """Discs on z = 0 in the box's footprint, coloured like the bench around it.

    Raises:
        ConfigError: there is no bench around the footprint.
    """
    means = pool.means.double().numpy()
    wide = BoxConfig(center=(*box.center[:2], 0.0), yaw_rad=box.yaw_rad, size=_around(box))
    ring = np.flatnonzero(in_box(means, wide) & (pool.opacities.numpy() > 0.3))
    if len(ring) < _NEIGHBOURS:
        raise ConfigError(f"the cut at {box.center} cannot have a patch: only {len(ring)} splats of the bench are near")
    u, v = (np.arange(-edge / 2, edge / 2 + _PATCH_STEP_M, _PATCH_STEP_M) for edge in box.size[:2])
    flat = np.stack(np.meshgrid(u, v, indexing="ij"), -1).reshape(-1, 2)
    c, s = np.cos(box.yaw_rad), np.sin(box.yaw_rad)
    spots = np.zeros((len(flat), 3))
    spots[:, :2] = flat @ np.array([[c, s], [-s, c]]) + box.center[:2]
    index = KDTree(means[ring, :2]).query(spots[:, :2], k=_NEIGHBOURS)[1]
    sh = torch.zeros(len(spots), *pool.sh.shape[1:])
    # The median: a line drawn on the bench that ends at the thing should not colour the whole patch.
    sh[:, 0] = pool.sh[torch.from_numpy(ring[index]), 0].median(dim=1).values
    return StaticPool(
        means=torch.tensor(spots, dtype=torch.float32),
        quats=torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(len(spots), 1),
        scales=torch.tensor([[0.8, 0.8, 0.05]]).repeat(len(spots), 1) * _PATCH_STEP_M,
        opacities=torch.full((len(spots),), 0.95),
        sh=sh,
    )


def _around(box: BoxConfig) -> tuple[float, float, float]:
    return box.size[0] + 2 * _RING_M, box.size[1] + 2 * _RING_M, 2 * _PATCH_STEP_M


def in_box(points: np.ndarray, box: BoxConfig) -> np.ndarray:
    """[N] bool."""
    c, s = np.cos(box.yaw_rad), np.sin(box.yaw_rad)
    local = (points - np.asarray(box.center)) @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    return np.all(np.abs(local) <= np.asarray(box.size) / 2, axis=1)


def _beyond(points: np.ndarray, plane: tuple[float, float, float, float] | None) -> np.ndarray:
    assert plane is not None  # A cut has one of the two.
    height: np.ndarray = points @ np.asarray(plane[:3], np.float64) + plane[3]
    return np.greater(height, 0)
