"""Surfaces of MuJoCo's primitive geoms as discs, in the geom's frame.

Discs overlap (``OVERLAP``), so they reach beyond where their centres lie. Rows next to an edge are drawn back by
``EDGE_ROWS`` of their spacing and ``EDGE_PX`` pixels, flat faces sink by ``SINK_PX`` pixels (the rasterizer dilates
even a disc that is seen edge-on), bent ones by ``BEND_PX`` and by what flat discs stick out of them. So silhouettes,
where alpha passes one half, lie on the geom's own. The constants were found against ray casts of boxes, spheres and
cylinders.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simbridge.mjcf._options import Density

OVERLAP = 0.7
"""Standard deviation of a disc, in units of the distance to its neighbours: alpha stays above 0.97 between them."""
EDGE_ROWS = 0.95
EDGE_PX = 0.55
SINK_PX = 0.5
BEND_PX = 1.15
_GOLDEN = np.pi * (3 - np.sqrt(5))


@dataclass(frozen=True, kw_only=True)
class Surface:
    """N discs. Tangents are unit and orthogonal to the unit normals, which point outwards."""

    points: np.ndarray
    """[N, 3] metres."""
    normals: np.ndarray
    tangents: np.ndarray
    """[N, 3] the disc's first axis."""
    sigmas: np.ndarray
    """[N, 2] standard deviations along the tangent and along normal x tangent, metres."""
    uv: np.ndarray | None = None
    """[N, 2] texture coordinates, where the geom has its own."""


def joined(parts: list[Surface]) -> Surface:
    """One surface of several, none of which has texture coordinates."""
    return Surface(
        points=np.concatenate([part.points for part in parts]),
        normals=np.concatenate([part.normals for part in parts]),
        tangents=np.concatenate([part.tangents for part in parts]),
        sigmas=np.concatenate([part.sigmas for part in parts]),
    )


def tangents_of(normals: np.ndarray) -> np.ndarray:
    """[N, 3] some unit vectors orthogonal to unit normals, the same for the same normals."""
    helper = np.where(np.abs(normals[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]])
    tangents = np.cross(helper, normals)
    return tangents / np.linalg.norm(tangents, axis=1, keepdims=True)


def sink(density: Density, thinnest_m: float, bend_m: float | None = None) -> float:
    """How far a surface is drawn inwards, metres: never more than 0.6 of the geom's smallest half size."""
    depth = SINK_PX * density.pixel_m
    if bend_m is not None:
        depth = BEND_PX * density.pixel_m + density.step_m**2 / (6 * bend_m)
    return min(depth, 0.6 * thinnest_m)


def rows(half_m: float, density: Density) -> tuple[np.ndarray, float]:
    """Positions of rows across a strip of this half width with an edge at both sides, and their spacing."""
    width = 2 * half_m
    clear = max(width - 2 * EDGE_PX * density.pixel_m, 0.1 * width)
    count = max(int(np.ceil(clear / density.step_m - 2 * EDGE_ROWS)), 0)
    spacing = clear / (count + 2 * EDGE_ROWS)
    return (np.arange(count + 1) - count / 2) * spacing, spacing


def plane(size: np.ndarray, density: Density) -> Surface:
    """A plane; half sizes of zero are cropped."""
    half_x, half_y = (float(value) if value > 0 else density.plane_half_m for value in size[:2])
    return _rectangle(half_x, half_y, np.eye(3), 0.0, density)


def box(size: np.ndarray, density: Density) -> Surface:
    """Six faces."""
    faces = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            u, v = (axis + 1) % 3, (axis + 2) % 3
            frame = np.zeros((3, 3))
            frame[u, 0], frame[v, 1], frame[axis, 2] = 1.0, sign, sign
            depth = float(size[axis]) - sink(density, float(size[axis]))
            faces.append(_rectangle(float(size[u]), float(size[v]), frame, depth, density))
    return joined(faces)


def sphere(radius_m: float, density: Density) -> Surface:
    """A sphere, by a Fibonacci lattice."""
    inner = radius_m - sink(density, radius_m, radius_m)
    normals = _lattice(_count(inner, density), 1.0, -1.0)
    return _round(inner * normals, normals, density)


def cylinder(radius_m: float, half_m: float, density: Density) -> Surface:
    """A side and two caps."""
    z, spacing = rows(half_m, density)
    caps = [_cap(radius_m, sign, half_m - sink(density, half_m), density) for sign in (1.0, -1.0)]
    return joined([_side(radius_m, radius_m, z, spacing, density), *caps])


