"""What the comparison of the cameras' views of the bench says of their poses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from recon4d.capture._check_rig import misreadings
from recon4d.capture._findings import Inspection
from recon4d.capture._manifest import MANIFEST
from recon4d.capture.poses._bench import Pair, compare
from recon4d.capture.poses._views import View

GROUND = np.array([0.0, 0.0, 1.0, 0.0])
"""The plane z = 0, where no bench is named: the world is z-up, and mostly the bench's frame."""
_SURE = 4.5
_SIMILAR = 0.15
"""Peaks of rigs that were read wrongly reach one or the other now and then, but not both near no shift."""
_ALIKE = 0.3
"""Without a shift, this is enough where the texture is so coarse that no peak stands out."""
_NEAR_CELLS = 12
"""A larger shift is as likely chance as a pose that is nearly right."""
_AGREE_CELLS = 2
"""Or pixels, where these are coarser."""
_ADVICE = "look at the contact sheet: where the poses are right, the grid lies on the bench"


@dataclass(frozen=True, kw_only=True)
class PoseFit:
    """Whether the poses belong to the pictures."""

    verdict: str = ""
    """One sentence; empty when there was nothing to compare."""
    wrong: frozenset[str] = frozenset()
    """Cameras whose poses do not fit."""
    inexact: frozenset[str] = frozenset()
    """Cameras of which some are a little off; which, the pictures do not tell."""


