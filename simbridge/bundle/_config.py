"""What a bundle is made of. All positions are in the bench frame: z = 0 on the bench, +z up, metres."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from recon4d.errors import ConfigError
from simbridge.bundle._fields import build

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class BoxConfig:
    """A box that stands upright."""

    center: Vector
    size: Vector
    """Edges, metres."""
    yaw_rad: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CutConfig:
    """What to take out of the background: one of the two."""

    box: BoxConfig | None = None
    """Gaussians whose centres lie inside go."""
    half_space: Quaternion | None = None
    """(a, b, c, d): Gaussians with a x + b y + c z + d > 0 go."""
    patch: bool = False
    """Cover the bench under a box again, in the colours around it: no camera has seen what was under a thing, and what
    the fit put there has the thing's colours. Give the box a bottom some centimetres below the bench."""

    def __post_init__(self) -> None:
        if (self.box is None) == (self.half_space is None):
            raise ConfigError("a cut is either a 'box' or a 'half_space'")
        if self.patch and self.box is None:
            raise ConfigError("only the cut of a 'box' can have a 'patch'")


@dataclass(frozen=True, kw_only=True)
class RobotConfig:
    """The robot and how it is mounted. Names are those of its own MJCF."""

    mjcf: str
    """File, relative to the configuration."""
    site: str
    """The end effector."""
    position: Vector = (0.0, 0.0, 0.0)
    quat: Quaternion = (1.0, 0.0, 0.0, 0.0)
    """wxyz."""
    joints: tuple[str, ...] = ()
    """Those that are controlled; all hinges and slides when empty."""
    home: tuple[float, ...] = ()
    """Their positions at the beginning, rad or m; zero when empty."""
    actuators: tuple[str, ...] = ()
    """All when empty."""
    limits: tuple[Interval, ...] = ()
    """What each actuator may be told; its control range when empty."""
    splats: dict[str, str] = field(default_factory=dict)
    """Body -> PLY file of splats in the body's frame, in place of those of its geoms."""
    licence: str = ""


@dataclass(frozen=True, kw_only=True)
class ObjectConfig:
    """A thing that tasks move."""

    name: str
    shape: Literal["box", "sphere", "cylinder", "mesh"] = "box"
    size: Vector = (0.04, 0.04, 0.04)
    """Edges of its bounding box, metres; of a mesh this is measured instead."""
    mesh: str | None = None
    """File of a mesh, relative to the configuration."""
    mass_kg: float = 0.1
    rgb: Vector = (0.8, 0.2, 0.2)
    friction: float = 1.0
    """Sliding friction."""
    spawn: tuple[Interval, Interval] = ((0.0, 0.0), (0.0, 0.0))
    """Ranges of x and y in which an episode may begin."""
    splats: str | None = None
    """PLY file of splats in the object's frame, origin at its centre, in place of those of its shape."""
    licence: str = ""


@dataclass(frozen=True, kw_only=True)
class CameraConfig:
    """A camera beside those of the rig: fixed, or on a body of the robot."""

    name: str
    width: int = 128
    height: int = 128
    fovy_rad: float = 1.0
    """Vertical field of view; pixels are square."""
    principal: tuple[float, float] | None = None
    """Principal point, pixels; the centre when left out."""
    body: str = "world"
    """The robot's body that carries it, as its MJCF names it, or an object; "world" for one that stands still."""
    position: Vector = (0.0, 0.0, 0.5)
    """In the body's frame."""
    look_at: Vector = (0.0, 0.0, 0.0)
    """What its optical axis meets, in the body's frame."""
    up: Vector = (0.0, 0.0, 1.0)
    """What is upwards in its pictures, in the body's frame."""


@dataclass(frozen=True, kw_only=True)
class EnvelopeConfig:
    """How cameras are randomised: what the view envelope is measured for."""

    position_m: float = 0.02
    """To either side, along each axis."""
    rotation_rad: float = 0.035
    """To either side, about each axis."""
    samples: int = 4
    """Draws a camera."""


@dataclass(frozen=True, kw_only=True)
class BundleConfig:
    """What a bundle is made of."""

    licence: str
    """Of the bundle as a whole."""
    name: str = "bundle"
    scale: float = 1.0
    """Metres per unit of the scene."""
    align: bool = True
    """Turn and shift the scene so that its bench is z = 0, normal up."""
    bench_plane: Quaternion | None = None
    """(a, b, c, d) in the scene's frame and units, in place of the scene's own."""
    freeze_at_s: float | None = None
    """Instant at which the scene's moving part is kept as background; left out when not given."""
    cut: tuple[CutConfig, ...] = ()
    robot: RobotConfig | None = None
    objects: tuple[ObjectConfig, ...] = ()
    boxes: tuple[BoxConfig, ...] = ()
    """Invisible collision boxes for what stands in the background."""
    plane_friction: float = 1.0
    rig: bool = True
    """Keep the capture's cameras."""
    cameras: tuple[CameraConfig, ...] = ()
    envelope: EnvelopeConfig = EnvelopeConfig()
    initial_conditions: int = 16
    """How many placements of the objects are drawn and kept."""
    seed: int = 0
    colour: Literal["none", "affine", "quadratic"] = "affine"
    """How rendered colours are fitted to the capture's frames, where a capture is given."""
    pixels_per_splat: float = 1.25
    """See ``simbridge.mjcf.Density``."""
    shade: bool = True
    """Bake a light into the colours of geoms."""
    timestep_s: float = 0.002
    folder: str = "."
    """What files are relative to; the configuration file's folder."""

    def __post_init__(self) -> None:
        if not self.licence.strip():
            raise ConfigError("licence is empty; say under which terms the bundle may be used, such as 'CC-BY-4.0'")
        for name in ("scale", "pixels_per_splat", "timestep_s", "plane_friction"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive; it is {getattr(self, name)}")
        names = [item.name for item in self.objects]
        if len(set(names)) != len(names) or "world" in names:
            raise ConfigError(f"objects need names of their own, none of them 'world'; they are {names}")
        cameras = [item.name for item in self.cameras]
        if len(set(cameras)) != len(cameras):
            raise ConfigError(f"cameras need names of their own; they are {cameras}")


def read_config(path: Path | str) -> BundleConfig:
    """Reads a configuration from JSON or TOML. Files that it names are relative to it.

    Raises:
        ConfigError: it cannot be read, or a field is unknown, missing or out of range.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is no {'TOML' if path.suffix == '.toml' else 'JSON'}: {error}") from error
    if isinstance(value, dict):
        value = {"folder": str(path.parent), **value}
    return build(BundleConfig, value, path.name)
