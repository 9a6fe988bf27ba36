"""Motion models: where a Gaussian is at an instant, and how much of it is there.

One file a motion model. It names the parameter columns that it adds to a row, says in PyTorch what they mean
(:meth:`Motion.displace`), converts them from and to a scene's records, and may bring compiled CPU kernels; without
kernels the model's PyTorch path serves on the CPU too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from recon4d.types import DynamicPool


@dataclass(frozen=True, kw_only=True)
class MotionKernels:
    """The compiled form of a motion model, over NumPy float32 arrays."""

    displace: Callable[..., Any]
    """(params [N, D], n_static, first, t, moved [N - n_static, 4]) fills offset xyz and visibility of dynamic rows."""
    pull_back: Callable[..., Any]
    """(leaf [n, D], n_static, first, t, g_means [n, 3], g_visibility [n], gradient [n, D]) fills temporal columns."""


class Motion(Protocol):
    """What a motion model offers to ``Gaussians4D``."""

    @property
    def columns(self) -> tuple[tuple[str, int], ...]:
        """Names and widths of its parameter columns, in order."""
        ...

    @property
    def kernels(self) -> MotionKernels | None:
        """Compiled CPU form, or None."""
        ...

    def displace(self, temporal: Tensor, t: float) -> tuple[Tensor, Tensor]:
        """Temporal columns [n, K] at time ``t`` (seconds) to offsets [n, 3] (metres) and visibility [n] in [0, 1].

        Differentiable in ``temporal``.
        """
        ...

    def pack(self, pool: DynamicPool) -> Tensor:
        """The pool's temporal attributes as raw columns [n, K]."""
        ...

    def unpack(self, temporal: Tensor) -> dict[str, Tensor]:
        """Raw columns [n, K] to the temporal attributes of ``DynamicPool``, by field name."""
        ...
