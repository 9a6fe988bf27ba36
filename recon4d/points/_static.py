"""Seeds of what stands still, on the surfaces that the views agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from recon4d.geometry import SH_C0
from recon4d.points._rays import ray_directions
from recon4d.points._stereo import depth_maps
from recon4d.points._workspace import Workspace
from recon4d.types import Camera, StaticPool

_SPACING = 0.75  # Standard deviation of a seed, as a share of the distance between seeds in the image.
_SEED_OPACITY = 0.5
_SETTLED = 0.3  # Weight from which a median is the picture of a surface.


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
    """Seeds spread evenly over every view's pixels, at the depths that dense matching finds.

    Args:
        views: the training cameras' median images.
        count: how many Gaussians in all.

    Returns:
        ``count`` round Gaussians, about as wide as their distance from each other in the image they came from.
    """
    cameras = [view.camera for view in views]
    maps = depth_maps(cameras, [view.image for view in views], workspace)
    shares = np.array([camera.width * camera.height for camera in cameras], np.float64)
    counts = np.diff(np.round(np.cumsum(np.concatenate([[0.0], shares / shares.sum()])) * count).astype(int))
    means, colors, sizes = [], [], []
    for view, (depths, sure), n in zip(views, maps, counts, strict=True):
        camera = view.camera
        row = np.arange(camera.height) * depths.shape[0] // camera.height
        column = np.arange(camera.width) * depths.shape[1] // camera.width
        # Where things keep moving the median may be of no surface at all: only depths that are sure are seeded.
        usable = (view.weight > 0) & ((view.weight > _SETTLED) | sure[row[:, None], column])
        u, v = _spread_pixels(usable, int(n), rng)
        depth = depths[row[v], column[u]]
        means.append(camera.center_w + depth[:, None] * ray_directions(camera, u, v))
        colors.append(view.image[v, u])
        sizes.append(_SPACING * np.sqrt(camera.width * camera.height / max(n, 1)) * depth / camera.K[0, 0])
    return _pool(np.concatenate(means), np.concatenate(colors), np.concatenate(sizes), sh_degree, rng)


def _spread_pixels(usable: np.ndarray, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spread pixels (u, v) among the usable ones [H, W]; among all when none is."""
    cumulative = np.cumsum(usable.ravel() | ~usable.any())
    steps = (np.arange(count) + rng.random(count)) / max(count, 1)
    flat = np.searchsorted(cumulative, steps * cumulative[-1], side="right").clip(0, usable.size - 1)
    return (flat % usable.shape[1]).astype(np.int32), (flat // usable.shape[1]).astype(np.int32)


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
