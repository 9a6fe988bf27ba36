"""Which way the surfaces of a depth map face."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from recon4d.points._rays import ray_directions
from recon4d.types import Camera

_BLUR_PX = 3  # Positions are averaged over so many pixels before they are differenced.
_REACH_PX = 2  # Distance to the four neighbours that must lie on the tangent plane.
_UNEVEN = 0.5  # How far they may lie off it, as a share of their distance.
_STEEPEST = 2.0  # Largest stretch: a grazed surface is too uncertain for more.


@dataclass(frozen=True)
class Facing:
    """Of n pixels' surfaces."""

    axes: np.ndarray
    """[n, 3, 3] float64, rotations to the world: the columns are down the slope, across it, and the normal towards
    the camera."""
    stretch: np.ndarray
    """[n] how much longer a pixel's footprint is down the slope than across it; 1 where not flat."""
    flat: np.ndarray
    """[n] bool: the neighbourhood is a plane. Elsewhere (edges, noise) the axes mean nothing."""


def facing(camera: Camera, depths: np.ndarray, row: np.ndarray, column: np.ndarray) -> Facing:
    """How the surfaces at some pixels face their camera.

    Args:
        camera: of the depth map's own size.
        depths: [h, w] metres along the camera's z axis.
        row: [n] pixels of the map, as is ``column``.
    """
    v, u = np.mgrid[: camera.height, : camera.width]
    points = camera.center_w + depths[..., None] * ray_directions(camera, u, v).astype(np.float64)
    smooth = cv2.blur(points, (_BLUR_PX, _BLUR_PX), borderType=cv2.BORDER_REPLICATE)
    down, right = np.gradient(smooth, axis=(0, 1))
    normals = _unit(np.cross(right, down))
    uneven = _off_tangent(points, normals) > _UNEVEN * _REACH_PX * depths / camera.K[0, 0]

    sight = _unit(camera.center_w - points[row, column])
    normal = normals[row, column]
    normal *= np.where((normal * sight).sum(1, keepdims=True) < 0, -1, 1)
    cosine = (normal * sight).sum(1)
    across = _unit(np.cross(normal, sight) + 1e-9 * np.cross(normal, [0.48, 0.6, 0.64]))
    axes = np.stack([np.cross(across, normal), across, normal], -1)
    flat = ~uneven[row, column] & (np.abs(np.linalg.det(axes) - 1) < 1e-3)
    axes[~flat] = np.eye(3)
    return Facing(axes, np.where(flat, 1 / np.maximum(cosine, 1 / _STEEPEST), 1.0), flat)


def _off_tangent(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """[h, w] metres: the largest distance of the four neighbours from each pixel's tangent plane."""
    height, width = points.shape[:2]
    reach = _REACH_PX
    padded = np.pad(points, ((reach, reach), (reach, reach), (0, 0)), mode="edge")
    offsets = [(0, reach), (2 * reach, reach), (reach, 0), (reach, 2 * reach)]
    neighbours = [padded[v : v + height, u : u + width] for v, u in offsets]
    return np.max([np.abs(((neighbour - points) * normals).sum(-1)) for neighbour in neighbours], axis=0)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
