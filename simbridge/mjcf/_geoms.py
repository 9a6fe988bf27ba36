"""Every visible geom of a model, as splats of its body."""

from __future__ import annotations

from collections.abc import Callable, Collection

import mujoco
import numpy as np
import torch

from recon4d.events import OnEvent, Warned, ignore
from recon4d.geometry import SH_C0
from recon4d.types import StaticPool
from simbridge.errors import ModelError
from simbridge.mjcf import _paint, _surface, _thinned
from simbridge.mjcf._options import Density, Shade
from simbridge.mjcf._surface import OVERLAP, Surface
from simbridge.types import BodySplats

OPAQUE = 0.995
"""Opacity of a splat of an opaque geom: two of them hide what is behind."""
_FLATNESS = 0.05
"""Thickness of a disc, relative to its radius."""
_GEOM = mujoco.mjtGeom
_DENSITY, _SHADE = Density(), Shade()

_SURFACES: dict[int, Callable[[np.ndarray, Density], Surface]] = {
    int(_GEOM.mjGEOM_PLANE): _surface.plane,
    int(_GEOM.mjGEOM_BOX): _surface.box,
    int(_GEOM.mjGEOM_SPHERE): lambda size, density: _surface.sphere(float(size[0]), density),
    int(_GEOM.mjGEOM_CYLINDER): lambda size, density: _surface.cylinder(float(size[0]), float(size[1]), density),
    int(_GEOM.mjGEOM_CAPSULE): lambda size, density: _surface.capsule(float(size[0]), float(size[1]), density),
    int(_GEOM.mjGEOM_ELLIPSOID): _thinned.ellipsoid,
}


def geom_splats(
    model: mujoco.MjModel,
    *,
    density: Density = _DENSITY,
    shade: Shade | None = _SHADE,
    sh_degree: int = 0,
    groups: Collection[int] = (0, 1, 2),
    skip: Collection[str] = (),
    on_event: OnEvent = ignore,
) -> tuple[BodySplats, ...]:
    """Covers the visible surfaces of a model with flat discs.

    Args:
        model: the compiled model.
        density: how fine, and how large planes without end are.
        shade: light baked into the colours as the bodies stand initially; None leaves them as the materials say.
        sh_degree: degree of the harmonics that the splats have; those above 0 are zero.
        groups: geom groups that are drawn; 0, 1, 2 are those that MuJoCo shows at first.
        skip: bodies that are left out.
        on_event: warnings about what is not drawn, or not quite as MuJoCo draws it.

    Returns:
        One entry a body with visible geoms, in order of the bodies; splats in the body's frame. The same for the same
        arguments.

    Raises:
        ModelError: a visible geom, skin or flexible body has no surface splats, or a body has no name.
        ValueError: the degree is not 0 to 3.
    """
    if sh_degree not in (0, 1, 2, 3):
        raise ValueError(f"sh_degree must be 0 to 3; it is {sh_degree}")
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    _refuse_soft_things(model, groups, on_event)
    parts: dict[int, list[StaticPool]] = {}
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        appearance = _paint.look(model, geom)
        visible = int(model.geom_group[geom]) in groups and appearance.rgba[3] > 0
        if model.body(body).name in skip or not _drawable(model, geom, visible, on_event):
            continue
        surface = _cover(model, geom, density)
        if not _paint.has_texels(model, geom, appearance.texture, surface):
            message = f"{_told(model, geom)}: a 2D texture on this kind of geom is drawn as its mean colour"
            on_event(Warned(stage="mjcf", message=message))
        colour = _paint.colours(model, geom, appearance, surface)
        colour = _paint.lit(colour, surface.normals @ data.geom_xmat[geom].reshape(3, 3).T, shade)
        parts.setdefault(body, []).append(
            _in_body(model, geom, surface, colour, _opacity(float(appearance.rgba[3]), density), (sh_degree + 1) ** 2)
        )
    return tuple(BodySplats(body=_name(model, body), splats=merged(parts[body])) for body in sorted(parts))


def merged(pools: list[StaticPool]) -> StaticPool:
    """One pool of several with equal degrees."""
    return StaticPool(**{name: torch.cat([getattr(pool, name) for pool in pools]) for name in vars(pools[0])})


