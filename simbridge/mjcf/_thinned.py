"""Surfaces without a regular grid (ellipsoids, meshes): many samples, thinned until none is too near another."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from simbridge.mjcf._options import Density
from simbridge.mjcf._surface import (
    EDGE_PX,
    EDGE_ROWS,
    OVERLAP,
    Surface,
    sink,
    tangents_of,
)

_FINE = 2
"""Samples along the distance that is aimed at between neighbours."""
_RADIUS = 0.75
"""No two that stay are nearer than this, in steps; they then are about 0.9 steps apart on average."""
_SHARP = np.cos(np.deg2rad(35.0))
"""Faces whose normals differ by more meet in an edge; by less, they are facets of something round."""
EDGE_SHARP_PX = 0.5
_FLAT = np.cos(np.deg2rad(1.0))


def ellipsoid(size: np.ndarray, density: Density) -> Surface:
    """An ellipsoid with these half axes."""
    bend = float(size.min()) ** 2 / float(size.max())
    inner = size - sink(density, float(size.min()), bend)
    count = int(np.ceil(4 * np.pi * (float(size.max()) / density.step_m * _FINE) ** 2)) + 100
    z = 1 - 2 * (np.arange(count) + 0.5) / count
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(count)
    unit = np.stack([np.sqrt(1 - z * z) * np.cos(angle), np.sqrt(1 - z * z) * np.sin(angle), z], -1)
    points, normals = unit * inner, unit / inner
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return _discs(points, normals, thin(points, normals, _RADIUS * density.step_m), density)


def mesh(vertices: np.ndarray, faces: np.ndarray, uv: np.ndarray | None, density: Density) -> Surface:
    """A triangle mesh.

    Args:
        vertices: [V, 3] metres.
        faces: [F, 3] indices, counter-clockwise seen from outside.
        uv: [F, 3, 2] texture coordinates of each face's corners, or None.
        density: sizes.
    """
    corners = vertices[faces]
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(cross, axis=1)
    keep = area > 1e-14
    corners, cross, area = corners[keep], cross[keep], area[keep]
    uv = uv[keep] if uv is not None else None
    face_normals = cross / area[:, None]
    face, weights = _samples(corners, density.step_m / _FINE / 2)
    points = np.einsum("nk,nkd->nd", weights, corners[face])
    normals = face_normals[face]

    thinnest = float(np.ptp(vertices, axis=0).min()) / 2
    fine_m = density.step_m / 2
    inset = min(EDGE_PX * density.pixel_m + EDGE_ROWS * fine_m, 0.6 * thinnest)
    edges, margins, bent = _edges(corners, face_normals, inset / 8)
    # Where two faces meet, the rasterizer dilates the rows of both: the more so, the sharper the edge.
    margins = np.minimum(EDGE_SHARP_PX * density.pixel_m * margins, inset)
    distance = np.full(len(points), np.inf)
    if len(edges):
        distance, nearest = KDTree(edges).query(points)
        distance -= margins[nearest]
    chosen, fine = _choose(points, normals, distance, inset, density.step_m)
    surface = _discs(points, normals, chosen, density)
    depth = sink(density, thinnest, thinnest if bent else None)
    return Surface(
        points=surface.points - depth * surface.normals,
        normals=surface.normals,
        tangents=surface.tangents,
        sigmas=np.where(fine[:, None], 0.5, 1.0) * surface.sigmas,
        uv=np.einsum("nk,nkd->nd", weights[chosen], uv[face[chosen]]) if uv is not None else None,
    )


def thin(points: np.ndarray, normals: np.ndarray, radius_m: float) -> np.ndarray:
    """Indices of a largest set of points in which no two that face one way are nearer than the radius.

    Points go first to last, in rounds: those that come before all of their neighbours stay, these neighbours go.
    """
    pairs = KDTree(points).query_pairs(radius_m, output_type="ndarray")
    pairs = pairs[np.einsum("nd,nd->n", normals[pairs[:, 0]], normals[pairs[:, 1]]) > 0.5]
    # An order in which neighbours are far apart takes few rounds; a fixed seed keeps it the same.
    order = np.random.default_rng(0).permutation(len(points))
    undecided, stays = np.ones(len(points), bool), np.zeros(len(points), bool)
    while undecided.any():
        first = undecided.copy()
        later = np.where(order[pairs[:, 0]] > order[pairs[:, 1]], pairs[:, 0], pairs[:, 1])
        first[later] = False
        stays |= first
        undecided &= ~first
        undecided[pairs[first[pairs[:, 0]], 1]] = False
        undecided[pairs[first[pairs[:, 1]], 0]] = False
        pairs = pairs[undecided[pairs].all(axis=1)]
    return np.flatnonzero(stays)


def _choose(
    points: np.ndarray, normals: np.ndarray, distance: np.ndarray, inset_m: float, step_m: float
) -> tuple[np.ndarray, np.ndarray]:
    """Samples to keep, and which of them are next to an edge, where they lie twice as densely.

    None is nearer to an edge (``distance``) than the inset, except where a face is too narrow for that.
    """
    radius_m = _RADIUS * step_m
    # The row next to the edge first: the silhouette depends on it.
    border = np.flatnonzero((distance >= inset_m) & (distance < inset_m + step_m / _FINE / 2))
    zone = np.flatnonzero((distance >= inset_m) & (distance < inset_m + step_m))
    inner = np.flatnonzero(distance >= inset_m + step_m)
    near = np.flatnonzero(distance < inset_m)
    fine = border[thin(points[border], normals[border], radius_m / 2)]
    fine = _add(fine, zone, points, normals, radius_m / 2, radius_m / 2)
    fine = _add(fine, near, points, normals, radius_m / 2, 4 * inset_m + radius_m)
    chosen = _add(fine, inner, points, normals, radius_m, 0.75 * radius_m)
    return chosen, np.arange(len(chosen)) < len(fine)


def _add(
    chosen: np.ndarray, more: np.ndarray, points: np.ndarray, normals: np.ndarray, radius_m: float, clear_m: float
) -> np.ndarray:
    """The chosen, and of the others those that no chosen one of their side is near."""
    if len(chosen) and len(more):
        found = KDTree(points[chosen]).query(points[more], k=min(8, len(chosen)), distance_upper_bound=clear_m)[1]
        found = found.reshape(len(more), -1)
        there = found < len(chosen)
        facing = np.einsum("nkd,nd->nk", normals[chosen[np.where(there, found, 0)]], normals[more])
        more = more[~(there & (facing > 0.5)).any(axis=1)]
    if not len(more):
        return chosen
    return np.concatenate([chosen, more[thin(points[more], normals[more], radius_m)]])


def _samples(corners: np.ndarray, step_m: float) -> tuple[np.ndarray, np.ndarray]:
    """Face index [N] and barycentric weights [N, 3] of a triangular lattice in each face."""
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    parts = np.maximum(np.ceil(longest / step_m).astype(int), 1)
    faces, weights = [], []
    for count in np.unique(parts):
        i, j = np.meshgrid(np.arange(count), np.arange(count), indexing="ij")
        inside = i + j < count
        third = 1 / 3
        lattice = np.stack([(i[inside] + third) / count, (j[inside] + third) / count], -1)
        lattice = np.concatenate([lattice, 1 - lattice.sum(axis=1, keepdims=True)], axis=1)
        members = np.flatnonzero(parts == count)
        faces.append(np.repeat(members, len(lattice)))
        weights.append(np.tile(lattice, (len(members), 1)))
    return np.concatenate(faces), np.concatenate(weights)


def _edges(corners: np.ndarray, normals: np.ndarray, step_m: float) -> tuple[np.ndarray, np.ndarray, bool]:
    """Edges where the surface ends or bends sharply outwards, and whether it bends outwards elsewhere.

    Returns:
        points along these edges [N, 3]; 1 minus the cosine between the faces that meet there [N], 0 at an open end.
    """
    flat = corners.reshape(-1, 3)
    scale = float(np.ptp(flat, axis=0).max())
    _, welded = np.unique(np.round(flat / (1e-6 * scale)), axis=0, return_inverse=True)
    index = welded.reshape(-1, 3)
    edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for face, triangle in enumerate(index.tolist()):
        for side in range(3):
            key = tuple(sorted((triangle[side], triangle[(side + 1) % 3])))
            edges.setdefault(key, []).append((face, side))  # type: ignore[arg-type]
    lines, margins, bent = [np.zeros((0, 3))], [np.zeros(0)], False
    for members in edges.values():
        (face, side), (other, its_side) = members[0], members[-1]
        start, end = corners[face, side], corners[face, (side + 1) % 3]
        cosine = 1.0
        if len(members) == 2:
            opposite = corners[other, (its_side + 2) % 3]
            outwards = float(normals[face] @ (opposite - start)) < 0
            cosine = float(normals[face] @ normals[other])
            bent |= outwards and _SHARP < cosine < _FLAT
            if cosine > _SHARP or not outwards:
                continue
        count = max(int(np.ceil(np.linalg.norm(end - start) / step_m)), 1)
        lines.append(start + np.linspace(0, 1, count + 1)[:, None] * (end - start))
        margins.append(np.full(count + 1, 1 - cosine))
    return np.concatenate(lines), np.concatenate(margins), bent


def _discs(points: np.ndarray, normals: np.ndarray, chosen: np.ndarray, density: Density) -> Surface:
    return Surface(
        points=points[chosen],
        normals=normals[chosen],
        tangents=tangents_of(normals[chosen]),
        sigmas=np.full((len(chosen), 2), OVERLAP * density.step_m),
    )
