"""Two lens models with one vector of parameters, and their derivatives.

A lens is a row of ``SLOTS`` numbers: focal length f (px), aspect (vertical over horizontal focal length), principal
point (px), then k1, k2, p1, p2, k3 (opencv: Brown-Conrady as OpenCV's calib3d documents it) or k1, k2, k3, k4 and
nothing (fisheye: Kannala and Brandt 2006 as OpenCV's fisheye module documents it). Pixel centres at 0.5.
"""

from __future__ import annotations

from typing import Literal

import cv2
import numpy as np

Kind = Literal["opencv", "fisheye"]
SLOTS = 9
FOCAL, ASPECT, CENTRE_X, CENTRE_Y, COEFFICIENTS = 0, 1, 2, 3, 4


_SPREAD: dict[Kind, tuple[float, ...]] = {
    "opencv": (0.5, 0.5, 0.003, 0.003, 0.5),
    "fisheye": (0.2, 0.1, 0.05, 0.02, np.inf),
}
"""Standard deviations of coefficients over the lenses there are: webcams, machine vision, action cameras."""
_ASPECT_SPREAD = 0.003
"""Of vertical over horizontal focal length: pixels are square, to what scaling in the camera leaves of it."""
_CENTRE_SPREAD = 0.03
"""Of the principal point's distance from the middle, over the picture's longer side."""


