"""What worlds are drawn from, and what they are drawn into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from recon4d.types import Splats, StaticPool

_ATTRIBUTES = ("means", "quats", "scales", "opacities", "sh")


@dataclass(frozen=True, eq=False, kw_only=True)
class WorldSplats:
    """Gaussians that many worlds share: those of the background, and those of each rigid body in its own frame.

    Changes of the tensors in place may go unnoticed: what backends derive from them is computed once.
    """

    splats: Splats
    """All of them, float32, by body."""
    starts: tuple[int, ...]
    """[bodies + 1], where each body's splats begin and end."""
    derived: dict[str, Any] = field(default_factory=dict, repr=False)
    """What backends have computed from the splats."""

    @classmethod
    def of(
        cls, groups: Sequence[tuple[int, StaticPool | Splats]], bodies: int, device: torch.device | str = "cpu"
    ) -> WorldSplats:
        """Gathers groups of splats by the body that carries them.

        Args:
            groups: (body, splats in the body's frame, metres); body 0 is the background, its frame the world. A body
                may have several groups, or none. Lower degrees of spherical harmonics are raised to the highest.
            bodies: number of bodies B, the background included.
            device: where the splats go.

        Raises:
            ValueError: a body's index is not in 0..B-1, or a group's tensors do not fit together.
        """
        if bodies < 1:
            raise ValueError(f"there must be at least one body, the background; bodies is {bodies}")
        for body, _ in groups:
            if not 0 <= body < bodies:
                raise ValueError(f"splats are given for body {body}; bodies are 0 (the background) to {bodies - 1}")
        ordered = sorted(groups, key=lambda group: group[0])
        highest = max((pool.sh.shape[1] for _, pool in ordered), default=1)
        parts = [_raised(pool, highest) for _, pool in ordered] or [_nothing()]
        joined = {
            name: torch.cat([getattr(part, name) for part in parts]).to(device, torch.float32).contiguous()
            for name in _ATTRIBUTES
        }
        starts = [0] * (bodies + 1)
        for body, pool in ordered:
            starts[body + 1] += len(pool)
        for body in range(bodies):
            starts[body + 1] += starts[body]
        return cls(splats=Splats(**joined), starts=tuple(starts))

    @property
    def bodies(self) -> int:
        """Number of bodies, the background included."""
        return len(self.starts) - 1

    def __len__(self) -> int:
        return len(self.splats)


def _raised(pool: StaticPool | Splats, coefficients: int) -> Splats:
    values = {name: getattr(pool, name).detach() for name in _ATTRIBUTES}
    sh = values["sh"]
    missing = sh.new_zeros(sh.shape[0], coefficients - sh.shape[1], 3)
    return Splats(**(values | {"sh": torch.cat([sh, missing], 1)}))


def _nothing() -> Splats:
    shapes = {"means": (0, 3), "quats": (0, 4), "scales": (0, 3), "opacities": (0,), "sh": (0, 1, 3)}
    return Splats(**{name: torch.zeros(shape) for name, shape in shapes.items()})


@dataclass(frozen=True, kw_only=True)
class WorldCameras:
    """C cameras of one size in W worlds; a leading 1 is for cameras that are the same in all of them."""

    viewmats: Tensor
    """[W or 1, C, 4, 4] camera from world, OpenCV axes, metres."""
    Ks: Tensor
    """[W or 1, C, 3, 3] pixels; no skew."""
    width: int
    height: int
    exposures: Tensor | None = None
    """[W or 1, C] factors on rgb; None where all are 1."""


@dataclass(frozen=True, kw_only=True)
class WorldImages:
    """Pictures of C cameras in W worlds. Outputs that were not asked for are None."""

    rgb: Tensor | None = None
    """[W, C, H, W, 3] with the background behind: float32, not clamped; or uint8, the nearest of 256 steps."""
    alpha: Tensor | None = None
    """[W, C, H, W] float32, accumulated opacity."""
    depth: Tensor | None = None
    """[W, C, H, W] float32, camera-z in metres, normalised by alpha; 0 where alpha < 1e-3."""
    segmentation: Tensor | None = None
    """[W, C, H, W] int64, the body with the largest summed blending weight in the pixel, the lower of equal ones; 0 is
    the background, -1 where alpha < 0.5."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs that are there."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is not None)


class WorldCache:
    """What fixed cameras see of the background, kept from one call of ``render_worlds`` to the next.

    With it only tiles that a body touches are drawn again; pictures are those drawn without it. Entries are found by
    view, intrinsics, size and splats: a camera that moves, or other splats, only cost a new entry. Not safe to share
    between threads.

    Args:
        cameras: the most views that are kept; the one used longest ago goes first.
    """

    def __init__(self, cameras: int = 64) -> None:
        if cameras < 1:
            raise ValueError(f"a cache must hold at least one camera; cameras is {cameras}")
        self._most = cameras
        self._splats: WorldSplats | None = None
        self._entries: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, splats: WorldSplats, key: Any) -> Any:  # What a backend keeps is its own affair.
        """The entry, or None; all are dropped when the splats are others than before."""
        if splats is not self._splats:
            self._splats = splats
            self._entries.clear()
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._entries[key] = entry
        return entry

    def keep(self, key: Any, entry: Any) -> None:
        """Adds an entry for the splats last asked for."""
        self._entries[key] = entry
        while len(self._entries) > self._most:
            self._entries.pop(next(iter(self._entries)))
