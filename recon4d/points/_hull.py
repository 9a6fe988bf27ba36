"""Depth of moving pixels: the first colour-consistent point inside the visual hull."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recon4d.points._foreground import Foreground
from recon4d.points._rays import pixels_of, ray_directions, stratified_depths
from recon4d.points._workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class HullConfig:
    """Of the depth search."""

    depths: int = 64
    """Samples along a ray, even in inverse depth."""
    refinements: int = 13
    """Samples between the neighbours of the chosen one, in a second pass."""
    tolerance: float = 0.03
    """Of the samples whose mean colour difference is within this of the best, the nearest one is taken."""
    below_plane: float = 0.02
    """How far below the bench plane a point may lie, as a share of the workspace's distance."""
    neighbours_px: float = 40.0
    """Over which distance in the image a pixel that only one camera sees takes over a neighbour's depth."""


def hull_depths(
    foreground: Foreground,
    camera: int,
    frame: int,
    u: np.ndarray,
    v: np.ndarray,
    workspace: Workspace,
    config: HullConfig,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Depths of the foreground pixels (u, v) of one frame.

    A point is possible where every other camera either does not see it or sees something move there (visual
    hull, Laurentini 1994; with many cameras, one may disagree). Among the points that another camera sees, the
    nearest one whose colour agrees about best is taken. A pixel without such a point takes the middle of its
    possible stretch, drawn towards the depth of the nearest pixel that has one.

    Returns:
        depth: [n] float64 camera-z metres.
        found: [n] bool, whether any point was possible.
    """
    clip = foreground.clips[camera]
    rays = _Rays(
        camera=camera,
        time_s=float(clip.times[frame]),
        origin=clip.camera.center_w.astype(np.float32),
        directions=ray_directions(clip.camera, u, v),
        color=clip.frames[frame][v, u].astype(np.float32) / 255,
    )
    coarse = stratified_depths(workspace.near_m, workspace.reach_m, config.depths, len(u), rng)
    index, has_support, found = _first_agreeing(foreground, workspace, config, rays, coarse)
    rows = np.arange(len(u))
    around = [coarse[rows, (index + step).clip(0, config.depths - 1)] for step in (-1, 1)]
    share = np.linspace(0, 1, config.refinements, dtype=np.float32)
    fine = 1 / ((1 - share) / around[0][:, None] + share / around[1][:, None])
    refined, still, _ = _first_agreeing(foreground, workspace, config, rays, fine)
    depth = np.where(has_support & still, fine[rows, refined], coarse[rows, index]).astype(np.float64)
    return _draw_to_neighbours(depth, has_support, u, v, config.neighbours_px * clip.camera.width / 480), found


@dataclass(frozen=True)
class _Rays:
    """Pixel rays of one frame; n rows."""

    camera: int
    time_s: float
    origin: np.ndarray
    directions: np.ndarray
    """[n, 3], camera-z 1."""
    color: np.ndarray
    """[n, 3] in [0, 1]."""


def _first_agreeing(
    foreground: Foreground, workspace: Workspace, config: HullConfig, rays: _Rays, depths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of ascending depths [n, D]: the chosen index, whether another camera supports it, whether any is possible."""
    points = rays.origin + rays.directions[:, None] * depths[..., None]  # [n, D, 3]
    possible, support, cost = _agreement(foreground, rays, points)
    possible &= workspace.height_above_plane(points) > -config.below_plane * workspace.distance_m
    supported = possible & (support > 0)
    mean_cost = np.where(supported, cost / np.maximum(support, 1), np.inf)
    first = (supported & (mean_cost <= mean_cost.min(1, keepdims=True) + config.tolerance)).argmax(1)
    has_support = np.asarray(supported.any(1))
    count = possible.sum(1)
    middle = (possible.cumsum(1) >= ((count + 1) // 2)[:, None]).argmax(1)
    return np.where(has_support, first, middle), has_support, count > 0


def _agreement(foreground: Foreground, rays: _Rays, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of points [n, D, 3]: whether the other cameras allow them, how many see them moving, summed colour difference."""
    shape = points.shape[:2]
    seen_by = np.zeros(shape, np.int16)
    support = np.zeros(shape, np.int16)
    cost = np.zeros(shape, np.float32)
    for other, clip in enumerate(foreground.clips):
        if other == rays.camera:
            continue
        frame = clip.nearest(rays.time_s)
        column, row, seen = pixels_of(clip.camera, points)
        moving = seen & (foreground.dilated(other, frame)[row, column] > 0)
        difference = np.abs(clip.frames[frame][row, column] * np.float32(1 / 255) - rays.color[:, None]).mean(-1)
        seen_by += seen
        support += moving
        cost += np.where(moving, difference, 0)
    disagree = seen_by - support
    return disagree <= seen_by // 5, support, cost


def _draw_to_neighbours(
    depth: np.ndarray, has_support: np.ndarray, u: np.ndarray, v: np.ndarray, reach_px: float
) -> np.ndarray:
    lone, known = np.flatnonzero(~has_support), np.flatnonzero(has_support)
    if len(lone) == 0 or len(known) < 4:
        return depth
    squared = (u[lone, None] - u[known]) ** 2.0 + (v[lone, None] - v[known]) ** 2.0
    weight = np.exp(-np.sqrt(squared.min(1)) / reach_px)
    depth = depth.copy()
    depth[lone] += weight * (depth[known[squared.argmin(1)]] - depth[lone])
    return depth
