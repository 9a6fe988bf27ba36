"""What the checks measure: planes in splats, boxes of bodies, insides of geoms."""

from __future__ import annotations

import mujoco
import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from recon4d.types import StaticPool

_TOLERANCE_M = 0.01
_TRIES = 400
_POINTS = 6000
_WITHIN_M = 0.8
"""Of the median of what is near the bench's origin: the room beyond has larger planes than the bench."""


def ground(pool: StaticPool, plane_z: float) -> tuple[float, float] | None:
    """Tilt (rad) and height above ``plane_z`` (m) of the background's bench.

    The physics plane is taken at its word where nearly as many splats lie on it as on the best plane; None where no
    plane holds a tenth of them.
    """
    keep = pool.opacities.numpy() > 0.3
    points = pool.means.double().numpy()[keep]
    if len(points) < 50:
        return None
    middle = np.median(points, axis=0)
    near = points[np.linalg.norm(points - middle, axis=1) < _WITHIN_M]
    points = near if len(near) >= 50 else points
    draws = np.random.default_rng(0)
    points = points[draws.permutation(len(points))[:_POINTS]]
    normal, offset, count = _best_plane(points, draws)
    own = np.abs(points[:, 2] - plane_z) < _TOLERANCE_M
    if count < 0.1 * len(points):
        return None
    if own.sum() > 0.6 * count:
        return 0.0, float(np.median(points[own, 2]) - plane_z)
    tilt = float(np.arccos(np.clip(abs(normal[2]), 0, 1)))
    height = float(-offset / normal[2] - plane_z) if abs(normal[2]) > 0.1 else 0.0
    return tilt, height


def _best_plane(points: np.ndarray, draws: np.random.Generator) -> tuple[np.ndarray, float, int]:
    """Normal, offset and count of the plane with most points, of many through three of them."""
    best = (np.array([0.0, 0.0, 1.0]), 0.0, 0)
    for _ in range(_TRIES):
        a, b, c = points[draws.integers(len(points), size=3)]
        normal = np.cross(b - a, c - a)
        length = float(np.linalg.norm(normal))
        if length < 1e-9:
            continue
        normal /= length
        count = int((np.abs((points - a) @ normal) < _TOLERANCE_M).sum())
        if count > best[2]:
            best = (normal, float(-normal @ a), count)
    return best


def thin_axes(pool: StaticPool, rows: np.ndarray, order: tuple[int, int, int, int]) -> np.ndarray:
    """[N, 3] the axis of least extent of some splats, their quaternions read in an order (indices of w, x, y, z)."""
    quats = pool.quats.double().numpy()[rows][:, list(order)]
    axes = Rotation.from_quat(quats[:, [1, 2, 3, 0]]).as_matrix()
    thinnest = pool.scales.numpy()[rows].argmin(axis=1)
    return axes[np.arange(len(axes)), :, thinnest]


def body_box(model: mujoco.MjModel, body: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Lower and upper corner of a body's own geoms, in its frame; None without geoms."""
    corners = []
    for geom in range(int(model.body_geomadr[body]), int(model.body_geomadr[body]) + int(model.body_geomnum[body])):
        center, half = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
        signs = np.stack(np.meshgrid([-1, 1], [-1, 1], [-1, 1], indexing="ij"), -1).reshape(-1, 3)
        local = center + signs * half
        corners.append(local @ _matrix(model.geom_quat[geom]).T + model.geom_pos[geom])
    if not corners:
        return None
    stacked = np.concatenate(corners)
    return stacked.min(axis=0), stacked.max(axis=0)


def inside_geom(model: mujoco.MjModel, data: mujoco.MjData, point_w: np.ndarray) -> str | None:
    """The geom that a point is inside of, with its body; None when there is none."""
    for geom in range(model.ngeom):
        local = (point_w - data.geom_xpos[geom]) @ data.geom_xmat[geom].reshape(3, 3)
        if _inside(model, geom, local):
            body = model.body(int(model.geom_bodyid[geom])).name
            return f"'{model.geom(geom).name or geom}' of body '{body}'"
    return None


def _inside(model: mujoco.MjModel, geom: int, p: np.ndarray) -> bool:
    kind, size = mujoco.mjtGeom(int(model.geom_type[geom])), model.geom_size[geom]
    match kind:
        case mujoco.mjtGeom.mjGEOM_PLANE:
            return bool(p[2] < 0 and all(h == 0 or abs(v) < h for v, h in zip(p[:2], size[:2], strict=True)))
        case mujoco.mjtGeom.mjGEOM_BOX:
            return bool((np.abs(p) < size).all())
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            return bool(np.linalg.norm(p) < size[0])
        case mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            return bool(np.linalg.norm(p / size) < 1)
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            return bool(np.hypot(p[0], p[1]) < size[0] and abs(p[2]) < size[1])
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            along = p - [0, 0, np.clip(p[2], -size[1], size[1])]
            return bool(np.linalg.norm(along) < size[0])
        case mujoco.mjtGeom.mjGEOM_MESH:
            index = int(model.geom_dataid[geom])
            first, count = int(model.mesh_vertadr[index]), int(model.mesh_vertnum[index])
            hull = ConvexHull(model.mesh_vert[first : first + count].astype(np.float64))
            return bool((hull.equations[:, :3] @ p + hull.equations[:, 3] < 0).all())
    return False


def _matrix(quat: np.ndarray) -> np.ndarray:
    flat = np.zeros(9)
    mujoco.mju_quat2Mat(flat, quat)
    return flat.reshape(3, 3)
