"""A calibration that was made for pictures of another size: what may have happened, and what puts it right."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from recon4d.capture._rig import Distortion, RigCamera
from recon4d.errors import CalibrationError

Fit = Literal["scale", "crop", "rotate-left", "rotate-right"]
FITS: tuple[Fit, ...] = get_args(Fit)
_SAME_SHAPE = 0.01


def fitted_to(camera: RigCamera, size: tuple[int, int], how: Fit | None) -> RigCamera:
    """The calibration of a camera for pictures of another size.

    Args:
        camera: As it was calibrated.
        size: Width and height of its video's pictures, upright.
        how: What was done to pictures since: ``scale`` resized them, ``crop`` kept their middle, ``rotate-left`` and
            ``rotate-right`` turned them by a quarter, counter-clockwise and clockwise. None: nothing.

    Raises:
        CalibrationError: sizes differ and it is not told why, or what is told does not lead to this size.
    """
    pinhole = camera.camera
    if size == (pinhole.width, pinhole.height):
        return camera
    sizes = f"the calibration is for {pinhole.width}x{pinhole.height}, the video is {size[0]}x{size[1]}"
    causes = _causes((pinhole.width, pinhole.height), size)
    if how is None or how not in causes:
        told = f", which '{how}' does not explain" if how else ""
        options = "; ".join(f"--fit {cause} if {text}" for cause, text in causes.items())
        raise CalibrationError(
            f"{sizes}{told}; {options or 'no resizing, cropping or turning explains it: calibrate at the video size'}",
            camera=camera.name,
        )
    if how == "scale":
        return replace(camera, camera=pinhole.resized(*size))
    if how == "crop":
        x0, y0 = (pinhole.width - size[0]) // 2, (pinhole.height - size[1]) // 2
        return replace(camera, camera=pinhole.crop(x0, y0, x0 + size[0], y0 + size[1]))
    return _turned(camera, left=how == "rotate-left")


def _causes(calibrated: tuple[int, int], video: tuple[int, int]) -> dict[str, str]:
    """By fit: when it would be right; only those that lead from the one size to the other."""
    (w, h), (width, height) = calibrated, video
    causes = {}
    if abs(width * h / (height * w) - 1) < _SAME_SHAPE:
        causes["scale"] = f"pictures were resized (by {width / w:.4g})"
    if width <= w and height <= h:
        causes["crop"] = "the middle of the pictures was kept"
    if (width, height) == (h, w) and w != h:
        causes["rotate-left"] = "pictures were turned counter-clockwise"
        causes["rotate-right"] = "pictures were turned clockwise"
    return causes


def _turned(camera: RigCamera, *, left: bool) -> RigCamera:
    """The camera whose pictures are turned by a quarter: axes, K and tangential distortion turn along."""
    pinhole, K = camera.camera, camera.camera.K
    if K[0, 1] != 0:
        raise CalibrationError("a camera with skew cannot be turned", camera=camera.name)
    # Left: what was right is up now (x' = y, y' = -x). Right: what was down is left now (x' = -y, y' = x).
    sign = 1.0 if left else -1.0
    turn = np.array([[0.0, sign, 0, 0], [-sign, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    cx, cy = (K[1, 2], pinhole.width - K[0, 2]) if left else (pinhole.height - K[1, 2], K[0, 2])
    turned = replace(
        pinhole,
        width=pinhole.height,
        height=pinhole.width,
        K=np.array([[K[1, 1], 0.0, cx], [0.0, K[0, 0], cy], [0.0, 0.0, 1.0]]),
        T_cam_world=turn @ pinhole.T_cam_world,
    )
    return RigCamera(camera=turned, distortion=_turned_lens(camera, sign))


def _turned_lens(camera: RigCamera, sign: float) -> Distortion | None:
    lens = camera.distortion
    if lens is None or lens.model == "fisheye":
        return lens
    k = np.asarray(lens.coefficients, np.float64).copy()
    if k[8:].any():
        raise CalibrationError("a lens with prism or tilt coefficients cannot be turned", camera=camera.name)
    # Left turns (p1, p2) to (-p2, p1), right to (p2, -p1): see the projection with x' and y' put in.
    k[2], k[3] = -sign * k[3], sign * k[2]
    return Distortion(model="opencv", coefficients=k)
