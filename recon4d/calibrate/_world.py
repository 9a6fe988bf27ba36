"""Where the world is: level by the cameras, by a board on the bench, or by a tag of the robot's base."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from scipy.spatial.transform import Rotation

from recon4d.calibrate import _lens
from recon4d.calibrate._board import dictionaries
from recon4d.calibrate._bundle import Noise, Observations, State, normal
from recon4d.calibrate._detect import TagFinder
from recon4d.calibrate._fit import placed
from recon4d.capture import frames
from recon4d.errors import CalibrationError, ConfigError, Stopped
from recon4d.events import ShouldStop

_TAG_LOOKS = 40
"""Frames of each video in which the base's tag is looked for."""
_TAG_STILL_PX = 2.0
_TAG_SIZE = 0.05
_TAG_NOISE_PX = 0.2
"""Of a tag's corner, at least: the same in every frame, so that many frames do not make it less."""


@dataclass(frozen=True, kw_only=True)
class BaseTag:
    """A tag that stays where it is: the robot's base, or something whose place in the base is known.

    The tag's own frame: origin in its middle, x to the right and y to the top of its print, z out of it.

    Raises:
        ConfigError: no such dictionary, number or size.
    """

    number: int
    size_m: float
    """Side of its black frame."""
    dictionary: str = "APRILTAG_36h11"
    T_base_tag: np.ndarray | None = None
    """[4, 4] where the tag is in the robot's base; None when the tag is the base."""

    def __post_init__(self) -> None:
        if f"DICT_{self.dictionary}" not in dictionaries():
            raise ConfigError(f"there is no dictionary '{self.dictionary}' for the base's tag")
        if not (np.isfinite(self.size_m) and 1e-3 <= self.size_m <= 10) or self.number < 0:
            raise ConfigError(f"a base tag with number {self.number} and a side of {self.size_m:g} m is not possible")

    @property
    def corners_m(self) -> np.ndarray:
        """[4, 3] in the tag's frame, in the order in which OpenCV finds them: clockwise from the top left."""
        return np.array([[-1, 1, 0], [1, 1, 0], [1, -1, 0], [-1, -1, 0.0]]) * self.size_m / 2


@dataclass(frozen=True, kw_only=True)
class World:
    """A frame for everything, and what is known of it."""

    T_world_rig: np.ndarray
    """[4, 4]"""
    plane: np.ndarray | None
    """[4] the bench, in the world."""
    words: str
    """Where the world is, for people."""


def level(state: State) -> World:
    """For want of better: up as the cameras have it on average, the origin amid the boards."""
    up = -state.T_cam_rig[:, 1, :3].mean(0)
    if np.linalg.norm(up) < 0.1:
        up = -state.T_cam_rig[0, 1, :3]
    T = _upright(up, state.T_cam_rig[0, 0, :3], state.T_rig_board[:, :3, 3].mean(0))
    return World(
        T_world_rig=T,
        plane=None,
        words="up is the cameras' up on average and the origin lies amid the boards, for nothing says where the bench"
        " is; film the board lying on it and give align",
    )


