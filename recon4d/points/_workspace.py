"""The part of space that a rig films, from its cameras alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recon4d.errors import CalibrationError
from recon4d.types import Camera


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Where to look for surfaces."""

    focus_w: np.ndarray
    """[3] metres: the point that the cameras look at together."""
    distance_m: float
    """Median distance from a camera to the focus; the scene's unit of length."""
    plane: np.ndarray | None
    """[4] (a, b, c, d), unit normal up: the bench; None when unknown."""

    NEAR = 0.2
    """Nearest depth of interest, as a share of ``distance_m``: closer things would block the camera."""
    FAR = 4.0
    """Farthest depth of the static scene (the room's walls), as a share of ``distance_m``."""
    REACH = 2.0
    """Farthest depth of moving things, as a share of ``distance_m``."""

    @classmethod
    def of(cls, cameras: Sequence[Camera], plane: np.ndarray | None = None) -> Workspace:
        """The least-squares meeting point of the optical axes.

        Axes that are almost parallel do not meet; then the axes' intersections with the bench plane are
        averaged, and without a plane the focus lies twice the rig's width ahead.

        Raises:
            CalibrationError: no camera looks towards the plane and the axes do not meet in front of the cameras.
        """
        centers = np.stack([camera.center_w for camera in cameras])
        forwards = np.stack([camera.forward_w for camera in cameras])
        focus = _axes_meet(centers, forwards)
        if focus is None and plane is not None:
            focus = _axes_hit_plane(centers, forwards, plane)
        if focus is None:
            width = float(np.linalg.norm(centers - centers.mean(0), axis=1).max())
            if width <= 0:
                raise CalibrationError(
                    "all cameras stand at one point, so no depth can be found; check the poses' translations"
                )
            focus = centers.mean(0) + forwards.mean(0) * 4 * width
        distance = float(np.median(np.linalg.norm(centers - focus, axis=1)))
        return cls(focus_w=focus, distance_m=distance, plane=plane)

    @property
    def near_m(self) -> float:
        return self.NEAR * self.distance_m

    @property
    def far_m(self) -> float:
        return self.FAR * self.distance_m

    @property
    def reach_m(self) -> float:
        return self.REACH * self.distance_m

    def height_above_plane(self, points_w: np.ndarray) -> np.ndarray:
        """[...] metres; +inf without a plane."""
        if self.plane is None:
            return np.full(points_w.shape[:-1], np.inf)
        return points_w @ self.plane[:3] + self.plane[3]


def _axes_meet(centers: np.ndarray, forwards: np.ndarray) -> np.ndarray | None:
    across = np.eye(3) - forwards[:, :, None] * forwards[:, None, :]  # Projects away each axis. [C, 3, 3]
    A = across.sum(0)
    if np.linalg.cond(A) > 1e3:
        return None
    focus = np.linalg.solve(A, (across @ centers[:, :, None]).sum(0)[:, 0])
    ahead = ((focus - centers) * forwards).sum(1)
    return focus if (ahead > 0).all() else None


def _axes_hit_plane(centers: np.ndarray, forwards: np.ndarray, plane: np.ndarray) -> np.ndarray | None:
    slope = forwards @ plane[:3]
    depth = -(centers @ plane[:3] + plane[3]) / np.where(np.abs(slope) > 1e-6, slope, 1e-6)
    hits = (depth > 0) & (np.abs(slope) > 1e-3)
    return (centers + depth[:, None] * forwards)[hits].mean(0) if hits.any() else None
