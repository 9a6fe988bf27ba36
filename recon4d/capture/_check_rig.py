"""Undistortion, and whether the rig's numbers make sense together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import cv2
import numpy as np

from recon4d.capture._findings import Inspection
from recon4d.capture._manifest import MANIFEST, CameraEntry, Manifest
from recon4d.geometry import OPENGL_TO_OPENCV, project, unproject
from recon4d.types import Camera

_SAME_PLACE_M = 1e-3
_LARGE_RIG_M = 100.0
_CLEARLY_APART = np.cos(np.radians(20.0))


class Undistorter:
    """Resamples a camera's frames once, so that what follows sees a pinhole camera with the same K."""

    def __init__(self, entry: CameraEntry) -> None:
        camera, lens = entry.camera, entry.distortion
        self.valid = np.ones((camera.height, camera.width), bool)
        """[H, W] bool, False where the source image has no pixel."""
        self._maps: tuple[np.ndarray, np.ndarray] | None = None
        if lens is None:
            return
        K = camera.K.copy()
        K[:2, 2] -= 0.5  # OpenCV's first pixel has its centre at 0.
        size = (camera.width, camera.height)
        if lens.model == "fisheye":
            x, y = cv2.fisheye.initUndistortRectifyMap(K, lens.coefficients, np.eye(3), K, size, cv2.CV_32FC1)
        else:
            x, y = cv2.initUndistortRectifyMap(K, lens.coefficients, np.eye(3), K, size, cv2.CV_32FC1)
        # Comparisons with NaN are False, so a pixel that the lens model sends nowhere is invalid as well.
        self.valid = (x >= 0) & (x <= camera.width - 1) & (y >= 0) & (y <= camera.height - 1)
        self._maps = (x, y)

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        """uint8 [H, W, 3] to the same, bilinear; black where not valid."""
        if self._maps is None:
            return frame
        return cv2.remap(frame, *self._maps, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)


def check_rig(manifest: Manifest, inspection: Inspection) -> None:
    """Checks each camera's numbers, and that the cameras can see one scene together."""
    for entry in manifest.entries:
        with inspection.part():
            _check_intrinsics(entry, inspection)
    cameras = [entry.camera for entry in manifest.entries]
    if len(cameras) < 2:
        return
    _check_places(manifest, cameras, inspection)
    with inspection.part():
        _check_common_view(cameras, inspection)


def _check_intrinsics(entry: CameraEntry, inspection: Inspection) -> None:
    camera = entry.camera
    for axis, size, focal, centre in (
        ("x", camera.width, camera.K[0, 0], camera.K[0, 2]),
        ("y", camera.height, camera.K[1, 1], camera.K[1, 2]),
    ):
        if not -size <= centre <= 2 * size:
            inspection.error(
                f"the principal point c{axis} = {centre:g} px lies far outside the image of {size} px",
                "check that K belongs to this image size and is not transposed",
                camera=camera.name,
                file=MANIFEST,
                calibration=True,
            )
        elif not 0 <= centre <= size:
            inspection.warn(
                f"the principal point c{axis} = {centre:g} px lies outside the image of {size} px",
                "this is right only for a cropped image",
                camera=camera.name,
                file=MANIFEST,
            )
        view = np.degrees(2 * np.arctan(size / (2 * focal)))
        if not 5 <= view <= 150:
            inspection.warn(
                f"the focal length f{axis} = {focal:g} px means a field of view of {view:.3g} degrees over {size} px",
                "check that K is in pixels of this image size",
                camera=camera.name,
                file=MANIFEST,
            )
    kept = float(Undistorter(entry).valid.mean())
    if kept < 0.05:
        inspection.error(
            f"undistortion leaves {kept:.1%} of the image",
            "check the distortion's model and its order of coefficients",
            camera=camera.name,
            file=MANIFEST,
            calibration=True,
        )
    elif kept < 0.6:
        inspection.warn(
            f"undistortion leaves {kept:.0%} of the image", "check the distortion", camera=camera.name, file=MANIFEST
        )


