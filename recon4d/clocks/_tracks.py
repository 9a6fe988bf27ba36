"""Moving image points of one camera, followed through its video.

Corners (Shi and Tomasi 1994) are looked for where the picture has just changed. Each is followed by pyramidal
Lucas-Kanade (Bouguet 2000) from frame to frame, forwards and backwards, and then laid onto the frame in which it was
found: steps alone add up errors, which are what a slow point's time is lost in. What does not come back to where it
was, looks otherwise, or never moves, is dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import cv2
import numpy as np

from recon4d.capture import RigCamera

_LONG_SIDE_PX = 640
"""Larger pictures are made smaller before anything is followed."""
_LIVE = 300
"""Points followed at a time."""
_APART_PX = 3
_CHANGED = 6.0
"""Levels out of 255 that a smoothed pixel must have changed by; sensors and codecs stay below."""
_LAG_S = 0.06
"""Over which the picture is compared with itself: slow motion shows, and fast motion is not smeared far."""
_LOOK_EVERY_S = 0.1
_RETURN_PX = 0.3
"""How far following forwards and backwards may miss."""
_CORRECTED_PX = 1.5
"""How far the frame in which a point was found may correct what the steps say."""
_LONGEST_S = 1.5
"""Then a point is found anew: a corner of a turning thing looks otherwise after a while, and slides along it."""
_SHORTEST_S = 0.25
_MOVED_PX = 3.0
"""Extent of a point's motion, at the size that is looked at."""
_BORDER_PX = 4
_MARGIN_PX = 24
"""Around the points of one frame, when only that part of the pictures is looked at."""
_STOP = (cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, 30, 0.01)
_STEP = {"winSize": (11, 11), "maxLevel": 3, "criteria": _STOP}
_AGAIN = {"winSize": (15, 15), "maxLevel": 1, "criteria": _STOP, "flags": cv2.OPTFLOW_USE_INITIAL_FLOW}


@dataclass(frozen=True, kw_only=True)
class Tracks:
    """Moving points of one camera; the samples of track i are start[i] : start[i + 1]."""

    start: np.ndarray
    """[N + 1] int64."""
    frame: np.ndarray
    """[S] int64, the frame of each sample; consecutive within a track."""
    ray_w: np.ndarray
    """[S, 3] float64, unit direction of each sample from the camera's centre, in the world."""
    pixel_rad: float
    """Angle of a pixel of the video at the centre of the picture."""
    speed_px_s: float
    """Upper quartile of the points' speeds, pixels of the video per second; 0 where there are none."""

    def __len__(self) -> int:
        return len(self.start) - 1


@dataclass(kw_only=True)
class _Point:
    """A corner that is being followed, pixel centres at 0."""

    found_in: np.ndarray
    """The grey picture in which it was found."""
    first: int
    """That frame's number."""
    xy: list[tuple[float, float]]


