"""What a calibration file says, before it is settled how its poses are meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from recon4d.capture._findings import Finding
from recon4d.capture._rig import Distortion
from recon4d.capture.calibrations._untrusted import Untrusted
from recon4d.errors import ConfigError
from recon4d.geometry import OPENGL_TO_OPENCV

Direction = Literal["w2c", "c2w"]
Axes = Literal["opencv", "opengl", "llff"]

# Camera axes (down, right, backwards), as LLFF's files have them, to OpenCV's.
_LLFF_TO_OPENCV = np.array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, -1, 0], [0, 0, 0, 1]])
_TO_OPENCV: dict[Axes, np.ndarray] = {"opencv": np.eye(4), "opengl": OPENGL_TO_OPENCV, "llff": _LLFF_TO_OPENCV}


@dataclass(frozen=True)
class Reading:
    """How a file's pose matrices (a 3x3 part and a translation) are meant."""

    direction: Direction
    """World to camera, or camera to world."""
    axes: Axes
    """The camera's: x right, y down, z forward; x right, y up, z back; or x down, y right, z back."""
    transposed: bool = False
    """Whether the 3x3 part is written column by column; the translation is where it belongs."""

    def __str__(self) -> str:
        return f"{self.direction}-{self.axes}" + ("-transposed" if self.transposed else "")

    @classmethod
    def parse(cls, text: str) -> Reading:
        """The reading of a name such as ``c2w-opengl``.

        Raises:
            ConfigError: it is none.
        """
        known = {
            str(reading): reading
            for direction in get_args(Direction)
            for axes in get_args(Axes)
            for reading in (cls(direction, axes), cls(direction, axes, True))
        }
        if text not in known:
            raise ConfigError(f"there is no reading '{text}'; there are {', '.join(known)}")
        return known[text]

    def T_cam_world(self, matrix: np.ndarray) -> np.ndarray:
        """[4, 4] float64 of a file's matrix [4, 4] under this reading, OpenCV axes, the file's units."""
        R, t = matrix[:3, :3], matrix[:3, 3]
        if self.transposed:
            R = R.T
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = (R, t) if self.direction == "w2c" else (R.T, -R.T @ t)
        return _TO_OPENCV[self.axes] @ T

    def matrix(self, T_cam_world: np.ndarray) -> np.ndarray:
        """[4, 4] float64, what a file of this reading holds for a pose: the inverse of ``T_cam_world``."""
        T = np.linalg.inv(_TO_OPENCV[self.axes]) @ T_cam_world
        R, t = T[:3, :3], T[:3, 3]
        if self.direction == "c2w":
            R, t = R.T, -R.T @ t
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = (R.T if self.transposed else R), t
        return matrix


W2C_OPENCV = Reading("w2c", "opencv")
C2W_OPENGL = Reading("c2w", "opengl")


@dataclass(frozen=True, kw_only=True)
class FoundCamera:
    """One camera as a file describes it."""

    name: str
    matrix: np.ndarray
    """[4, 4] float64, the pose as the file has it, last row 0 0 0 1, the file's units."""
    K: np.ndarray | None = None
    """[3, 3] float64, pixels, centres at 0.5; None when the file has a field of view instead."""
    view_x_rad: float | None = None
    """The horizontal field of view, where there is no K; the principal point is then the picture's middle."""
    width: int | None = None
    height: int | None = None
    """Pixels; None when the file does not say."""
    distortion: Distortion | None = None
    video: Path | None = None
    timestamps: list[float] | None = None
    """Seconds per frame, where the layout has them."""

    def sized(self, width: int, height: int) -> FoundCamera:
        """The same camera with the size that its file does not give."""
        return replace(self, width=width, height=height)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What cameras see of known points: the best witness of how poses are meant."""

    camera: str
    pixels: np.ndarray
    """[N, 2] float64, as filmed (distorted), centres at 0.5."""
    points: np.ndarray
    """[N, 3] float64, the file's world and units."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """All that a calibration file says."""

    cameras: tuple[FoundCamera, ...]
    documented: Reading | None
    """What the format says of its poses; None when it says nothing."""
    units: Literal["m", "mm", "arbitrary"] | None
    """What the format says of its lengths; None when it says nothing, "arbitrary" when they have no scale."""
    z_up: bool = False
    """Whether the format says that the world's +Z is up."""
    ordered: bool = False
    """Whether cameras are told by their order alone: the names are made up."""
    axes: tuple[Axes, ...] = ("opencv", "opengl")
    """Camera axes that are tried."""
    seen: tuple[Seen, ...] = ()
    plane: np.ndarray | None = None
    """[4] float64, the bench in the file's world and units."""
    notes: str = ""
    findings: tuple[Finding, ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class CalibrationFormat:
    """One way of writing a calibration down."""

    name: str
    title: str
    """One line: what it is, and how it means its poses."""
    recognises: Callable[[Untrusted], bool]
    """Whether a source holds it, judged by content; never raises for content."""
    read: Callable[[Untrusted], Found]
    """Raises CaptureError when the content is not what the format says."""