def expected(kind: Kind, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """What is known of a lens before it is looked through: means [SLOTS] and standard deviations [SLOTS].

    With all coefficients free a fit follows its noise where the board never was; with a choice of some it is sure of
    what it never saw. With these as a prior, what the board shows decides, and where it shows nothing the error says
    so.
    """
    centre = _CENTRE_SPREAD * max(width, height)
    return plain(1.0, width, height), np.array([np.inf, _ASPECT_SPREAD, centre, centre, *_SPREAD[kind]])


def plain(focal_px: float, width: int, height: int) -> np.ndarray:
    """[SLOTS] a lens without distortion that looks through the picture's middle."""
    lens = np.zeros(SLOTS)
    lens[[FOCAL, ASPECT, CENTRE_X, CENTRE_Y]] = focal_px, 1.0, width / 2, height / 2
    return lens


def used(kind: Kind) -> np.ndarray:
    """[SLOTS] bool, which numbers a model has."""
    return np.arange(SLOTS) < SLOTS - (kind == "fisheye")


def matrix(lens: np.ndarray) -> np.ndarray:
    """[3, 3] K, pixel centres at 0.5."""
    f, aspect, cx, cy = lens[:4]
    return np.array([[f, 0, cx], [0, f * aspect, cy], [0, 0, 1.0]])


def coefficients(lens: np.ndarray, kind: Kind) -> np.ndarray:
    """[5] or [4] in OpenCV's order."""
    return lens[COEFFICIENTS:].copy() if kind == "opencv" else lens[COEFFICIENTS : COEFFICIENTS + 4].copy()


def from_matrix(K: np.ndarray, distortion: np.ndarray) -> np.ndarray:
    """[SLOTS] of a K (pixel centres at 0.5) and up to five coefficients."""
    lens = np.zeros(SLOTS)
    lens[:4] = K[0, 0], K[1, 1] / K[0, 0], K[0, 2], K[1, 2]
    lens[COEFFICIENTS : COEFFICIENTS + len(distortion)] = distortion
    return lens


def project(lens: np.ndarray, kind: Kind, points_cam: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points in front of a camera, seen through its lens.

    Args:
        lens: [SLOTS].
        kind: The model.
        points_cam: [n, 3] metres, in the camera's axes.

    Returns:
        Pixels [n, 2], their derivatives by the points [n, 2, 3] and by the lens [n, 2, SLOTS].
    """
    X, Y, Z = points_cam.T
    Z = np.where(np.abs(Z) < 1e-9, 1e-9, Z)
    if kind == "opencv":
        plane = np.stack([X / Z, Y / Z], -1)
        zero = np.zeros_like(Z)
        d_plane = np.stack([np.stack([1 / Z, zero, -X / Z**2], -1), np.stack([zero, 1 / Z, -Y / Z**2], -1)], -2)
        bent, d_bent, d_coefficients = _brown(plane, lens[COEFFICIENTS:])
        d_point = d_bent @ d_plane
    else:
        bent, d_point, d_coefficients = _kannala(X, Y, Z, lens[COEFFICIENTS : COEFFICIENTS + 4])
    f, aspect = lens[FOCAL], lens[ASPECT]
    scale = np.array([f, f * aspect])
    d_lens = np.zeros((len(X), 2, SLOTS))
    d_lens[:, 0, FOCAL], d_lens[:, 1, FOCAL] = bent[:, 0], aspect * bent[:, 1]
    d_lens[:, 1, ASPECT] = f * bent[:, 1]
    d_lens[:, 0, CENTRE_X] = d_lens[:, 1, CENTRE_Y] = 1.0
    d_lens[:, :, COEFFICIENTS:] = scale[:, None] * d_coefficients
    return bent * scale + lens[[CENTRE_X, CENTRE_Y]], scale[:, None] * d_point, d_lens


def _brown(plane: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distorted plane coordinates [n, 2], their derivatives by the plane [n, 2, 2] and the coefficients [n, 2, 5]."""
    x, y = plane.T
    k1, k2, p1, p2, k3 = k
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    slope = 2 * (k1 + r2 * (2 * k2 + r2 * 3 * k3))  # d radial / d r2, twice
    bent = np.stack(
        [x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x), y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y], -1
    )
    cross = slope * x * y + 2 * p1 * x + 2 * p2 * y
    d_plane = np.stack(
        [
            np.stack([radial + slope * x * x + 2 * p1 * y + 6 * p2 * x, cross], -1),
            np.stack([cross, radial + slope * y * y + 6 * p1 * y + 2 * p2 * x], -1),
        ],
        -2,
    )
    d_k = np.stack(
        [
            np.stack([x * r2, x * r2**2, 2 * x * y, r2 + 2 * x * x, x * r2**3], -1),
            np.stack([y * r2, y * r2**2, r2 + 2 * y * y, 2 * x * y, y * r2**3], -1),
        ],
        -2,
    )
    return bent, d_plane, d_k


def _kannala(X: np.ndarray, Y: np.ndarray, Z: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distorted coordinates [n, 2], their derivatives by the points [n, 2, 3] and the coefficients [n, 2, 5]."""
    rho = np.maximum(np.hypot(X, Y), 1e-12)
    theta = np.arctan2(rho, Z)
    t2 = theta**2
    powers = theta[:, None] * np.stack([t2, t2**2, t2**3, t2**4], -1)  # [n, 4]
    bent = theta + powers @ k
    slope = 1 + t2 * (3 * k[0] + t2 * (5 * k[1] + t2 * (7 * k[2] + t2 * 9 * k[3])))
    direction = np.stack([X, Y], -1) / rho[:, None]
    d_rho, d_z = slope * Z / (rho**2 + Z**2), -slope * rho / (rho**2 + Z**2)
    outer = direction[:, :, None] * direction[:, None, :]
    d_plane = (bent / rho)[:, None, None] * (np.eye(2) - outer) + d_rho[:, None, None] * outer
    d_point = np.concatenate([d_plane, (d_z[:, None] * direction)[:, :, None]], -1)
    d_k = np.concatenate([direction[:, :, None] * powers[:, None, :], np.zeros((len(X), 2, 1))], -1)
    return bent[:, None] * direction, d_point, d_k


def undistorted(lens: np.ndarray, kind: Kind, pixels: np.ndarray) -> np.ndarray:
    """Pixels [n, 2] to where their rays meet the plane z = 1 in the camera's axes, [n, 2]."""
    K, k = matrix(lens), coefficients(lens, kind)
    source = np.ascontiguousarray(pixels, np.float64).reshape(-1, 1, 2)
    if kind == "fisheye":
        return cv2.fisheye.undistortPoints(source, K, k).reshape(-1, 2)
    return cv2.undistortPoints(source, K, k).reshape(-1, 2)
