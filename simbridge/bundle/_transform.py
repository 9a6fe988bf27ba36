"""Splats under similarity transforms: means, rotations, scales, and harmonics that turn along."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from recon4d.geometry import sh_basis
from recon4d.types import StaticPool

_DIRECTIONS = 64


def moved(pool: StaticPool, T: np.ndarray, scale: float = 1.0) -> StaticPool:
    """The pool in another frame: x' = T (scale x), with spherical harmonics turned.

    Args:
        pool: splats.
        T: [4, 4] rigid transform, applied after the scale.
        scale: positive factor on lengths.
    """
    R = T[:3, :3]
    means = scale * pool.means.double().numpy() @ R.T + T[:3, 3]
    turned = Rotation.from_matrix(R) * Rotation.from_quat(pool.quats.double().numpy()[:, [1, 2, 3, 0]])
    return StaticPool(
        means=torch.tensor(means, dtype=torch.float32),
        quats=torch.tensor(turned.as_quat()[:, [3, 0, 1, 2]], dtype=torch.float32),
        scales=pool.scales * scale,
        opacities=pool.opacities,
        sh=rotated_sh(pool.sh, R),
    )


def rotated_sh(sh: Tensor, R: np.ndarray) -> Tensor:
    """Harmonics [N, K, 3] of a thing after it was turned: the colour seen along R d is what was seen along d."""
    degree = int(sh.shape[1] ** 0.5) - 1
    if degree == 0:
        return sh
    # Harmonics up to a degree are closed under rotation: their values on enough directions fix the matrix exactly.
    draw = np.random.default_rng(0).normal(size=(_DIRECTIONS, 3))
    directions = torch.from_numpy(draw / np.linalg.norm(draw, axis=1, keepdims=True))
    before = sh_basis(directions @ torch.tensor(R, dtype=torch.float64), degree)
    matrix = torch.linalg.lstsq(sh_basis(directions, degree), before).solution
    return torch.einsum("ij,njc->nic", matrix.to(sh.dtype), sh)


def with_degree(pool: StaticPool, coefficients: int) -> StaticPool:
    """The pool with its harmonics padded with zeros."""
    missing = coefficients - pool.sh.shape[1]
    padding = pool.sh.new_zeros(len(pool), max(missing, 0), 3)
    return StaticPool(**{**vars(pool), "sh": torch.cat([pool.sh, padding], dim=1)})


def selected(pool: StaticPool, keep: Tensor) -> StaticPool:
    """Some of the pool's splats."""
    return StaticPool(**{name: value[keep] for name, value in vars(pool).items()})


def joined(pools: list[StaticPool]) -> StaticPool:
    """One pool of several with equal degrees."""
    return StaticPool(**{name: torch.cat([getattr(pool, name) for pool in pools]) for name in vars(pools[0])})


def bench_transform(plane: np.ndarray, scale: float) -> np.ndarray:
    """T_bench_scene [4, 4], after the scale: the plane becomes z = 0, its normal +z, by the shortest turn; x and y of
    the point of the plane nearest to the origin become 0 only by that turn."""
    normal = plane[:3] / np.linalg.norm(plane[:3])
    up = np.array([0.0, 0.0, 1.0])
    axis = np.cross(normal, up)
    sine, cosine = float(np.linalg.norm(axis)), float(normal[2])
    if sine < 1e-12:
        turn = Rotation.identity() if cosine > 0 else Rotation.from_rotvec([np.pi, 0.0, 0.0])
    else:
        turn = Rotation.from_rotvec(axis / sine * np.arctan2(sine, cosine))
    T = np.eye(4)
    T[:3, :3] = turn.as_matrix()
    T[2, 3] = scale * plane[3] / np.linalg.norm(plane[:3])
    return T
