"""What a wrong picture looks like: mistakes that ports of a rasterizer make, and two pictures that show one each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from recon4d.geometry import look_at
from recon4d.raster import rasterize
from recon4d.types import Camera, Cameras, Splats

_ALIKE = 1e-4
"""Mean difference at which a wrong picture is taken for that of a mistake."""
_SIMILAR = 1e-3
"""Relative difference at which a gradient is taken for a multiple of the right one."""
Probe = tuple[str, Splats, Cameras]


def suspect(rgb: Tensor, splats: Splats, cameras: Cameras, sure: Tensor) -> str:
    """What was done wrong, as far as the picture shows it; empty where it shows nothing known.

    Args:
        rgb: [1, H, W, 3] the wrong picture, with the background black, on the CPU.
        splats: what was drawn, on the CPU.
        cameras: one.
        sure: [1, H, W] the pixels to look at.
    """
    for words, drawn, seen, order in _mistakes(splats, cameras):
        with torch.no_grad():
            wrong = rasterize(drawn, seen, backend="reference", outputs=("rgb",)).rgb
        assert wrong is not None
        if float((wrong[..., order] - rgb).abs()[sure].mean()) < _ALIKE:
            return f"as if {words}"
    return ""


def likeness(found: Tensor, wanted: Tensor) -> str:
    """How a wrong gradient relates to the right one, where it does so simply."""
    if not found.any():
        return "it is zero"
    factor = float((found.double() * wanted.double()).sum() / wanted.double().square().sum().clamp_min(1e-30))
    distance = (found.double() - factor * wanted.double()).norm()
    return f"it is {factor:.3g} times the right one" if distance < _SIMILAR * found.double().norm() else ""


def probes() -> Iterator[Probe]:
    """Pictures of nine pixels, and what the one in the middle shows."""
    K = np.array([[30.0, 0.0, 1.5], [0.0, 30.0, 1.5], [0.0, 0.0, 1.0]])
    pose = look_at(np.array([0.0, -2.0, 0.0]), np.zeros(3))
    cameras = Cameras.of(Camera(name="probe", width=3, height=3, K=K, T_cam_world=pose))
    bright, dark = [1.5, 1.5, 1.5], [-1.5, -1.5, -1.5]  # Grey: which channel is which is not the question here.
    order = _disc([[0.0, 0.8, 0.0], [0.0, -0.2, 0.0]], [bright, dark], 0.9)
    yield "the nearer of two splats hides the other", order, cameras
    yield "a splat of opacity 1 lets a thousandth through", _disc([[0.0, 0.0, 0.0]], [dark], 1.0), cameras


def _disc(means: list[list[float]], colours: list[list[float]], opacity: float) -> Splats:
    """Wide round splats."""
    count = len(means)
    return Splats(
        means=torch.tensor(means),
        quats=torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(count, 1),
        scales=torch.full((count, 3), 0.5),
        opacities=torch.full((count,), opacity),
        sh=torch.tensor(colours)[:, None],
    )


def _mistakes(splats: Splats, cameras: Cameras) -> Iterator[tuple[str, Splats, Cameras, list[int]]]:
    """Each mistake in words, and what the reference is to draw, and in which order of channels, to make it."""
    straight, quats, sh = [0, 1, 2], splats.quats, splats.sh
    yield "red and blue were exchanged", splats, cameras, [2, 1, 0]
    yield "quaternions were read as xyzw", replace(splats, quats=quats[:, [3, 0, 1, 2]]), cameras, straight
    yield (
        "quaternions were inverted",
        replace(splats, quats=quats * quats.new_tensor([1, -1, -1, -1])),
        cameras,
        straight,
    )
    for band in range(1, splats.sh_degree + 1):
        without = sh.clone()
        without[:, band**2 : (band + 1) ** 2] = 0.0
        yield f"band {band} of the harmonics were missing", replace(splats, sh=without), cameras, straight
    words = "harmonics were evaluated in the camera's axes and not in the world's"
    yield words, *_before_camera(splats, cameras), straight


def _before_camera(splats: Splats, cameras: Cameras) -> tuple[Splats, Cameras]:
    """The scene moved before a camera at the origin, with harmonics that have not been turned with it."""
    view = cameras.viewmats[0]
    turned = replace(
        splats,
        means=splats.means @ view[:3, :3].T + view[:3, 3],
        quats=_product(_quaternion(view[:3, :3]), splats.quats),
    )
    return turned, replace(cameras, viewmats=torch.eye(4, dtype=view.dtype)[None])


def _quaternion(R: Tensor) -> Tensor:
    """[4] wxyz of a rotation: the eigenvector of the largest eigenvalue of a symmetric matrix (Bar-Itzhack 2000)."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = R.double().flatten().tolist()
    K = torch.tensor(
        [
            [xx + yy + zz, zy - yz, xz - zx, yx - xy],
            [zy - yz, xx - yy - zz, xy + yx, xz + zx],
            [xz - zx, xy + yx, yy - xx - zz, yz + zy],
            [yx - xy, xz + zx, yz + zy, zz - xx - yy],
        ],
        dtype=torch.float64,
    )
    return torch.linalg.eigh(K).eigenvectors[:, -1].to(R.dtype)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Hamilton product of a [4] with each of b [N, 4]."""
    w, x, y, z = a.unbind()
    rows = [[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]]
    return b @ torch.stack([torch.stack(row) for row in rows]).T