def _check_places(manifest: Manifest, cameras: list[Camera], inspection: Inspection) -> None:
    size = _rig_size(cameras)
    if size < _SAME_PLACE_M:
        inspection.warn(
            f"all cameras are within {size * 1e3:.2g} mm of each other: without parallax depth is a guess",
            "check that the poses differ and are in metres",
            file=MANIFEST,
        )
    elif size > _LARGE_RIG_M:
        inspection.warn(
            f"the cameras are up to {size:.4g} m apart", "check that the poses are in metres", file=MANIFEST
        )
    for a, b in combinations(cameras, 2):
        if size >= _SAME_PLACE_M and np.abs(a.T_cam_world - b.T_cam_world).max() < 1e-9:
            inspection.warn(
                f"has exactly the pose of camera '{b.name}'", "check that none was copied", camera=a.name, file=MANIFEST
            )
    if manifest.plane is not None:
        below = [c.name for c in cameras if manifest.plane[:3] @ c.center_w + manifest.plane[3] < 0]
        if below:
            inspection.warn(
                f"the cameras {below} lie below bench_plane {manifest.plane.round(4).tolist()}",
                "check the plane, and that poses and plane share one world",
                file=MANIFEST,
            )


def _check_common_view(cameras: list[Camera], inspection: Inspection) -> None:
    """A rig whose cameras look away from each other is an error, a camera that shares no view a warning."""
    alone = _alone(cameras)
    if len(alone) == len(cameras) or _diverge(cameras):
        other = {
            label: None
            for label, variant in misreadings(cameras)
            if not (_diverge(variant) or len(_alone(variant)) == len(cameras))
        }
        inspection.error(
            "the cameras look away from each other: "
            + (
                "no two see any common part of the world"
                if len(alone) == len(cameras)
                else "each pair's optical axes meet behind both cameras"
            ),
            f"check the poses: read as {' or '.join(other)}, the cameras do look at one place"
            if other
            else "check the poses",
            file=MANIFEST,
            calibration=True,
        )
    for name in alone:
        inspection.warn(
            "shares no part of the world with any other camera",
            "check its pose; what it alone sees has no depth",
            camera=name,
            file=MANIFEST,
        )


def _alone(cameras: list[Camera]) -> list[str]:
    """Names of the cameras of which no viewed point is in front of and inside any other camera's image.

    Points are tried along a grid of rays, from a twentieth of the rig's size to fifty times it.
    """
    size = max(_rig_size(cameras), 0.1)
    depths = np.geomspace(0.05 * size, 50 * size, 24)
    grid = np.linspace(0.02, 0.98, 9)
    paired: set[str] = set()
    for a in cameras:
        pixels = np.stack(np.meshgrid(grid * a.width, grid * a.height), -1).reshape(-1, 1, 2)
        points_w = unproject(np.broadcast_to(pixels, (len(pixels), len(depths), 2)), depths, a.K, a.T_cam_world)
        for b in cameras:
            if b is not a:
                seen, depth = project(points_w, b.K, b.T_cam_world)
                inside = (depth > 0) & (seen >= 0).all(-1) & (seen < [b.width, b.height]).all(-1)
                if inside.any():
                    paired |= {a.name, b.name}
    return [c.name for c in cameras if c.name not in paired]


def _diverge(cameras: list[Camera]) -> bool:
    """Whether all pairs of optical axes that are clearly not parallel come closest behind both cameras.

    Wide cameras that all face outwards still share some sky, so views in common alone do not tell.
    """
    behind: list[bool] = []
    for a, b in combinations(cameras, 2):
        cosine = float(a.forward_w @ b.forward_w)
        if cosine < _CLEARLY_APART:
            baseline = b.center_w - a.center_w
            along_a = a.forward_w @ baseline - cosine * (b.forward_w @ baseline)
            along_b = cosine * (a.forward_w @ baseline) - b.forward_w @ baseline
            behind.append(bool(along_a < 0 and along_b < 0))
    return bool(behind) and all(behind)


def misreadings(cameras: Sequence[Camera]) -> Iterator[tuple[str, list[Camera]]]:
    """The rig as it would be, had its poses been declared wrongly; a name may come twice.

    What was declared is not known here: a matrix that was read as camera to world comes out differently under
    OpenCV's and OpenGL's axes, so both are given.
    """
    axes, convention = "the other camera axes", "the other convention (T_cam_world, T_world_cam)"
    both = "the other convention and the other camera axes"
    flip = OPENGL_TO_OPENCV
    changes: tuple[tuple[str, Callable[[Camera], np.ndarray]], ...] = (
        (axes, lambda c: flip @ c.T_cam_world),
        (convention, lambda c: c.T_world_cam),
        (convention, lambda c: flip @ c.T_world_cam @ flip),
        (both, lambda c: flip @ c.T_world_cam),
        (both, lambda c: c.T_world_cam @ flip),
    )
    for name, change in changes:
        yield name, [replace(c, T_cam_world=change(c)) for c in cameras]


def _rig_size(cameras: list[Camera]) -> float:
    centres = np.stack([c.center_w for c in cameras])
    return float(np.linalg.norm(centres[:, None] - centres[None], axis=-1).max())