class Follower:
    """Takes a camera's frames one by one and keeps the moving points of them.

    Args:
        rig: the camera.
        interval_s: usual time between two frames.
    """

    def __init__(self, rig: RigCamera, interval_s: float) -> None:
        camera = rig.camera
        self._rig = rig
        self._interval_s = interval_s
        self._scale = min(1.0, _LONG_SIDE_PX / max(camera.width, camera.height))
        self._size = (round(camera.width * self._scale), round(camera.height * self._scale))
        self._recent: deque[np.ndarray] = deque(maxlen=max(1, round(_LAG_S / interval_s)) + 1)
        self._look_every = max(1, round(_LOOK_EVERY_S / interval_s))
        self._longest = max(8, round(_LONGEST_S / interval_s))
        self._count = 0
        self._live: list[_Point] = []
        self._done: list[tuple[int, np.ndarray]] = []
        """First frame and path [n, 2] of points that are followed no longer; without the picture, which is large."""

    def see(self, frame: np.ndarray) -> None:
        """Takes the next frame, uint8 [H, W, 3]."""
        grey = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
        if self._scale < 1:
            grey = cv2.resize(grey, self._size, interpolation=cv2.INTER_AREA)
        if self._live:
            self._follow(grey)
        self._recent.append(grey)
        if self._count % self._look_every == 0:
            self._begin_again(grey)
            self._look(grey)
        self._count += 1

    def tracks(self) -> Tracks:
        """What was followed until now, in rays of the world."""
        shortest = max(5, round(_SHORTEST_S / self._interval_s))
        found = [
            (first, path)
            for first, path in [*self._done, *((point.first, np.array(point.xy)) for point in self._live)]
            if len(path) >= shortest and np.ptp(path, axis=0).max() >= _MOVED_PX
        ]
        paths = [path for _, path in found]
        steps = [np.linalg.norm(np.diff(path, axis=0), axis=1) for path in paths]
        speed = float(np.percentile(np.concatenate(steps), 75)) / self._interval_s / self._scale if paths else 0.0
        pixels = (np.concatenate(paths) + 0.5) / self._scale if paths else np.zeros((0, 2))
        frame = np.concatenate([first + np.arange(len(path)) for first, path in found]) if found else np.zeros(0)
        return Tracks(
            start=np.cumsum([0, *map(len, paths)]).astype(np.int64),
            frame=frame.astype(np.int64),
            ray_w=rays(self._rig, pixels),
            pixel_rad=1.0 / float(np.sqrt(self._rig.camera.K[0, 0] * self._rig.camera.K[1, 1])),
            speed_px_s=speed,
        )

    def _follow(self, grey: np.ndarray) -> None:
        old = np.array([point.xy[-1] for point in self._live], np.float32)
        new, found, _ = cv2.calcOpticalFlowPyrLK(self._recent[-1], grey, old, old.copy(), **_STEP)
        back, returned, _ = cv2.calcOpticalFlowPyrLK(grey, self._recent[-1], new, new.copy(), **_STEP)
        kept = (found[:, 0] > 0) & (returned[:, 0] > 0) & (np.linalg.norm(back - old, axis=1) < _RETURN_PX)
        first = np.array([point.first for point in self._live])
        for number in np.unique(first[kept]):
            rows = np.flatnonzero(kept & (first == number))
            new[rows], kept[rows] = self._laid_onto([self._live[row] for row in rows], grey, new[rows])
        kept &= (new > _BORDER_PX).all(1) & (new < np.subtract(self._size, _BORDER_PX + 1)).all(1)
        for point, (x, y) in zip(self._live, new, strict=True):
            point.xy.append((float(x), float(y)))
        for row in np.flatnonzero(~kept):
            self._live[row].xy.pop()
            self._end(self._live[row])
        self._live = [point for point, keep in zip(self._live, kept, strict=True) if keep]

    @staticmethod
    def _laid_onto(points: list[_Point], grey: np.ndarray, guess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where points that were found in one frame are in this one, [n, 2], and whether they still look as there.

        Only the part of both pictures around the points is looked at.
        """
        origin = np.array([point.xy[0] for point in points], np.float32)
        both = np.concatenate([origin, guess])
        left, top = np.maximum(both.min(0) - _MARGIN_PX, 0).astype(int)
        right, bottom = (both.max(0) + _MARGIN_PX).astype(int)
        corner = np.array([left, top], np.float32)
        there, here = points[0].found_in[top:bottom, left:right], grey[top:bottom, left:right]
        exact, found, _ = cv2.calcOpticalFlowPyrLK(there, here, origin - corner, guess - corner, **_AGAIN)
        exact = exact + corner
        return exact, (found[:, 0] > 0) & (np.linalg.norm(exact - guess, axis=1) < _CORRECTED_PX)

    def _begin_again(self, grey: np.ndarray) -> None:
        """Ends the points that were followed long enough, and finds them anew where they are."""
        for index, point in enumerate(self._live):
            if len(point.xy) >= self._longest:
                self._end(point)
                self._live[index] = _Point(found_in=grey, first=self._count, xy=[point.xy[-1]])

    def _end(self, point: _Point) -> None:
        self._done.append((point.first, np.array(point.xy)))

    def _look(self, grey: np.ndarray) -> None:
        change = cv2.GaussianBlur(cv2.absdiff(grey, self._recent[0]), (5, 5), 0)
        moving = cv2.dilate((change > _CHANGED).astype(np.uint8), np.ones((5, 5), np.uint8))
        for point in self._live:
            cv2.circle(moving, (round(point.xy[-1][0]), round(point.xy[-1][1])), _APART_PX, (0.0,), -1)
        room = _LIVE - len(self._live)
        corners = cv2.goodFeaturesToTrack(grey, room, 0.01, _APART_PX, mask=moving, blockSize=5) if room > 0 else None
        if corners is not None:
            found = [(float(x), float(y)) for x, y in corners.reshape(-1, 2)]
            self._live += [_Point(found_in=grey, first=self._count, xy=[xy]) for xy in found]


def rays(rig: RigCamera, pixels: np.ndarray) -> np.ndarray:
    """[S, 3] unit directions in the world of filmed pixels [S, 2] (pixel centres at 0.5), the lens undone."""
    camera, lens = rig.camera, rig.distortion
    if len(pixels) == 0:
        return np.zeros((0, 3))
    if lens is None:
        y = (pixels[:, 1] - camera.K[1, 2]) / camera.K[1, 1]
        x = (pixels[:, 0] - camera.K[0, 2] - camera.K[0, 1] * y) / camera.K[0, 0]
        plane = np.stack([x, y], -1)
    else:
        undistort = cv2.fisheye.undistortPoints if lens.model == "fisheye" else cv2.undistortPoints
        plane = undistort(pixels[:, None].astype(np.float64), camera.K, lens.coefficients)[:, 0]
    directions = np.column_stack([plane, np.ones(len(plane))]) @ camera.T_cam_world[:3, :3]
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)
