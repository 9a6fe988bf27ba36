"""Colours of a geom's surface: material, texture, baked light.

Texture coordinates are MuJoCo's: 2D textures lie on planes and on meshes that have coordinates of their own, cube
textures on everything. Another geom with a 2D texture gets the texture's mean colour.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from simbridge.mjcf._options import Shade
from simbridge.mjcf._surface import Surface

_DEFAULT_RGBA = np.array([0.5, 0.5, 0.5, 1.0], np.float32)
_RGB_ROLES = (mujoco.mjtTextureRole.mjTEXROLE_RGB, mujoco.mjtTextureRole.mjTEXROLE_RGBA)


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a geom looks like before light falls on it."""

    rgba: np.ndarray
    """[4] in [0, 1]."""
    texture: int
    """Index of the texture of its colours, -1 without."""


def look(model: mujoco.MjModel, geom: int) -> Look:
    """As MuJoCo's renderer takes it: the geom's own colour where it has one, else the material's."""
    material, rgba = int(model.geom_matid[geom]), model.geom_rgba[geom]
    if material < 0:
        return Look(rgba=rgba.astype(np.float64), texture=-1)
    if np.array_equal(rgba, _DEFAULT_RGBA):
        rgba = model.mat_rgba[material]
    textures = [int(model.mat_texid[material, int(role)]) for role in _RGB_ROLES]
    return Look(rgba=rgba.astype(np.float64), texture=next((index for index in textures if index >= 0), -1))


def has_texels(model: mujoco.MjModel, geom: int, texture: int, surface: Surface) -> bool:
    """Whether the texture has a place on this geom's surface that is known here."""
    if texture < 0 or int(model.tex_type[texture]) != int(mujoco.mjtTexture.mjTEXTURE_2D):
        return True
    return surface.uv is not None or int(model.geom_type[geom]) == int(mujoco.mjtGeom.mjGEOM_PLANE)


def colours(model: mujoco.MjModel, geom: int, appearance: Look, surface: Surface) -> np.ndarray:
    """[N, 3] in [0, 1], without light."""
    base = np.tile(appearance.rgba[:3], (len(surface.points), 1))
    texture = appearance.texture
    if texture < 0:
        return base
    texels = _texels(model, texture)
    if int(model.tex_type[texture]) != int(mujoco.mjtTexture.mjTEXTURE_2D):
        return base * _cube(texels, _cube_directions(model, geom, surface.points))
    if not has_texels(model, geom, texture, surface):
        return base * texels.mean(axis=(0, 1))
    u, v = _plane_uv(model, geom, surface.points) if surface.uv is None else (surface.uv[:, 0], surface.uv[:, 1])
    height, width = texels.shape[:2]
    row = np.clip((np.mod(v, 1) * height).astype(int), 0, height - 1)
    column = np.clip((np.mod(u, 1) * width).astype(int), 0, width - 1)
    return base * texels[row, column]


def lit(colour: np.ndarray, normals_w: np.ndarray, shade: Shade | None) -> np.ndarray:
    """Colours [N, 3] under the light, at most 1."""
    if shade is None:
        return colour
    direction = np.asarray(shade.direction, np.float64) / np.linalg.norm(shade.direction)
    gain = shade.ambient + shade.diffuse * np.maximum(-normals_w @ direction, 0.0)
    return np.minimum(colour * gain[:, None], 1.0)


def _texels(model: mujoco.MjModel, texture: int) -> np.ndarray:
    """[H, W, 3] in [0, 1]; the six faces of a cube below each other."""
    height, width = int(model.tex_height[texture]), int(model.tex_width[texture])
    channels, start = int(model.tex_nchannel[texture]), int(model.tex_adr[texture])
    data = model.tex_data[start : start + height * width * channels].reshape(height, width, channels)
    return (data[..., :3] if channels >= 3 else np.repeat(data[..., :1], 3, axis=2)) / 255.0


def _cube_directions(model: mujoco.MjModel, geom: int, points: np.ndarray) -> np.ndarray:
    """Points relative to the geom's half sizes, unless the material's texture is uniform in space."""
    # MuJoCo's enumerations are not equal to NumPy's integers.
    size, kind = model.geom_size[geom].copy(), mujoco.mjtGeom(int(model.geom_type[geom]))
    unscaled = (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_SPHERE)
    if model.mat_texuniform[model.geom_matid[geom]] or kind in unscaled:
        return points
    if kind in (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE):
        size = np.array([size[0], size[0], size[1]])
    return points / np.where(size > 0, size, 1.0)


def _cube(texels: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Faces +x, -x, +y, -y, +z, -z with OpenGL's orientation of each."""
    n = texels.shape[1]
    x, y, z = directions.T
    axis = np.abs(directions).argmax(axis=1)
    face = 2 * axis + (directions[np.arange(len(directions)), axis] < 0)
    s = np.choose(face, [-z, z, x, x, x, -x])
    t = np.choose(face, [-y, -y, z, -z, -y, -y])
    largest = np.maximum(np.abs(directions).max(axis=1), 1e-12)
    column = np.clip(((s / largest + 1) / 2 * n).astype(int), 0, n - 1)
    row = np.clip(((t / largest + 1) / 2 * n).astype(int), 0, n - 1)
    # One image for all faces is stored once.
    faces = texels.reshape(-1, n, n, 3)
    return faces[np.minimum(face, len(faces) - 1), row, column]


def _plane_uv(model: mujoco.MjModel, geom: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Texture coordinates on a plane: its image's top is at +y, repeated per plane or per metre."""
    material, size = model.geom_matid[geom], model.geom_size[geom]
    half = np.where(size[:2] > 0, size[:2], 1.0)
    rate = model.mat_texrepeat[material] / (1.0 if model.mat_texuniform[material] else half)
    # A plane without end has its image's middle at the origin; another one its corner at the plane's.
    shift = np.where(size[:2] > 0, rate * half, 1.0)
    return 0.5 * (rate[0] * points[:, 0] + shift[0]), 0.5 * (shift[1] - rate[1] * points[:, 1])
