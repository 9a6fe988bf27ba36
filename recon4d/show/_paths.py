"""Which camera looks at which instant: the rig's own, and paths that stay where the rig has seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.interpolate import PchipInterpolator

from recon4d.errors import ConfigError
from recon4d.geometry import look_at
from recon4d.types import Camera, Scene4D

_SWING_RAD = np.radians(8.0)
"""How far to either side a path goes around a single camera."""


def rig_camera(scene: Scene4D, name: str | None) -> Camera:
    """The rig's camera of that name; its first when None.

    Raises:
        ConfigError: there is none.
    """
    for camera in scene.cameras:
        if name is None or camera.name == name:
            return camera
    raise ConfigError(f"the scene's rig has no camera '{name}'; it has {[camera.name for camera in scene.cameras]}")


def instant(scene: Scene4D, time_s: float | None) -> float:
    """The instant, seconds; the middle of the clip when None.

    Raises:
        ConfigError: it lies outside the clip.
    """
    if time_s is None:
        return scene.duration_s / 2
    if not 0 <= time_s <= scene.duration_s:
        raise ConfigError(f"time_s must lie in [0, {scene.duration_s:g}]; it is {time_s}")
    return float(time_s)


def focus(cameras: Sequence[Camera], plane: np.ndarray | None) -> np.ndarray:
    """[3] metres, world: what the rig looks at.

    With a bench plane it is the mean of the points where the optical axes meet the bench: axes of real rigs miss each
    other by more than the bench is wide. Without it, or where no axis meets it, it is the point nearest to all axes;
    those that are parallel, or one alone, leave it open along them, and a small pull to one metre ahead settles that.
    """
    hits = [] if plane is None else [hit for camera in cameras if (hit := _on_plane(camera, plane)) is not None]
    if hits:
        return np.mean(hits, axis=0)
    pull = 1e-3
    A, b = np.zeros((3, 3)), np.zeros(3)
    for camera in cameras:
        center, forward = camera.center_w, camera.forward_w
        across = np.eye(3) - np.outer(forward, forward)
        A += across + pull * np.eye(3)
        b += across @ center + pull * (center + forward)
    return np.linalg.solve(A, b)


def _on_plane(camera: Camera, plane: np.ndarray) -> np.ndarray | None:
    """Where a camera's axis meets the plane ahead of it; None where it does so behind, never, or too slantingly."""
    descent = -float(plane[:3] @ camera.forward_w)
    height = float(plane[:3] @ camera.center_w + plane[3])
    return camera.center_w + camera.forward_w * (height / descent) if height > 0 and descent > 0.1 else None


class Arc:
    """A smooth way past all cameras of the rig, around their common focus, looking at it.

    Cameras are visited by azimuth, from one side of the widest gap between them to the other, so that the way never
    crosses a side which no camera has seen.
    """

    def __init__(self, cameras: Sequence[Camera], plane: np.ndarray | None) -> None:
        self._focus = focus(cameras, plane)
        offsets = np.stack([camera.center_w - self._focus for camera in cameras])
        radii = np.linalg.norm(offsets, axis=1)
        azimuths = np.arctan2(offsets[:, 1], offsets[:, 0])
        elevations = np.arcsin(np.clip(offsets[:, 2] / radii, -1, 1))
        order = np.argsort(azimuths)
        gaps = np.diff(azimuths[order], append=azimuths[order[0]] + 2 * np.pi)
        order = np.roll(order, -(int(np.argmax(gaps)) + 1))
        knots = np.stack([np.unwrap(azimuths[order]), elevations[order], np.log(radii[order])], axis=1)
        if len(cameras) == 1:
            knots = knots + np.array([[-_SWING_RAD, 0, 0], [_SWING_RAD, 0, 0]])
        directions = np.stack(
            [np.cos(knots[:, 1]) * np.cos(knots[:, 0]), np.cos(knots[:, 1]) * np.sin(knots[:, 0]), np.sin(knots[:, 1])],
            1,
        )
        steps = np.arccos(np.clip((directions[1:] * directions[:-1]).sum(1), -1, 1))
        along = np.concatenate([[0.0], np.cumsum(np.maximum(steps, 1e-6))])
        self._way = PchipInterpolator(along / along[-1], knots)
        self._lens = cameras[0]
        self._focal_share = float(np.median([camera.K[0, 0] / camera.width for camera in cameras]))

    def camera(self, share: float) -> Camera:
        """The camera at a share of the way, 0 to 1; its size is the first camera's, its focal length the median."""
        azimuth, elevation, log_radius = self._way(np.clip(share, 0, 1))
        direction = np.array(
            [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
        )
        focal_px = self._focal_share * self._lens.width
        K = np.array([[focal_px, 0, self._lens.width / 2], [0, focal_px, self._lens.height / 2], [0, 0, 1]])
        return Camera(
            name="arc",
            width=self._lens.width,
            height=self._lens.height,
            K=K,
            T_cam_world=look_at(self._focus + np.exp(log_radius) * direction, self._focus),
        )
