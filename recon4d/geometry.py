"""Conventions, and the few functions that embody them. Every door of the package obeys this page.

World      right-handed, metres, +Z up: the bench frame. Planes are (a, b, c, d), unit normal up.
Time       seconds on the capture clock, float64; t = 0 where all cameras first overlap.
Camera     OpenCV axes: x right, y down, z forward. The stored pose is ``T_cam_world`` (world to camera).
Pixels     pixel i covers [i, i + 1), its centre is i + 0.5; origin at the top left. Images are [..., H, W, 3] RGB.
           Calibrations whose pixel centres are integers (OpenCV's) are shifted by +0.5 on import.
Transforms ``T_to_from``: x_to = T_to_from @ x_from, so neighbours cancel in a product.
Rotations  quaternions are wxyz and unit at doors.
Colour     display-referred sRGB in [0, 1]; spherical harmonics hold DC first, colour = max(SH + 0.5, 0).
Depth      camera-z in metres, normalised by alpha, always given with alpha.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SH_C0 = 0.28209479177387814
"""The constant real spherical harmonic, 1 / (2 sqrt(pi))."""
SH_C1 = 0.4886025119029199
"""sqrt(3 / (4 pi)), of the three linear harmonics (-y, z, -x)."""
SH_C2 = (1.0925484305920792, -1.0925484305920792, 0.31539156525252005, -1.0925484305920792, 0.5462742152960396)
SH_C3 = (
    -0.5900435899266435,
    2.890611442640554,
    -0.4570457994644658,
    0.3731763325901154,
    -0.4570457994644658,
    1.445305721320277,
    -0.5900435899266435,
)

OPENGL_TO_OPENCV = np.diag([1.0, -1.0, -1.0, 1.0])
"""Camera axes (x right, y up, z back) to (x right, y down, z forward); its own inverse."""


def quat_to_matrix(quats: Tensor) -> Tensor:
    """[..., 4] wxyz (normalised here) to rotation matrices [..., 3, 3]."""
    w, x, y, z = torch.nn.functional.normalize(quats, dim=-1).unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, -1).reshape(*quats.shape[:-1], 3, 3)


def sh_basis(directions: Tensor, degree: int) -> Tensor:
    """Real spherical harmonics of unit directions [..., 3] to [..., (degree + 1)^2], degree 0 to 3.

    Signs and order are those of the 3D Gaussian splatting PLY convention (Kerbl et al. 2023).
    """
    x, y, z = directions.unbind(-1)
    basis = [torch.full_like(x, SH_C0)]
    if degree > 0:
        basis += [-SH_C1 * y, SH_C1 * z, -SH_C1 * x]
    if degree > 1:
        xx, yy, zz = x * x, y * y, z * z
        c = SH_C2
        basis += [c[0] * x * y, c[1] * y * z, c[2] * (2 * zz - xx - yy), c[3] * x * z, c[4] * (xx - yy)]
        if degree > 2:
            c = SH_C3
            basis += [
                c[0] * y * (3 * xx - yy),
                c[1] * x * y * z,
                c[2] * y * (4 * zz - xx - yy),
                c[3] * z * (2 * zz - 3 * xx - 3 * yy),
                c[4] * x * (4 * zz - xx - yy),
                c[5] * z * (xx - yy),
                c[6] * x * (xx - 3 * yy),
            ]
    return torch.stack(basis, -1)


def look_at(
    center_w: np.ndarray, target_w: np.ndarray, up_w: tuple[float, float, float] = (0.0, 0.0, 1.0)
) -> np.ndarray:
    """T_cam_world [4, 4] of a camera at ``center_w`` that looks at ``target_w`` with ``up_w`` upwards in its image."""
    forward = np.asarray(target_w, np.float64) - center_w
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, np.asarray(up_w, np.float64))
    if np.linalg.norm(right) < 1e-6:  # Looking along the up axis: any right will do.
        right = np.array([1.0, 0.0, 0.0])
    right /= np.linalg.norm(right)
    rotation = np.stack([right, np.cross(forward, right), forward])
    T = np.eye(4)
    T[:3, :3] = rotation
    T[:3, 3] = -rotation @ center_w
    return T


def project(points_w: np.ndarray, K: np.ndarray, T_cam_world: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """World points [..., 3] to pixel coordinates [..., 2] and depths [...]; pixels are inf where depth <= 0."""
    points_cam = points_w @ T_cam_world[:3, :3].T + T_cam_world[:3, 3]
    depth = points_cam[..., 2]
    safe = np.where(depth > 0, depth, 1.0)
    pixels = (
        points_cam[..., :2] / safe[..., None] * K[[0, 1], [0, 1]]
        + K[:2, 2]
        + (points_cam[..., 1:2] / safe[..., None]) * K[0, 1] * np.array([1.0, 0.0])
    )
    return np.where((depth > 0)[..., None], pixels, np.inf), depth


def unproject(pixels: np.ndarray, depth: np.ndarray, K: np.ndarray, T_cam_world: np.ndarray) -> np.ndarray:
    """Pixel coordinates [..., 2] and depths [...] to world points [..., 3]."""
    y = (pixels[..., 1] - K[1, 2]) / K[1, 1]
    x = (pixels[..., 0] - K[0, 2] - K[0, 1] * y) / K[0, 0]
    points_cam = np.stack([x, y, np.ones_like(x)], -1) * depth[..., None]
    return (points_cam - T_cam_world[:3, 3]) @ T_cam_world[:3, :3]
