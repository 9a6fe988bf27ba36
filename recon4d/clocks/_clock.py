"""A camera's clock, as one line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Clock:
    """What makes a camera's own times common: t = own * scale + offset_s."""

    scale: float = 1.0
    offset_s: float = 0.0

    def __call__(self, own_s: np.ndarray) -> np.ndarray:
        """Common times of own times, seconds."""
        return own_s * self.scale + self.offset_s

    def after(self, first: Clock) -> Clock:
        """The clock that applies ``first`` and then this one."""
        return Clock(scale=self.scale * first.scale, offset_s=self.scale * first.offset_s + self.offset_s)

    def inverse(self) -> Clock:
        """The clock that undoes this one."""
        return Clock(scale=1 / self.scale, offset_s=-self.offset_s / self.scale)


def late_by(lag_s: float, rate: float, at_s: float) -> Clock:
    """Takes a lag of ``lag_s`` at the common time ``at_s``, growing by ``rate`` a second, off own times."""
    # own = t + lag + rate (t - at), solved for t.
    return Clock(scale=1 / (1 + rate), offset_s=(rate * at_s - lag_s) / (1 + rate))
