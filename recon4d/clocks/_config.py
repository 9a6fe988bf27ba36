"""What can be asked of a synchronisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recon4d.errors import ConfigError

Method = Literal["auto", "geometric", "audio"]


@dataclass(frozen=True, kw_only=True)
class SyncConfig:
    """How clocks are looked for.

    Raises:
        ConfigError: a value is out of range.
    """

    method: Method = "auto"
    """"geometric" by what moves; "audio" by what is heard; "auto" keeps times that were given and that the motion
    agrees with, fits the others by motion, and turns to the sound where motion does not settle all cameras."""
    reference: str | None = None
    """The camera whose clock is right; when None, the one that the others hold best to, of those with given times."""
    search_s: float = 10.0
    """Clocks are looked for within this on either side of where they are, in seconds."""
    max_drift: float = 0.01
    """Largest difference of rates: 29.83 for 30 frames a second is 0.006."""
    limit_frames: float = 0.5
    """A camera whose clock stays more uncertain than this, in its own frames, is refused."""

    def __post_init__(self) -> None:
        if self.method not in ("auto", "geometric", "audio"):
            raise ConfigError(f"method must be auto, geometric or audio; it is {self.method!r}")
        for name in ("search_s", "limit_frames"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive; it is {getattr(self, name)}")
        if not 0 < self.max_drift <= 0.05:
            raise ConfigError(f"max_drift must be above 0 and at most 0.05; it is {self.max_drift}")