def capsule(radius_m: float, half_m: float, density: Density) -> Surface:
    """A side and two half spheres."""
    inner = radius_m - sink(density, radius_m, radius_m)
    count = max(int(np.ceil(2 * half_m / density.step_m)), 1)
    z = ((np.arange(count) + 0.5) / count * 2 - 1) * half_m
    ends = []
    for sign in (1.0, -1.0):
        normals = _lattice(_count(inner, density) // 2, sign, 0.0)
        ends.append(_round(inner * normals + [0.0, 0.0, sign * half_m], normals, density))
    return joined([_side(radius_m, radius_m, z, 2 * half_m / count, density), *ends])


def _rectangle(half_u: float, half_v: float, frame: np.ndarray, depth_m: float, density: Density) -> Surface:
    """A rectangle in the plane of the frame's first two columns, ``depth_m`` along its third."""
    (u, du), (v, dv) = rows(half_u, density), rows(half_v, density)
    grid = np.stack(np.meshgrid(u, v, indexing="ij"), -1).reshape(-1, 2)
    points = np.concatenate([grid, np.full((len(grid), 1), depth_m)], axis=1) @ frame.T
    return Surface(
        points=points,
        normals=np.tile(frame[:, 2], (len(grid), 1)),
        tangents=np.tile(frame[:, 0], (len(grid), 1)),
        sigmas=np.tile([OVERLAP * du, OVERLAP * dv], (len(grid), 1)),
    )


def _side(radius_m: float, bend_m: float, z: np.ndarray, spacing_m: float, density: Density) -> Surface:
    """The side of a cylinder about z: a ring of discs at each height, every other one turned by half a step."""
    inner = radius_m - sink(density, radius_m, bend_m)
    count = max(int(np.ceil(2 * np.pi * inner / density.step_m)), 8)
    turns = (np.arange(count)[None] + 0.5 * (np.arange(len(z)) % 2)[:, None]) * (2 * np.pi / count)
    heights = np.repeat(z, count)
    angle = turns.reshape(-1)
    normals = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], -1)
    along = 2 * np.pi * inner / count
    return Surface(
        points=inner * normals + np.stack([np.zeros_like(angle), np.zeros_like(angle), heights], -1),
        normals=normals,
        tangents=np.stack([-np.sin(angle), np.cos(angle), np.zeros_like(angle)], -1),
        sigmas=np.tile([OVERLAP * along, OVERLAP * spacing_m], (len(angle), 1)),
    )


def _cap(radius_m: float, sign: float, height_m: float, density: Density) -> Surface:
    """A round face at z = sign * height, as concentric rings."""
    clear = max(radius_m - EDGE_PX * density.pixel_m, 0.1 * radius_m)
    count = max(int(np.ceil(clear / density.step_m - EDGE_ROWS)), 0)
    spacing = clear / (count + EDGE_ROWS)
    points, sigmas = [np.zeros((1, 2))], [np.full((1, 2), OVERLAP * spacing)]
    for ring in range(1, count + 1):
        around = int(np.ceil(2 * np.pi * ring))
        angle = (np.arange(around) + 0.5 * (ring % 2)) * (2 * np.pi / around)
        points.append(ring * spacing * np.stack([np.cos(angle), np.sin(angle)], -1))
        sigmas.append(np.full((around, 2), OVERLAP * spacing))
    flat = np.concatenate(points)
    normals = np.tile([0.0, 0.0, sign], (len(flat), 1))
    return Surface(
        points=np.concatenate([flat, np.full((len(flat), 1), sign * height_m)], axis=1),
        normals=normals,
        tangents=tangents_of(normals),
        sigmas=np.concatenate(sigmas),
    )


def _count(radius_m: float, density: Density) -> int:
    return max(int(np.ceil(4 * np.pi * (radius_m / density.step_m) ** 2)), 24)


def _lattice(count: int, top: float, bottom: float) -> np.ndarray:
    """[count, 3] unit vectors evenly over the zone of the sphere between two heights."""
    z = top + (bottom - top) * (np.arange(count) + 0.5) / count
    angle = _GOLDEN * np.arange(count)
    radius = np.sqrt(1 - z * z)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], -1)


def _round(points: np.ndarray, normals: np.ndarray, density: Density) -> Surface:
    return Surface(
        points=points,
        normals=normals,
        tangents=tangents_of(normals),
        sigmas=np.full((len(points), 2), OVERLAP * density.step_m),
    )
