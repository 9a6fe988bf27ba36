"""Whether poses and pictures belong together, told by what lies flat on the bench.

Each camera's picture is laid out on the bench plane by its pose, as if seen from above (the homography that a plane
induces: Hartley and Zisserman, Multiple View Geometry, 2004, chapter 13). Where the poses are right, the same spot of
the bench looks the same in every layout, however far apart the cameras are; features need not match between views. Two
layouts are compared by their normalised cross-correlation over masked pixels (Padfield 2012), for all small shifts at
once: a high value without a shift means that the two poses agree, one at a shift says by how much they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import cv2
import numpy as np

from recon4d.capture.poses._views import View
from recon4d.geometry import project
from recon4d.types import Camera

_CELLS = 256
"""Of a layout, to a side."""
_REACH = 48
"""Cells: the largest shift that is tried."""
_PADDED = 320
"""At least _CELLS + _REACH, so that shifts do not wrap around; a fast length of Fourier transforms."""
_TEXTURE_CELLS = 8.0
"""Light and shade wider than this are taken out: they differ between views of a shiny bench."""
_LEAST_SHARED = 0.03
"""Of a layout's cells, that two cameras must both see to be compared."""
_GRAZING = 6.0
"""Points of the bench farther off than this many times the camera's height over it are seen too flat to compare."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """How well two cameras' pictures of the bench agree."""

    a: str
    b: str
    similarity: float
    """Correlation without a shift, -1 to 1."""
    peak: float
    """The largest correlation at any shift."""
    sureness: float
    """The peak in standard deviations of the correlation over all shifts; chance stays under about 3.5."""
    shift_cells: tuple[int, int]
    """Where the peak is: what ``a`` sees at a place of the bench, ``b`` sees this much farther along its two axes."""
    cell_m: float
    pixel_cells: float
    """About how many cells a pixel of the coarser picture is wide, at least 1."""

    @property
    def distance_cells(self) -> float:
        return float(np.hypot(*self.shift_cells))

    @property
    def distance_m(self) -> float:
        return self.distance_cells * self.cell_m

    def shift_of(self, name: str) -> np.ndarray:
        """[2] cells by which the camera sees the bench farther along than the other of the two."""
        return np.array(self.shift_cells) * (1 if name == self.b else -1)


def compare(views: Sequence[View], cameras: Sequence[Camera], plane: np.ndarray) -> list[Pair]:
    """Compares each two cameras that see enough of the bench in common.

    Args:
        views: Their pictures.
        cameras: Their poses, as they are to be tried; in the order of the views.
        plane: [4] float64, the bench.
    """
    grid = _grid(cameras, plane)
    if grid is None:
        return []
    cells_w, cell_m = grid
    layouts = [_Layout(view, camera, cells_w) for view, camera in zip(views, cameras, strict=True)]
    pairs = (_pair(a, b, cell_m) for a, b in combinations(layouts, 2))
    return [pair for pair in pairs if pair is not None]


def _grid(cameras: Sequence[Camera], plane: np.ndarray) -> tuple[np.ndarray, float] | None:
    """The part of the bench to lay out: [N, N, 3] points of the world and the cells' size; None when none is seen."""
    origin, x, y = axes_of(plane)
    seen = [footprint(camera, plane) for camera in cameras]
    if sum(len(points) > 0 for points in seen) < 2:
        return None
    flat = (np.concatenate(seen) - origin) @ np.stack([x, y], -1)
    centre = np.median(flat, axis=0)
    size = 2 * float(np.percentile(np.abs(flat - centre).max(-1), 60))
    if size <= 0:
        return None
    steps = ((np.arange(_CELLS) + 0.5) / _CELLS - 0.5) * size
    a, b = np.meshgrid(centre[0] + steps, centre[1] + steps)
    return origin + a[..., None] * x + b[..., None] * y, size / _CELLS


