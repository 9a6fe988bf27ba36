"""Seeds of what stands still, on the surfaces that the views agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import torch
from scipy.spatial.transform import Rotation

from recon4d.geometry import SH_C0
from recon4d.points._rays import ray_directions
from recon4d.points._stereo import match_views
from recon4d.points._surface import facing
from recon4d.points._workspace import Workspace
from recon4d.types import Camera, StaticPool

_SPACING = 0.75  # Standard deviation of a seed, as a share of the distance between seeds in the image.
_SEED_OPACITY = 0.5
_THICKNESS = 0.5  # Of a disc on a flat surface, as a share of its width.
_SETTLED = 0.3  # Weight from which a median is the picture of a surface.
_CALM = 0.5  # Mean weight of the surroundings without which a settled pixel may be of something that moves.
_SURROUNDINGS = 1 / 40  # Their reach, as a share of the image's width.


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
) -> tuple[StaticPool, np.ndarray]:
    """Seeds spread evenly over every view's pixels, at the depths that dense matching finds.

    Args:
        views: the training cameras' median images.
        count: how many Gaussians in all.

    Returns:
        ``count`` Gaussians, discs on flat surfaces and balls elsewhere, about as wide as their distance from each
        other in the image they came from; and [C] float64 exposures of mean 1, how bright each view shows what
        others see, too. The Gaussians' colours are those at an exposure of 1.
    """
    cameras = [view.camera for view in views]
    found = match_views(cameras, [view.image for view in views], workspace)
    shares = np.array([camera.width * camera.height for camera in cameras], np.float64)
    counts = np.diff(np.round(np.cumsum(np.concatenate([[0.0], shares / shares.sum()])) * count).astype(int))
    parts = [
        _seed(replace(view, image=view.image / np.float32(exposure)), depths, _still(view, sure), int(n), rng)
        for view, depths, sure, exposure, n in zip(
            views, found.depths, found.sure, found.exposures, counts, strict=True
        )
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return _pool(columns, sh_degree), found.exposures


def _still(view: StaticView, sure: np.ndarray) -> np.ndarray:
    """[H, W] bool: pixels of sure depth, and settled ones in calm surroundings.

    A moving thing that covers a pixel all the time looks settled there, too; but all around it there is motion, and
    the other views find no surface. Its seeds would lie on the far wall.
    """
    camera = view.camera
    row = np.arange(camera.height) * sure.shape[0] // camera.height
    column = np.arange(camera.width) * sure.shape[1] // camera.width
    size = 2 * max(1, round(_SURROUNDINGS * camera.width)) + 1
    calm = cv2.blur(view.weight, (size, size), borderType=cv2.BORDER_REPLICATE)
    settled = (view.weight > _SETTLED) & (calm > _CALM)
    return (view.weight > 0) & (settled | sure[row[:, None], column])


def _seed(
    view: StaticView, depths: np.ndarray, usable: np.ndarray, count: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Columns of one view's seeds."""
    camera = view.camera
    u, v = _spread_pixels(usable, count, rng)
    row, column = v * depths.shape[0] // camera.height, u * depths.shape[1] // camera.width
    depth = depths[row, column]
    surface = facing(camera.resized(depths.shape[1], depths.shape[0]), depths, row, column)
    width = _SPACING * np.sqrt(camera.width * camera.height / max(count, 1)) * depth / camera.K[0, 0]
    shape = np.stack([surface.stretch, np.ones(len(u)), np.where(surface.flat, _THICKNESS, 1.0)], -1)
    return {
        "means": camera.center_w + depth[:, None] * ray_directions(camera, u, v),
        "axes": surface.axes,
        "scales": width[:, None] * shape,
        "colors": view.image[v, u],
    }


def _spread_pixels(usable: np.ndarray, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spread pixels (u, v) among the usable ones [H, W]; among all when none is."""
    cumulative = np.cumsum(usable.ravel() | ~usable.any())
    steps = (np.arange(count) + rng.random(count)) / max(count, 1)
    flat = np.searchsorted(cumulative, steps * cumulative[-1], side="right").clip(0, usable.size - 1)
    return (flat % usable.shape[1]).astype(np.int32), (flat // usable.shape[1]).astype(np.int32)


def _pool(columns: dict[str, np.ndarray], sh_degree: int) -> StaticPool:
    n = len(columns["means"])
    sh = np.zeros((n, (sh_degree + 1) ** 2, 3), np.float32)
    sh[:, 0] = (columns["colors"] - 0.5) / SH_C0
    quats = Rotation.from_matrix(columns["axes"]).as_quat(scalar_first=True)
    return StaticPool(
        means=torch.from_numpy(columns["means"].astype(np.float32)),
        quats=torch.from_numpy(quats.astype(np.float32)),
        scales=torch.from_numpy(columns["scales"].astype(np.float32)),
        opacities=torch.full((n,), _SEED_OPACITY),
        sh=torch.from_numpy(sh),
    )
