"""What is drawn into a camera's picture so that a person sees whether its pose is right."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from recon4d.capture.poses._bench import axes_of, footprint
from recon4d.geometry import project
from recon4d.types import Camera

Colour = tuple[int, int, int]

GRID: Colour = (80, 225, 255)
AXES: tuple[Colour, ...] = ((255, 70, 70), (80, 230, 80), (95, 135, 255))
"""Of x, y and z."""
OTHERS: Colour = (255, 205, 70)
WHITE: Colour = (255, 255, 255)
_SQUARES = 12
"""About how many squares of the grid lie across what the cameras see of the bench."""
_AXIS_SQUARES = 3
_SUBPIXEL_BITS = 4


class World:
    """What there is to draw, in the world: a grid on a plane, the axes, and where the cameras are."""

    def __init__(self, cameras: Sequence[Camera], plane: np.ndarray) -> None:
        origin, x, y = axes_of(plane)
        points = [footprint(camera, plane) for camera in cameras]
        flat = (np.concatenate([*points, origin[None]]) - origin) @ np.stack([x, y], -1)
        low, high = np.percentile(flat, 15, axis=0), np.percentile(flat, 85, axis=0)
        self.square_m = _round_length(max(float((high - low).max()), 1e-3) / _SQUARES)
        """Side of a square of the grid, and distance of the ticks on the axes."""
        low, high = (np.floor(low / self.square_m), np.ceil(high / self.square_m))
        i, j = (np.arange(low[axis], high[axis] + 1) * self.square_m for axis in (0, 1))

        def on_plane(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return origin + a[:, None] * x + b[:, None] * y

        along_y = on_plane(i, np.full_like(i, j[0])), on_plane(i, np.full_like(i, j[-1]))
        along_x = on_plane(np.full_like(j, i[0]), j), on_plane(np.full_like(j, i[-1]), j)
        self.grid = np.concatenate([np.stack(along_y, 1), np.stack(along_x, 1)])
        """[L, 2, 3] metres: the lines' ends."""
        self.axes_at = self._place_for_axes(cameras, on_plane((i[:1] + i[-1:]) / 2, (j[:1] + j[-1:]) / 2)[0])
        """[3] where the axes are drawn: the world's origin, where any camera sees it."""
        self._cameras = cameras

    @staticmethod
    def _place_for_axes(cameras: Sequence[Camera], otherwise: np.ndarray) -> np.ndarray:
        return np.zeros(3) if any(_inside(camera, np.zeros(3)) for camera in cameras) else otherwise

    def draw(self, picture: np.ndarray, camera: Camera) -> np.ndarray:
        """The picture, uint8 [H, W, 3], with grid, axes and the other cameras in it."""
        lines = picture.copy()
        _lines(lines, camera, self.grid, GRID, 1)
        drawn = cv2.addWeighted(lines, 0.75, picture, 0.25, 0)
        for axis, colour in enumerate(AXES):
            direction = np.eye(3)[axis] * self.square_m
            ends = np.stack([self.axes_at, self.axes_at + _AXIS_SQUARES * direction])
            _lines(drawn, camera, ends[None], colour, 2)
            for step in range(1, _AXIS_SQUARES + 1):
                tip = _dot(drawn, camera, self.axes_at + step * direction, 3, colour)
                if tip and step == _AXIS_SQUARES:
                    write(drawn, "xyz"[axis], (tip[0] + 6, tip[1] + 4), 13, colour)
        for other in self._cameras:
            if other.name != camera.name and (place := _dot(drawn, camera, other.center_w, 5, OTHERS)):
                write(drawn, other.name, (place[0] + 9, place[1] + 5), 12, OTHERS)
        return drawn


