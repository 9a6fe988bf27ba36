"""Which columns of the parameter matrix hold what."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from recon4d.model.motion import Motion
from recon4d.model.motion.lifespan import LIFESPAN


@dataclass(frozen=True)
class Layout:
    """Columns of ``params``: geometry and colour first, then those of the motion model.

    Raises:
        ValueError: the degree is not 0 to 3.
    """

    sh_degree: int
    """Degree of the spherical harmonics, 0 to 3."""
    motion: Motion = field(default=LIFESPAN)
    """What the temporal columns mean."""

    def __post_init__(self) -> None:
        if self.sh_degree not in (0, 1, 2, 3):
            raise ValueError(f"sh_degree must be 0, 1, 2 or 3; it is {self.sh_degree}")

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Disjoint slices by name: mean, quat, log_scale, logit_opacity, sh_dc, sh_rest, and the motion model's.

        ``sh_rest`` is empty at degree 0.
        """
        widths = [("mean", 3), ("quat", 4), ("log_scale", 3), ("logit_opacity", 1), ("sh_dc", 3)]
        widths += [("sh_rest", 3 * ((self.sh_degree + 1) ** 2 - 1)), *self.motion.columns]
        slices, start = {}, 0
        for name, width in widths:
            slices[name] = slice(start, start + width)
            start += width
        return slices

    @cached_property
    def width(self) -> int:
        """D, the number of columns."""
        return max(columns.stop for columns in self.columns.values())

    @property
    def coefficients(self) -> int:
        """Spherical-harmonic coefficients a channel, (sh_degree + 1)^2."""
        return (self.sh_degree + 1) ** 2

    @property
    def sh(self) -> slice:
        """All colour columns, coefficient-major: DC rgb, then the next coefficient's rgb, and so on."""
        return slice(self.columns["sh_dc"].start, self.columns["sh_rest"].stop)

    @property
    def temporal(self) -> slice:
        """The motion model's columns; zero and unused in static rows."""
        return slice(self.columns["sh_rest"].stop, self.width)

    def vector(self, **values: float) -> Tensor:
        """[D] float32 on the CPU with one value a named column group, 0 elsewhere; learning rates are built so.

        Raises:
            KeyError: there is no such column; lists those there are.
        """
        vector = torch.zeros(self.width)
        for name, value in values.items():
            if name not in self.columns:
                raise KeyError(f"no column '{name}'; there are {list(self.columns)}")
            vector[self.columns[name]] = value
        return vector
