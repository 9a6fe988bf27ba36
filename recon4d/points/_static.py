"""Seeds of what stands still: the best matching depth along rays of the temporal-median images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch

from recon4d.geometry import SH_C0
from recon4d.points._rays import pixels_of, ray_directions, stratified_depths
from recon4d.points._workspace import Workspace
from recon4d.types import Camera, StaticPool

_DEPTHS = 64  # Even in inverse depth.
_REFINEMENTS = 13  # Between the neighbours of the best one.
_UNSEEN_COST = np.float32(0.25)
_PLANE_BONUS = 0.03  # Colour difference by which another depth must beat the bench plane.
_SEED_SIZE_PX = 1.5
_SEED_OPACITY = 0.27


@dataclass(frozen=True, kw_only=True)
class StaticView:
    """One camera's picture of what stands still."""

    camera: Camera
    image: np.ndarray
    """[H, W, 3] float32 in [0, 1], the temporal median."""
    weight: np.ndarray
    """[H, W] float32 in [0, 1], how far to trust it: near 0 where things keep moving or nothing was seen."""


def static_seeds(
    views: Sequence[StaticView], workspace: Workspace, *, count: int, sh_degree: int, rng: np.random.Generator
) -> StaticPool:
    """About one Gaussian per so many pixels of every view, at the depth where the other views agree on colour.

    A plane sweep along single rays (Collins 1996) over inverse depth, with the bench plane as one more
    candidate that others must clearly beat, for bare benches match everywhere.

    Args:
        views: the training cameras' median images.
        count: how many Gaussians in all.

    Returns:
        ``count`` round Gaussians, 1.5 pixels wide in the image they came from.
    """
    descriptors = [_descriptor(view.image) for view in views]
    shares = np.array([view.camera.width * view.camera.height for view in views], np.float64)
    counts = np.diff(np.round(np.cumsum(np.concatenate([[0.0], shares / shares.sum()])) * count).astype(int))
    means, colors, sizes = [], [], []
    for index, view in enumerate(views):
        u, v = _jittered_pixels(view, int(counts[index]), rng)
        depth = _best_depths(views, descriptors, index, u, v, workspace, rng)
        means.append(view.camera.center_w + depth[:, None] * ray_directions(view.camera, u, v))
        colors.append(view.image[v, u])
        sizes.append(
            _SEED_SIZE_PX
            * np.sqrt(view.camera.width * view.camera.height / max(counts[index], 1))
            * 0.5
            * depth
            / view.camera.K[0, 0]
        )
    return _pool(np.concatenate(means), np.concatenate(colors), np.concatenate(sizes), sh_degree, rng)


def _descriptor(image: np.ndarray) -> np.ndarray:
    """[H, W, 6]: the colour and its surroundings, so that single pixels do not match by chance."""
    return np.concatenate([cv2.GaussianBlur(image, (0, 0), 0.8), cv2.GaussianBlur(image, (0, 0), 2.5)], -1)


def _jittered_pixels(view: StaticView, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spread pixels (u, v), those of no weight left out."""
    chance = np.maximum(view.weight, 0.0).ravel().astype(np.float64)
    steps = (np.arange(count) + rng.random(count)) / count
    cumulative = np.cumsum(np.minimum(chance, 1.0) > 0.01)
    flat = np.searchsorted(cumulative, steps * cumulative[-1], side="right").clip(0, chance.size - 1)
    return (flat % view.camera.width).astype(np.int32), (flat // view.camera.width).astype(np.int32)


def _best_depths(
    views: Sequence[StaticView],
    descriptors: Sequence[np.ndarray],
    index: int,
    u: np.ndarray,
    v: np.ndarray,
    workspace: Workspace,
    rng: np.random.Generator,
) -> np.ndarray:
    """[n] float32 depths of the pixels (u, v) of view ``index``: coarse, then fine around the best, or the bench."""
    camera = views[index].camera
    directions = ray_directions(camera, u, v)
    mine = descriptors[index][v, u]
    rows = np.arange(len(u))

    def costs(depths: np.ndarray) -> np.ndarray:
        points = camera.center_w.astype(np.float32) + directions[:, None] * depths[..., None]  # [n, D, 3]
        return _disagreement(views, descriptors, index, points, mine)

    coarse = stratified_depths(workspace.near_m, workspace.far_m, _DEPTHS, len(u), rng)
    best = costs(coarse).argmin(1)
    below, above = (coarse[rows, (best + step).clip(0, _DEPTHS - 1)] for step in (-1, 1))
    share = np.linspace(0, 1, _REFINEMENTS, dtype=np.float32)
    fine = 1 / ((1 - share) / below[:, None] + share / above[:, None])
    fine_costs = costs(fine)
    best = fine_costs.argmin(1)
    on_plane = _plane_depths(camera, directions, workspace)
    plane_cost = np.where(on_plane < workspace.far_m, costs(on_plane[:, None])[:, 0] - _PLANE_BONUS, np.inf)
    return np.where(plane_cost <= fine_costs[rows, best], on_plane, fine[rows, best])


def _disagreement(
    views: Sequence[StaticView], descriptors: Sequence[np.ndarray], index: int, points: np.ndarray, mine: np.ndarray
) -> np.ndarray:
    """Of points [n, D, 3]: mean descriptor difference over the better half of the views that see them.

    The other half may be occluded. A point that nobody else sees is worse than any fair match.
    """
    others = [i for i in range(len(views)) if i != index]
    if not others:
        return np.full(points.shape[:2], _UNSEEN_COST, np.float32)
    costs = np.full((len(others), *points.shape[:2]), np.inf, np.float32)
    for slot, other in enumerate(others):
        column, row, seen = pixels_of(views[other].camera, points)
        difference = np.abs(descriptors[other][row, column] - mine[:, None]).mean(-1)
        costs[slot] = np.where(seen, difference, np.inf)
    costs.sort(0)
    half = (np.isfinite(costs).sum(0) + 1) // 2
    counted = np.arange(len(others))[:, None, None] < half
    total = np.where(counted, costs, 0).sum(0) / np.maximum(half, 1)
    return np.where(half > 0, total, _UNSEEN_COST)


def _plane_depths(camera: Camera, directions: np.ndarray, workspace: Workspace) -> np.ndarray:
    """[n] depth at which each ray meets the bench; far away where it does not."""
    if workspace.plane is None:
        return np.full(len(directions), 2 * workspace.far_m, np.float32)
    slope = directions @ workspace.plane[:3]
    height = camera.center_w @ workspace.plane[:3] + workspace.plane[3]
    depth = -height / np.where(np.abs(slope) > 1e-9, slope, 1e-9)
    return np.where(depth > workspace.near_m, depth, 2 * workspace.far_m).astype(np.float32)


def _pool(
    means: np.ndarray, colors: np.ndarray, sizes: np.ndarray, sh_degree: int, rng: np.random.Generator
) -> StaticPool:
    n = len(means)
    sh = np.zeros((n, (sh_degree + 1) ** 2, 3), np.float32)
    sh[:, 0] = (colors - 0.5) / SH_C0
    quats = rng.standard_normal((n, 4)).astype(np.float32)
    return StaticPool(
        means=torch.from_numpy(means.astype(np.float32)),
        quats=torch.from_numpy(quats / np.linalg.norm(quats, axis=1, keepdims=True)),
        scales=torch.from_numpy(np.repeat(sizes[:, None], 3, 1).astype(np.float32)),
        opacities=torch.full((n,), _SEED_OPACITY),
        sh=torch.from_numpy(sh),
    )