def write(picture: np.ndarray, text: str, at: tuple[int, int], size: int, colour: Colour) -> None:
    """Writes a line of text on a dark ground; ``at`` is the left end of its base line, moved to where it fits."""
    face = cv2.FontFace("sans")
    _, _, width, _ = cv2.getTextSize((0, 0), text, (0, 0), face, size)
    x = max(2, min(at[0], picture.shape[1] - width - 4))
    y = max(size, min(at[1], picture.shape[0] - size // 3))
    top, bottom, left, right = max(0, y - size), y + size // 3, x - 2, x + width + 2
    picture[top:bottom, left:right] //= 3
    cv2.putText(picture, text, (x, y), colour, face, size)


def _round_length(metres: float) -> float:
    """The nearest of 1, 2, 5 times a power of ten."""
    steps = np.outer(10.0 ** np.arange(-4, 5), [1.0, 2.0, 5.0]).ravel()
    return float(steps[np.abs(np.log(steps / metres)).argmin()])


def _inside(camera: Camera, point_w: np.ndarray) -> bool:
    pixel, depth = project(point_w, camera.K, camera.T_cam_world)
    return bool(depth > 0 and (pixel >= 0).all() and (pixel < [camera.width, camera.height]).all())


def _dot(
    picture: np.ndarray, camera: Camera, point_w: np.ndarray, radius: int, colour: Colour
) -> tuple[int, int] | None:
    """Where a point of the world was marked; None when it is not in the picture."""
    if not _inside(camera, point_w):
        return None
    pixel, _ = project(point_w, camera.K, camera.T_cam_world)
    at = int(pixel[0]), int(pixel[1])
    cv2.circle(picture, at, radius + 1, (0, 0, 0), -1, cv2.LINE_AA)
    cv2.circle(picture, at, radius, colour, -1, cv2.LINE_AA)
    return at


def _lines(picture: np.ndarray, camera: Camera, ends_w: np.ndarray, colour: Colour, thickness: int) -> None:
    """Draws segments [L, 2, 3] of the world, as far as they lie in the camera's view."""
    ends_cam = ends_w @ camera.T_cam_world[:3, :3].T + camera.T_cam_world[:3, 3]
    for start, end in _clipped(ends_cam, camera):
        pixels = [(camera.K @ point)[:2] / point[2] - 0.5 for point in (start, end)]  # OpenCV's first centre is at 0.
        a, b = (np.rint(pixel * 2**_SUBPIXEL_BITS).astype(int).tolist() for pixel in pixels)
        cv2.line(picture, a, b, colour, thickness, cv2.LINE_AA, _SUBPIXEL_BITS)


def _clipped(ends_cam: np.ndarray, camera: Camera) -> np.ndarray:
    """[M, 2, 3] the parts of segments that lie in the view's pyramid (Liang and Barsky 1984, on its five planes).

    What crosses the camera's own plane must be cut before it is projected: behind it, points come out mirrored.
    """
    K = camera.K
    planes = np.stack([
        K[0],  # u >= 0, times the depth
        camera.width * K[2] - K[0],
        K[1],
        camera.height * K[2] - K[1],
        np.array([0.0, 0.0, 1.0]),
    ])  # fmt: skip
    near = 1e-3 * max(1e-3, float(np.abs(ends_cam).max(initial=0.0)))
    distance = ends_cam @ planes.T - np.array([0, 0, 0, 0, near])
    enter, leave = np.zeros(len(ends_cam)), np.ones(len(ends_cam))
    for first, second in zip(distance[:, 0].T, distance[:, 1].T, strict=True):
        change = first - second
        crossing = np.divide(first, change, out=np.zeros_like(first), where=change != 0)
        enter = np.where((first < 0) & (second >= 0), np.maximum(enter, crossing), enter)
        leave = np.where((first >= 0) & (second < 0), np.minimum(leave, crossing), leave)
        leave = np.where((first < 0) & (second < 0), -1.0, leave)
    start, step = ends_cam[:, 0], ends_cam[:, 1] - ends_cam[:, 0]
    parts = np.stack([start + enter[:, None] * step, start + leave[:, None] * step], 1)
    return parts[enter < leave]