def on_bench(T_rig_boards: np.ndarray, thickness_m: float) -> World:
    """A board that lies on the bench, at one or several instants: z = 0 is the bench under it, x along its columns,
    y towards its top, the origin under its first corner."""
    T = T_rig_boards[len(T_rig_boards) // 2].copy()
    T[:3, :3] = Rotation.from_matrix(T_rig_boards[:, :3, :3]).mean().as_matrix()
    T[:3, 3] = np.median(T_rig_boards[:, :3, 3], axis=0)
    T_world_board = np.diag([1.0, -1.0, -1.0, 1.0])
    T_world_board[2, 3] = thickness_m
    return World(
        T_world_rig=T_world_board @ np.linalg.inv(T),
        plane=np.array([0, 0, 1.0, 0]),
        words="z = 0 is the bench under the board that lay on it; x runs along its columns, the origin is under its"
        " first corner",
    )


def at_base(T_rig_tag: np.ndarray, sigma_rad: float, tag: BaseTag, bench: World | None) -> World:
    """The robot's base; the bench, where it is known, as a plane in it."""
    T_base_tag = np.eye(4) if tag.T_base_tag is None else tag.T_base_tag
    T = T_base_tag @ np.linalg.inv(T_rig_tag)
    plane = None
    if bench is not None and bench.plane is not None:
        T_bench_base = bench.T_world_rig @ np.linalg.inv(T)
        plane = bench.plane @ T_bench_base  # Planes go the other way from points.
    degrees = np.degrees(sigma_rad)
    words = (
        f"the robot's base, by tag {tag.number}, which is turned right to {degrees:.2f} degrees (a standard deviation):"
        f" {1e3 * sigma_rad:.0f} mm at a metre from it; a larger tag, or one that more cameras see, is surer"
    )
    return World(T_world_rig=T, plane=plane, words=words)


def moved(state: State, world: World) -> State:
    """Poses in the world instead of the rig's own frame."""
    T_rig_world = np.linalg.inv(world.T_world_rig)
    return replace(state, T_cam_rig=state.T_cam_rig @ T_rig_world, T_rig_board=world.T_world_rig @ state.T_rig_board)


def find_tag(
    videos: Mapping[str, Path], state: State, sigma_px: np.ndarray, tag: BaseTag, should_stop: ShouldStop
) -> tuple[np.ndarray, float]:
    """[4, 4] T_rig_tag, from all cameras that see it, and the standard deviation of its rotation in radians.

    Raises:
        CalibrationError: it is seen by none, moves, or has another size.
        CaptureError: a video cannot be read.
        Stopped: ``should_stop`` said so.
    """
    seen = {}
    for camera, (name, path) in enumerate(videos.items()):
        corners = _tag_in(name, path, tag, should_stop)
        if corners is not None:
            seen[camera] = corners
    if not seen:
        raise CalibrationError(
            f"the base's tag {tag.number} of {tag.dictionary} is seen in no video; check its number and dictionary, or"
            " leave base_tag out"
        )
    zeros = np.zeros((4 * len(seen), 2))
    observations = Observations(
        camera=np.repeat(np.array(sorted(seen)), 4),
        view=np.zeros(4 * len(seen), int),
        point_m=np.tile(tag.corners_m, (len(seen), 1)),
        pixel=np.concatenate([seen[camera] for camera in sorted(seen)]),
        motion=zeros,
        bend=zeros,
        late_s=zeros[:, 0],
        row=zeros[:, 0],
    )
    noise = Noise(sigma_px=np.maximum(sigma_px, _TAG_NOISE_PX))
    found = placed(state, observations, 1, noise, should_stop)
    _check_tag_size(found, observations, tag)
    variances = np.diag(np.linalg.inv(normal(found, observations, noise).vv.sum(0)))
    return found.T_rig_board[0], float(np.sqrt(variances[:3].sum()))


def _tag_in(name: str, path: Path, tag: BaseTag, should_stop: ShouldStop) -> np.ndarray | None:
    """[4, 2] px, the median of its corners over some frames; None when it is not there."""
    finder = TagFinder(cv2.aruco.getPredefinedDictionary(dictionaries()[f"DICT_{tag.dictionary}"]))
    found: list[np.ndarray] = []
    with closing(frames(path, camera=name)) as decoded:
        for _, picture in decoded:
            if should_stop():
                raise Stopped("stopped while looking for the base's tag; detections of the board are kept")
            numbers, corners = finder(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))
            if (numbers == tag.number).sum() == 1:
                found.append(corners[numbers == tag.number][0])
            if len(found) >= _TAG_LOOKS:
                break
    if len(found) < 2:
        return None
    stack = np.stack(found)
    middle = np.median(stack, axis=0)
    off = float(np.percentile(np.linalg.norm(stack - middle, axis=-1), 90))
    if off > _TAG_STILL_PX:
        raise CalibrationError(
            f"the base's tag {tag.number} moves by {off:.1f} px in the picture; it must stay where it is", camera=name
        )
    return middle


def _check_tag_size(state: State, observations: Observations, tag: BaseTag) -> None:
    """Where two cameras see it, its sides can be measured."""
    cameras = np.unique(observations.camera)
    if len(cameras) < 2:
        return
    rows = {point: [] for point in range(4)}
    for camera in cameras:
        own = observations.only(observations.camera == camera)
        rays = _lens.undistorted(state.lenses[camera], state.kinds[camera], own.pixel)
        T = state.T_cam_rig[camera]
        for point, ray in enumerate(rays):
            rows[point] += [ray[0] * T[2] - T[0], ray[1] * T[2] - T[1]]
    places = [np.linalg.svd(np.stack(rows[point]))[2][-1] for point in range(4)]
    corners = np.stack([place[:3] / place[3] for place in places])
    side = float(np.median(np.linalg.norm(corners - np.roll(corners, 1, axis=0), axis=-1)))
    if abs(side / tag.size_m - 1) > _TAG_SIZE:
        raise CalibrationError(
            f"the base's tag measures {side * 1e3:.1f} mm, given were {tag.size_m * 1e3:.1f} mm: the side is that of"
            " the black frame. Either it, or the board's square, is given wrong"
        )


def _upright(up: np.ndarray, right: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """T_world_rig [4, 4] with z along ``up`` and x as near to ``right`` as can be."""
    z = up / np.linalg.norm(up)
    x = right - z * (right @ z)
    if np.linalg.norm(x) < 1e-6:
        x = np.cross(z, [0.0, 1.0, 0.0]) if abs(z[1]) < 0.9 else np.cross(z, [1.0, 0.0, 0.0])
    x = x / np.linalg.norm(x)
    R = np.stack([x, np.cross(z, x), z])
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, -R @ origin
    return T