def check_poses(views: Sequence[View], plane: np.ndarray | None, inspection: Inspection) -> PoseFit:
    """Reports poses that contradict the pictures.

    Without a known plane the ground z = 0 is tried; where that is no plane of the scene, nothing is said against poses.
    """
    views = [view for view in views if view.pictures]
    if len(views) < 2:
        return PoseFit()
    pairs = compare(views, [view.camera for view in views], GROUND if plane is None else plane)
    # A plane that is named is the bench; the ground counts as one only if most pairs agree exactly.
    fits = any(map(_found, pairs)) if plane is not None else 2 * len(_agreeing(pairs)) > len(pairs)
    if fits:
        return _judge(pairs, inspection)
    reading = fitting_reading(views, GROUND if plane is None else plane)
    best = max((pair.similarity for pair in pairs), default=0.0)
    if reading is None:
        where = "the ground z = 0 (no bench_plane is named)" if plane is None else "the bench"
        return PoseFit(verdict=f"cannot be told: no two cameras' views of {where} look alike (at most {best:.2f} of 1)")
    with inspection.part():
        inspection.error(
            "the pictures contradict the poses: laid out on the bench plane they do not look alike (similarity at most"
            f" {best:.2f} of 1), but {reading}",
            f"declare the poses as {reading.name}",
            file=MANIFEST,
            calibration=True,
        )
    return PoseFit(verdict="the pictures contradict the poses", wrong=frozenset(view.name for view in views))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Another way to read the poses, under which the pictures fit them."""

    name: str
    fitting: tuple[Pair, ...]
    compared: int

    def __str__(self) -> str:
        peak = max(pair.peak for pair in self.fitting)
        return f"read as {self.name} they do in {len(self.fitting)} of {self.compared} pairs (up to {peak:.2f})"


def fitting_reading(views: Sequence[View], plane: np.ndarray) -> Reading | None:
    """The reading of the poses, other than the declared one, that fits the pictures; None when none clearly does."""
    best: Reading | None = None
    for name, cameras in misreadings([view.camera for view in views]):
        above = sum(float(plane[:3] @ camera.center_w + plane[3]) > 0 for camera in cameras)
        if 2 * above <= len(cameras):
            continue  # Upside down the bench looks the same, but nobody films it from below.
        pairs = compare(views, cameras, plane)
        fitting = tuple(pair for pair in pairs if _found(pair))
        chance = len(fitting) < 2 and not any(pair.sureness >= 2 * _SURE for pair in fitting)
        if chance or 2 * len(fitting) < len(pairs) or (best is not None and len(best.fitting) >= len(fitting)):
            continue
        best = Reading(name=name, fitting=fitting, compared=len(pairs))
    return best


def _found(pair: Pair) -> bool:
    """Whether the same spots of the bench were found in both pictures, not too far apart."""
    clear = pair.sureness >= _SURE or pair.similarity >= _ALIKE
    return clear and pair.peak >= _SIMILAR and pair.distance_cells <= _NEAR_CELLS


def _agreeing(pairs: Sequence[Pair]) -> list[Pair]:
    return [p for p in pairs if _found(p) and p.distance_cells <= _AGREE_CELLS * p.pixel_cells]


def _judge(pairs: Sequence[Pair], inspection: Inspection) -> PoseFit:
    """Finds the cameras that agree, and says of each other how far off it is."""
    agreeing = _agreeing(pairs)
    group = _largest_group(agreeing)
    if len(group) < 2:
        return _all_apart([pair for pair in pairs if _found(pair)], inspection)
    outside = [name for name in _names(pairs) if name not in group]
    wrong = frozenset(name for name in outside if _accuse(name, group, pairs, inspection))
    untold = [name for name in outside if name not in wrong]
    inside = [pair for pair in agreeing if pair.a in group and pair.b in group]
    verdict = (
        f"the bench looks the same from {len(group)} of {len(_names(pairs))} cameras"
        f" (similarity {np.median([pair.peak for pair in inside]):.2f} of 1,"
        f" shifts up to {max(pair.distance_m for pair in inside) * 1e3:.0f} mm)"
        + (f"; of {_quoted(untold)} it cannot be told" if untold else "")
    )
    return PoseFit(verdict=verdict, wrong=wrong)


def _accuse(name: str, group: frozenset[str], pairs: Sequence[Pair], inspection: Inspection) -> bool:
    """Says of a camera outside the group that agrees what is wrong with it; whether its pose is suspect."""
    own = [pair for pair in pairs if name in (pair.a, pair.b) and {pair.a, pair.b} & group]
    best = max((pair.similarity for pair in own), default=0.0)
    shift = _common_shift([pair.shift_of(name) for pair in own if _found(pair)])
    if shift is not None:
        inspection.warn(
            f"sees the bench {float(np.hypot(*shift)) * own[0].cell_m * 1e3:.0f} mm from where {_quoted(group)} agree"
            " that it is",
            f"calibrate this camera again: it was moved, or its pose is not exact; {_ADVICE}",
            camera=name,
        )
        return True
    if best < _SIMILAR and not any(_found(pair) for pair in own):
        inspection.warn(
            f"does not see what {_quoted(group)} see on the bench (similarity at most {best:.2f} of 1)",
            f"check its pose, unless something hides the bench from it; {_ADVICE}",
            camera=name,
        )
        return True
    return False


def _common_shift(shifts: Sequence[np.ndarray]) -> np.ndarray | None:
    """The shift that at least two other cameras see alike: things that stand on the bench shift differently to each."""
    if len(shifts) < 2:
        return None
    middle = np.median(shifts, axis=0)
    alike = np.abs(np.stack(shifts) - middle).max(-1) <= _AGREE_CELLS
    return middle if alike.sum() >= 2 and 2 * alike.sum() > len(shifts) else None


def _all_apart(found: Sequence[Pair], inspection: Inspection) -> PoseFit:
    apart = ", ".join(f"'{pair.a}' and '{pair.b}' by {pair.distance_m * 1e3:.0f} mm" for pair in found)
    inspection.warn(
        f"the cameras see the same spots of the bench at different places: {apart}",
        f"calibrate again, or correct bench_plane, if it is the bench that they see; {_ADVICE}",
        file=MANIFEST,
    )
    return PoseFit(verdict=f"the poses fit the pictures roughly: {apart} apart", inexact=frozenset(_names(found)))


def _largest_group(agreeing: Sequence[Pair]) -> frozenset[str]:
    groups: list[frozenset[str]] = []
    for pair in agreeing:
        joined = frozenset({pair.a, pair.b}).union(*(g for g in groups if g & {pair.a, pair.b}))
        groups = [g for g in groups if not g & joined] + [joined]
    return max(groups, key=len, default=frozenset())


def _names(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(name for pair in pairs for name in (pair.a, pair.b)))


def _quoted(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names)[:4]) + (" and others" if len(names) > 4 else "")