def axes_of(plane: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The point of a plane nearest the world's origin, and two axes [3] in it, the first along the world's x."""
    normal = plane[:3]
    x = np.array([1.0, 0.0, 0.0]) if abs(normal[0]) < 0.9 else np.array([0.0, 1.0, 0.0])
    x -= (x @ normal) * normal
    x /= np.linalg.norm(x)
    return -plane[3] * normal, x, np.cross(normal, x)


def footprint(camera: Camera, plane: np.ndarray, steps: int = 24) -> np.ndarray:
    """[M, 3] points of the plane along a grid of the camera's rays, grazing ones left out."""
    u, v = np.meshgrid(np.linspace(0, camera.width, steps), np.linspace(0, camera.height, steps))
    rays_cam = np.stack([u, v, np.ones_like(u)], -1).reshape(-1, 3) @ np.linalg.inv(camera.K).T
    rays_w = rays_cam @ camera.T_cam_world[:3, :3]
    height = float(plane[:3] @ camera.center_w + plane[3])
    slope = rays_w @ plane[:3]
    depth = -height / np.where(slope == 0, np.inf, slope)
    reached = (depth > 0) & (depth * np.linalg.norm(rays_w, axis=-1) < _GRAZING * abs(height))
    return camera.center_w + depth[reached, None] * rays_w[reached]


class _Layout:
    """One camera's picture laid out on the bench, with what correlating it needs."""

    def __init__(self, view: View, camera: Camera, cells_w: np.ndarray) -> None:
        self.name = view.name
        self.width = camera.width
        pixels, _ = project(cells_w, camera.K, camera.T_cam_world)
        inside = (pixels >= 1).all(-1) & (pixels <= [camera.width - 1, camera.height - 1]).all(-1)
        u, v = (np.where(inside, pixels[..., i] - 0.5, -1).astype(np.float32) for i in (0, 1))
        # Whoever moves about is in one of three pictures at most, and not in their median.
        still = np.median(np.stack(view.pictures), axis=0).astype(np.float32).mean(-1)
        seen = inside & (cv2.remap(view.valid.astype(np.float32), u, v, cv2.INTER_LINEAR) > 0.99)
        weight = seen.astype(np.float32)
        texture = _texture(cv2.remap(still, u, v, cv2.INTER_LINEAR), weight)
        self.spectra = tuple(np.fft.rfft2(part, (_PADDED, _PADDED)) for part in (texture, texture**2, weight))


def _texture(layout: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Fine detail, of the same strength everywhere; 0 where nothing is seen."""

    def around(values: np.ndarray) -> np.ndarray:
        weight = cv2.GaussianBlur(seen, (0, 0), _TEXTURE_CELLS)
        return cv2.GaussianBlur(values * seen, (0, 0), _TEXTURE_CELLS) / np.maximum(weight, 1e-3)

    detail = cv2.GaussianBlur(layout - around(layout), (0, 0), 1.0)
    return detail / (np.sqrt(around(detail**2)) + 2.0) * seen  # Two levels of 255 are noise, and stay small.


def _pair(a: _Layout, b: _Layout, cell_m: float) -> Pair | None:
    (fa, fa2, fma), (fb, fb2, fmb) = a.spectra, b.spectra
    shared = _correlate(fma, fmb)
    middle = _REACH, _REACH
    if shared[middle] < _LEAST_SHARED * _CELLS**2:
        return None
    energy = _correlate(fa2, fmb) * _correlate(fma, fb2)
    correlation = _correlate(fa, fb) / np.sqrt(np.maximum(energy, 1e-9))
    correlation[shared < 0.3 * shared[middle]] = 0
    peak = np.unravel_index(int(correlation.argmax()), correlation.shape)
    near = correlation[_REACH - 1 : _REACH + 2, _REACH - 1 : _REACH + 2]
    return Pair(
        a=a.name,
        b=b.name,
        similarity=float(near.max()),
        peak=float(correlation[peak]),
        sureness=float(correlation[peak] / (_spread(correlation) + 1e-9)),
        shift_cells=(int(peak[1]) - _REACH, int(peak[0]) - _REACH),
        cell_m=cell_m,
        pixel_cells=max(1.0, _CELLS / min(a.width, b.width)),
    )


def _spread(correlation: np.ndarray) -> float:
    """The standard deviation that the bulk of the values would have as a normal distribution."""
    return float(1.4826 * np.median(np.abs(correlation - np.median(correlation))))


def _correlate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[2 R + 1, 2 R + 1] sums of products for all shifts up to R cells, from spectra."""
    shifted = np.fft.irfft2(a.conj() * b, (_PADDED, _PADDED))
    reach = np.arange(-_REACH, _REACH + 1)
    return shifted[np.ix_(reach, reach)]