def _drawable(model: mujoco.MjModel, geom: int, visible: bool, on_event: OnEvent) -> bool:
    """Whether a geom is to be drawn.

    Raises:
        ModelError: it is to be, and cannot.
    """
    kind = int(model.geom_type[geom])
    if kind in _SURFACES or kind == int(_GEOM.mjGEOM_MESH):
        return visible
    message = f"{_told(model, geom)} has no surface splats"
    if visible:
        known = "plane, box, sphere, capsule, ellipsoid, cylinder and mesh"
        raise ModelError(f"{message}; drawn are {known}: replace it by a mesh, or move it to a geom group above 2")
    on_event(Warned(stage="mjcf", message=f"{message}; it is invisible, and left out"))
    return False


def _refuse_soft_things(model: mujoco.MjModel, groups: Collection[int], on_event: OnEvent) -> None:
    soft = (("skin", model.nskin, model.skin_group), ("flex", model.nflex, model.flex_group))
    objects = {"skin": mujoco.mjtObj.mjOBJ_SKIN, "flex": mujoco.mjtObj.mjOBJ_FLEX}
    for kind, count, its_groups in soft:
        for index in range(count):
            message = f"{kind} '{mujoco.mj_id2name(model, objects[kind], index) or index}' has no surface splats"
            if int(its_groups[index]) in groups:
                raise ModelError(f"{message}; only rigid geoms are drawn: remove it, or move it to a group above 2")
            on_event(Warned(stage="mjcf", message=f"{message}; it is invisible, and left out"))


def _cover(model: mujoco.MjModel, geom: int, density: Density) -> Surface:
    """The geom's surface in its own frame."""
    if int(model.geom_type[geom]) != int(_GEOM.mjGEOM_MESH):
        return _SURFACES[int(model.geom_type[geom])](model.geom_size[geom], density)
    index = int(model.geom_dataid[geom])
    first, count = int(model.mesh_vertadr[index]), int(model.mesh_vertnum[index])
    start, faces = int(model.mesh_faceadr[index]), int(model.mesh_facenum[index])
    uv = None
    if model.mesh_texcoordnum[index] > 0:
        corners = model.mesh_facetexcoord[start : start + faces]
        uv = model.mesh_texcoord[int(model.mesh_texcoordadr[index]) + corners].astype(np.float64)
    vertices = model.mesh_vert[first : first + count].astype(np.float64)
    return _thinned.mesh(vertices, model.mesh_face[start : start + faces], uv, density)


def _in_body(
    model: mujoco.MjModel, geom: int, surface: Surface, colour: np.ndarray, opacity: float, coefficients: int
) -> StaticPool:
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
    R = rotation.reshape(3, 3)
    axes = np.stack([surface.tangents, np.cross(surface.normals, surface.tangents), surface.normals], axis=2)
    n = len(surface.points)
    thickness = _FLATNESS * surface.sigmas.min(axis=1, keepdims=True)
    sh = np.zeros((n, coefficients, 3))
    sh[:, 0] = (colour - 0.5) / SH_C0
    values = {
        "means": surface.points @ R.T + model.geom_pos[geom],
        "quats": quats_of(R @ axes),
        "scales": np.concatenate([surface.sigmas, thickness], axis=1),
        "opacities": np.full(n, opacity),
        "sh": sh,
    }
    return StaticPool(**{name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()})


def _opacity(alpha: float, density: Density) -> float:
    """Of each splat, so that all that overlap on a surface seen from the reference let as much light through as the
    geom should."""
    # Mean of the summed profiles over the surface, with what the rasterizer adds to each (in pixels).
    covering = 2 * np.pi * (OVERLAP**2 + 0.3 / density.pixels_per_splat**2)
    return min(OPAQUE, float(-np.log1p(-alpha) / covering)) if alpha < 1 else OPAQUE


def quats_of(matrices: np.ndarray) -> np.ndarray:
    """[N, 3, 3] rotations to unit quaternions [N, 4] wxyz."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(matrices).as_quat()[:, [3, 0, 1, 2]]


def _name(model: mujoco.MjModel, body: int) -> str:
    name = model.body(body).name
    if not name:
        raise ModelError(f"body {body} has visible geoms and no name; give it one in the MJCF")
    return name


def _told(model: mujoco.MjModel, geom: int) -> str:
    kind = _GEOM(int(model.geom_type[geom])).name.removeprefix("mjGEOM_").lower()
    return f"geom '{model.geom(geom).name or geom}' of body '{_name(model, int(model.geom_bodyid[geom]))}' ({kind})"
