"""How a capture is read."""

from __future__ import annotations

from dataclasses import dataclass

from recon4d.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class IngestConfig:
    """How a capture is read."""

    memory_budget_mib: int = 128
    """MiB of decoded frames, over all cameras, that may be held in memory; a longer capture is read from a
    memory-mapped file. The default keeps memory the same for any real clip: 128 MiB are 2.4 s of 8 cameras at
    320x240 and 30 frames a second."""
    gap_factor: float = 3.0
    """An interval of more than this many usual ones is reported as a gap. Frames keep their own times, so one dropped
    frame (two intervals) does no harm; below 2 it is reported too."""
    exposure_ratio: float = 2.0
    """Cameras whose mean levels differ by more than this are reported. Different views of one bench differ by up to
    1.3 in the captures at hand."""

    def __post_init__(self) -> None:
        if self.memory_budget_mib < 0:
            raise ConfigError(f"memory_budget_mib must be 0 or more; it is {self.memory_budget_mib}")
        for name in ("gap_factor", "exposure_ratio"):
            if not getattr(self, name) > 1:
                raise ConfigError(f"{name} must be more than 1; it is {getattr(self, name)}")
