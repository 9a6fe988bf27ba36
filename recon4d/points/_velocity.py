"""Velocities of seeds, from the optical flow of every camera that sees them."""

from __future__ import annotations

from collections import OrderedDict

import cv2
import numpy as np

from recon4d.points._foreground import Foreground
from recon4d.points._rays import pixels_of

_SAME_SURFACE = 0.06  # Mean channel difference at which another camera's word counts about a third.
_STILL_IN_DEPTH = 0.05  # Weight of "no motion along the ray", against 1 for a camera's own flow.


class Flows:
    """Dense image velocities of clips, computed when asked for and remembered for a while.

    Args:
        foreground: holds the clips.
        gap_s: time between the two frames that are compared.
    """

    _REMEMBERED = 48

    def __init__(self, foreground: Foreground, *, gap_s: float) -> None:
        self._clips = foreground.clips
        self._gap_s = gap_s
        self._search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        self._known: OrderedDict[tuple[int, int], np.ndarray | None] = OrderedDict()

    def at(self, camera: int, frame: int) -> np.ndarray | None:
        """[H, W, 2] float32 pixels per second; None when no frame is near enough in time.

        The later frame is taken where there is one within twice the gap, else the earlier one. Dense inverse
        search (Kroeger et al. 2016).
        """
        key = (camera, frame)
        if key not in self._known:
            self._known[key] = self._compute(camera, frame)
            if len(self._known) > self._REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _compute(self, camera: int, frame: int) -> np.ndarray | None:
        clip = self._clips[camera]
        partner = _partner(clip.times, frame, self._gap_s)
        if partner is None:
            return None
        grey = [cv2.cvtColor(clip.frames[i], cv2.COLOR_RGB2GRAY) for i in (frame, partner)]
        flow = self._search.calc(grey[0], grey[1], np.zeros((*grey[0].shape, 2), np.float32))
        return flow / np.float32(clip.times[partner] - clip.times[frame])


def scene_flow(
    foreground: Foreground, flows: Flows, camera: int, frame: int, u: np.ndarray, v: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """[n, 3] metres per second in the world, of points that one camera sees at pixels (u, v).

    Each camera's flow gives two equations for a point's velocity (Vedula et al. 1999). Other cameras are heard as
    far as they see something of the same colour move there; without them the point is taken to keep its depth.
    """
    clip = foreground.clips[camera]
    own = flows.at(camera, frame)
    if own is None:
        return np.zeros((len(u), 3))
    forward = clip.camera.forward_w
    A = np.broadcast_to(_STILL_IN_DEPTH * np.outer(forward, forward), (len(u), 3, 3)).copy()
    b = np.zeros((len(u), 3))
    _add_equations(A, b, clip.camera.K, clip.camera.T_cam_world, points, own[v, u], np.ones(len(u)))
    color = clip.frames[frame][v, u].astype(np.float32)
    for other, seen_by in enumerate(foreground.clips):
        if other == camera:
            continue
        nearest = seen_by.nearest(clip.times[frame])
        flow = flows.at(other, nearest)
        if flow is None:
            continue
        column, row, seen = pixels_of(seen_by.camera, points.astype(np.float32))
        difference = np.abs(seen_by.frames[nearest][row, column] - color).mean(-1) / 255
        moving = foreground.mask(other, nearest)[row, column] > 0
        weight = np.where(seen & moving, np.exp(-((difference / _SAME_SURFACE) ** 2)), 0)
        camera_ = seen_by.camera
        _add_equations(A, b, camera_.K, camera_.T_cam_world, points, flow[row, column], weight)
    return np.linalg.solve(A, b[..., None])[..., 0]


def _add_equations(
    A: np.ndarray,
    b: np.ndarray,
    K: np.ndarray,
    T_cam_world: np.ndarray,
    points: np.ndarray,
    flow: np.ndarray,
    weight: np.ndarray,
) -> None:
    """Adds a camera's normal equations, in metres across its rays."""
    points_cam = points @ T_cam_world[:3, :3].T + T_cam_world[:3, 3]
    slope = points_cam[:, :2] / points_cam[:, 2:]
    # d(pixel)/dt * depth / focal = v_xy - slope * v_z, in camera axes.
    rows = T_cam_world[None, :2, :3] - slope[:, :, None] * T_cam_world[None, 2:3, :3]  # [n, 2, 3]
    right = flow / K[[0, 1], [0, 1]] * points_cam[:, 2:]
    A += weight[:, None, None] * np.einsum("nij,nik->njk", rows, rows)
    b += weight[:, None] * np.einsum("nij,ni->nj", rows, right)


def _partner(times: np.ndarray, frame: int, gap_s: float) -> int | None:
    for sign in (1, -1):
        other = int(np.argmin(np.abs(times - (times[frame] + sign * gap_s))))
        distance = sign * (times[other] - times[frame])
        if 0.1 * gap_s < distance < 2 * gap_s:
            return other
    return None
