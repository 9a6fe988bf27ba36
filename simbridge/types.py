"""Records that cross rooms. Conventions (frames, units, orders) are those of :mod:`recon4d.geometry`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recon4d.types import StaticPool

WORLD = "world"
"""MuJoCo's name of the body that everything stands on: the frame of the background."""


@dataclass(frozen=True, kw_only=True)
class BodySplats:
    """Gaussians that move with one body."""

    body: str
    """MuJoCo body; ``"world"`` for the background."""
    splats: StaticPool
    """In the body's frame, metres."""


@dataclass(frozen=True, kw_only=True)
class BundleCamera:
    """A pinhole camera on a body."""

    name: str
    width: int
    height: int
    K: np.ndarray
    """[3, 3] float64, pixels."""
    body: str
    """The body that carries it; ``"world"`` for one that stands still."""
    T_body_cam: np.ndarray
    """[4, 4] float64, camera to body, OpenCV axes, metres."""
    exposure: float = 1.0
    """Factor on the scene's colours in its pictures."""


@dataclass(frozen=True, kw_only=True)
class RobotSpec:
    """What a task needs to know of the robot. Names are those in ``scene.xml``."""

    joints: tuple[str, ...]
    actuators: tuple[str, ...]
    site: str
    """The end effector."""
    home: tuple[float, ...]
    """Positions of the joints at the beginning of an episode, rad or m."""
    limits: tuple[tuple[float, float], ...]
    """What each actuator may be told, in its own unit."""


@dataclass(frozen=True, kw_only=True)
class ObjectSpec:
    """A body with a free joint that tasks place and move."""

    body: str
    joint: str
    size_m: tuple[float, float, float]
    """Edges of its bounding box."""
    spawn: tuple[tuple[float, float], tuple[float, float]]
    """Ranges of x and y on the bench in which an episode may begin, metres."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Bundle:
    """A scene that can be simulated and seen."""

    path: Path
    splats: tuple[BodySplats, ...]
    """The background first."""
    cameras: tuple[BundleCamera, ...]
    background: tuple[float, float, float]
    """Colour where nothing is."""
    plane: np.ndarray | None
    """[4] of the bench, unit normal up; None when unknown."""
    robot: RobotSpec | None
    objects: tuple[ObjectSpec, ...]
    colour: np.ndarray | None
    """[K, 3] from rendered to real colours: K = 4 for (r, g, b, 1), 7 for (r^2, g^2, b^2, r, g, b, 1)."""
    initial_conditions: tuple[dict[str, Any], ...] = ()
    """Where objects may begin, for evaluations that are to be repeated, each of the form
    ``{"id": 0, "objects": {body: {"position": [x, y, z], "quat": [w, x, y, z]}}}``."""
    envelope: dict[str, Any] = field(default_factory=dict)
    """Which viewpoints the capture supports, by camera."""
    licence: str = ""
    provenance: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """What it is in a line: its arrays would fill screens."""
        count = sum(len(part.splats) for part in self.splats)
        cameras = ", ".join(camera.name for camera in self.cameras)
        return f"Bundle({str(self.path)!r}: {count} splats on {len(self.splats)} bodies; cameras {cameras})"

    @property
    def model_path(self) -> Path:
        """The MJCF."""
        return self.path / "scene.xml"

    @property
    def bodies(self) -> tuple[str, ...]:
        """Bodies that have splats, the world first."""
        return tuple(part.body for part in self.splats)
