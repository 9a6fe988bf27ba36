"""From a file's world and units to the bench's: metres, +Z up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recon4d.capture._findings import Finding
from recon4d.capture.calibrations._evidence import centres_of
from recon4d.capture.calibrations._found import Found, Reading
from recon4d.capture.calibrations._readings import UNITS
from recon4d.errors import CalibrationError, ConfigError

UPS = {
    "x": (1.0, 0.0, 0.0), "-x": (-1.0, 0.0, 0.0),
    "y": (0.0, 1.0, 0.0), "-y": (0.0, -1.0, 0.0),
    "z": (0.0, 0.0, 1.0), "-z": (0.0, 0.0, -1.0),
}  # fmt: skip
CAMERAS_UP = "cameras"
_Z = np.array([0.0, 0.0, 1.0])
_TELLING = 0.3


@dataclass(frozen=True, kw_only=True)
class ReadConfig:
    """How a calibration is to be read where its file leaves it open, or says it wrongly."""

    reading: str | None = None
    """Of the pose matrices: w2c or c2w, then opencv, opengl or llff, such as "c2w-opengl"; "-transposed" behind it
    when 3x3 parts are written column by column. None finds out."""
    units: str | None = None
    """Of lengths: m, dm, cm, mm, in or ft. None finds out."""
    scale: float | None = None
    """Metres per unit of the file."""
    distance: tuple[str, str, float] | None = None
    """Two cameras and how many metres apart they stand: gives the scale."""
    up: str | None = None
    """Which way is up in the file's world: x, -x, y, -y, z, -z; or "cameras" for the mean of the pictures' up. The
    world is turned so that it becomes +Z."""
    plane: tuple[float, float, float, float] | None = None
    """The bench in the file's world and units, a x + b y + c z + d = 0: becomes z = 0, with the cameras above it."""
    size: tuple[int, int] | None = None
    """Width and height in pixels, for cameras whose file does not give them."""

    def __post_init__(self) -> None:
        if self.reading is not None:
            Reading.parse(self.reading)
        if self.units is not None and self.units not in UNITS:
            raise ConfigError(f"units must be one of {', '.join(UNITS)}; they are '{self.units}'")
        if self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise ConfigError(f"scale must be positive; it is {self.scale}")
        if self.distance is not None and not (np.isfinite(self.distance[2]) and self.distance[2] > 0):
            raise ConfigError(f"the distance must be positive metres; it is {self.distance[2]}")
        given = [n for n in ("units", "scale", "distance") if getattr(self, n) is not None]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} all say how long a unit is; give one")
        if self.up is not None and self.up not in (*UPS, CAMERAS_UP):
            raise ConfigError(f"up must be one of {', '.join(UPS)} or {CAMERAS_UP}; it is '{self.up}'")
        if self.plane is not None:
            plane = np.asarray(self.plane, np.float64)
            if plane.shape != (4,) or not np.isfinite(plane).all() or np.linalg.norm(plane[:3]) < 1e-9:
                raise ConfigError(f"plane must be a,b,c,d with (a, b, c) not 0; it is {self.plane}")
            if self.up is not None:
                raise ConfigError("plane and up both say which way is up; give one")
        if self.size is not None and min(self.size) < 1:
            raise ConfigError(f"size must be positive; it is {self.size}")


def scale_by_distance(found: Found, poses: Sequence[np.ndarray], distance: tuple[str, str, float]) -> float:
    """Metres per unit, from two cameras' distance in metres.

    Raises:
        CalibrationError: a camera is not there, or both stand in one place.
    """
    names = [camera.name for camera in found.cameras]
    for name in distance[:2]:
        if name not in names:
            raise CalibrationError(f"--distance names the camera '{name}'; there are {names}")
    centres = centres_of(poses)
    apart = float(np.linalg.norm(centres[names.index(distance[0])] - centres[names.index(distance[1])]))
    if apart < 1e-12:
        raise CalibrationError(f"the cameras '{distance[0]}' and '{distance[1]}' stand in one place; give two others")
    return distance[2] / apart


def place(
    poses: Sequence[np.ndarray], metres: float, config: ReadConfig, plane: np.ndarray | None
) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Poses [4, 4] T_cam_world in metres and a z-up world, and the bench plane there, where it is known.

    Args:
        poses: T_cam_world in the file's world and units.
        metres: per unit.
        config: ``up`` or ``plane`` turn the world.
        plane: [4] the bench in the file's world and units, where the file knows it.
    """
    turn = np.eye(4)
    if config.plane is not None:
        normal, offset = _facing(np.asarray(config.plane, np.float64), poses)
        turn[:3, :3] = _turned_up(normal)
        turn[2, 3] = offset
        plane = np.asarray(config.plane, np.float64)
    elif config.up is not None:
        up = pictures_up(poses) if config.up == CAMERAS_UP else np.array(UPS[config.up])
        turn[:3, :3] = _turned_up(up)
    back = np.linalg.inv(turn)
    placed = [pose @ back for pose in poses]
    for pose in placed:
        pose[:3, 3] *= metres
    if plane is not None:
        plane = plane @ back
        plane = np.append(plane[:3], plane[3] * metres) / np.linalg.norm(plane[:3])
        plane = -plane if plane[2] < 0 else plane
    return placed, plane


def pictures_up(poses: Sequence[np.ndarray]) -> np.ndarray:
    """[3] unit, the mean of the directions that are up in the cameras' pictures; zero where they cancel out."""
    mean = -np.mean([pose[1, :3] for pose in poses], axis=0)
    norm = float(np.linalg.norm(mean))
    return mean / norm if norm > _TELLING else np.zeros(3)


def about_up(poses: Sequence[np.ndarray], found: Found, config: ReadConfig) -> Finding | None:
    """What is to be said about the world's up after placing: nothing when it is known and the pictures agree."""
    up = pictures_up(poses)
    nearest = max(UPS, key=lambda name: float(up @ UPS[name]))
    shown = up.round(2).tolist()
    if config.up is not None or config.plane is not None:
        return None
    if up.any() and nearest != "z":
        return Finding(
            severity="warning",
            message=f"up in the pictures is {shown} in the calibration's world, which is taken as z-up",
            advice=f"turn it with --up={nearest}, --up={CAMERAS_UP} or --plane; give --up=z if it is right",
            calibration=True,
        )
    if not found.z_up:
        return Finding(
            severity="note",
            message=f"the format does not say which way is up; +Z is taken (up in the pictures: {shown})",
            advice=f"--up={CAMERAS_UP} or --plane turn the world",
            calibration=True,
        )
    return None


def _facing(plane: np.ndarray, poses: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
    """Unit normal and offset of a plane, with most cameras on its positive side."""
    plane = plane / np.linalg.norm(plane[:3])
    above = np.median(centres_of(poses) @ plane[:3] + plane[3])
    plane = -plane if above < 0 else plane
    return plane[:3], float(plane[3])


def _turned_up(up: np.ndarray) -> np.ndarray:
    """[3, 3] the smallest rotation that takes ``up`` to +Z.

    Raises:
        CalibrationError: ``up`` is zero: the pictures' ups cancel out.
    """
    if not up.any():
        raise CalibrationError("the cameras' pictures share no up; give --up with an axis, or --plane")
    axis, cosine = np.cross(up, _Z), float(up @ _Z)
    if cosine < -1 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    S = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + S + S @ S / (1 + cosine)
