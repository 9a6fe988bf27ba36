"""Two cameras' common pencil of planes.

A point of the world lies on one plane through both cameras' centres. The plane's angle about the baseline can be read
off either picture alone, so two tracks of one point have the same angle at the same time: that is the epipolar
constraint as one number, whatever the lenses, with no correspondence needed to write it down.
"""

from __future__ import annotations

import numpy as np

from recon4d.types import Camera

_GRAZING = 0.1
"""Sine of the angle to the baseline under which a ray tells its plane too badly."""


class Pencil:
    """The planes through the centres of two cameras.

    Args:
        a: one camera.
        b: another, elsewhere.
    """

    def __init__(self, a: Camera, b: Camera) -> None:
        axis = b.center_w - a.center_w
        axis /= np.linalg.norm(axis)
        # The angle is zero where both look, so that its jump at half a turn lies behind the cameras.
        ahead = a.forward_w + b.forward_w
        ahead = ahead - axis * (axis @ ahead)
        if np.linalg.norm(ahead) < 1e-6:
            ahead = np.eye(3)[int(np.abs(axis).argmin())]
            ahead = ahead - axis * (axis @ ahead)
        ahead /= np.linalg.norm(ahead)
        self._basis = np.stack([ahead, np.cross(axis, ahead), axis])

    def angles(self, ray_w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of unit rays [S, 3]: the angles of their planes in radians [S], NaN near the baseline, and the sine of the
        angle to the baseline [S]: an image of f pixels focal length resolves about 1 / (f sine) radians a pixel."""
        x, y, _ = (ray_w @ self._basis.T).T
        sine = np.hypot(x, y)
        return np.where(sine > _GRAZING, np.arctan2(y, x), np.nan), sine
