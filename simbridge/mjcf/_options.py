"""How densely surfaces are covered, and how they are lit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from recon4d.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Density:
    """The size of splats, by how large they may look to a camera.

    In the reference view silhouettes are where they should be. Nearer cameras see them drawn inwards, by at most about
    one pixel of the reference view; farther ones outwards, by at most about one of their own. Surfaces lie below the
    geom's by 0.5 (flat) to 1.2 (bent) pixels of the reference view: choose the nearest view that matters.

    Raises:
        ConfigError: a number is not finite and positive.
    """

    reference_distance_m: float = 1.0
    """Where the reference camera is, from what it sees."""
    reference_focal_px: float = 250.0
    """Its focal length: that of a picture 240 pixels high with a field of view of 51 degrees."""
    pixels_per_splat: float = 1.25
    """Distance of neighbouring splats in the reference view; from there on finer ones change silhouettes little."""
    plane_half_m: float = 1.0
    """Planes that MuJoCo leaves without end are cropped to this, to either side of their origin."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"density.{name} must be finite and positive; it is {value}")

    @property
    def pixel_m(self) -> float:
        """Metres that a pixel of the reference view covers."""
        return self.reference_distance_m / self.reference_focal_px

    @property
    def step_m(self) -> float:
        """Distance of neighbouring splats, at most."""
        return self.pixels_per_splat * self.pixel_m


@dataclass(frozen=True, kw_only=True)
class Shade:
    """Light baked into colours, with bodies where they are in the model's initial configuration: colour times
    (ambient + diffuse max(0, -direction . normal)), at most 1.

    Raises:
        ConfigError: a factor is negative or the direction has no length.
    """

    ambient: float = 0.65
    diffuse: float = 0.4
    direction: tuple[float, float, float] = (-0.35, 0.25, -1.0)
    """Where the light travels, world frame; any length."""

    def __post_init__(self) -> None:
        if not (self.ambient >= 0 and self.diffuse >= 0):
            raise ConfigError(f"shade factors must not be negative: ambient {self.ambient}, diffuse {self.diffuse}")
        length = math.sqrt(sum(value * value for value in self.direction))
        if not (math.isfinite(length) and length > 0):
            raise ConfigError(f"shade.direction must be a vector of some length; it is {self.direction}")
