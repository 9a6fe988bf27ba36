"""What speaks for a set of poses being a rig that films one bench, in nats: differences are logarithms of odds.

- aim        all cameras look at one place, give or take the width of a picture;
- upright    pictures have one up, as cameras are mounted level, though some stand on their side;
- apart      the cameras see that place from clearly different directions;
- points     points that the file knows project to where its cameras saw them;
- spread     cameras stand 0.2 to 10 m apart, where lengths have a scale.

A camera counts against a direction drawn at random; no single one can rule a rig out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np

PLAUSIBLE_SPREAD_M = (0.2, 10.0)
_AIMED = ((0.6, np.radians(15.0)), (0.3, np.radians(35.0)))
"""Share of cameras and standard deviation of their aim; the rest looks anywhere."""
_LEVEL = ((0.7, np.radians(10.0)), (0.1, np.radians(30.0)))
_APART_RAD, _APART_FACTOR = np.radians(20.0), 3.0
_SPREAD_FACTOR, _SPREAD_NATS = 5.0, 3.0
_POINT_SHARE, _POINT_NATS = 0.02, 20.0
_FITTED_UP_NATS = 2.0
_MOST_NATS = 60.0
_MOST_PLACES = 200
_FAR = 100.0


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """How a rig stands, whatever its units."""

    nats: float
    aim_deg: float
    """Median angle between the cameras' axes and the place that they look at together."""
    roll_deg: float
    """Median angle by which pictures are turned against their common up."""
    apart_deg: float
    """Largest angle between two cameras as seen from that place."""
    spread: float
    """Largest distance of two cameras, the file's units."""


def geometry(poses: Sequence[np.ndarray], *, z_up: bool) -> Geometry:
    """The evidence in poses T_cam_world [4, 4] alone.

    Args:
        poses: One a camera; their 3x3 parts are rotations.
        z_up: Whether +Z is said to be up, which then costs nothing to assume.
    """
    R = np.stack([pose[:3, :3] for pose in poses])
    centres = centres_of(poses)
    spread = float(np.linalg.norm(centres[:, None] - centres[None], axis=-1).max())
    aim, aim_rad, apart_rad = max(
        (_aimed(place, R, centres) for place in _places(R[:, 2], centres, spread)), key=lambda found: found[0]
    )
    upright, roll_rad = max(
        (_upright(up, R, 0.0 if z_up and up[2] == 1 else _FITTED_UP_NATS) for up in _ups(R)), key=lambda found: found[0]
    )
    return Geometry(
        nats=aim + upright,
        aim_deg=float(np.degrees(aim_rad)),
        roll_deg=float(np.degrees(roll_rad)),
        apart_deg=float(np.degrees(apart_rad)),
        spread=spread,
    )


def spread_nats(spread_m: float) -> float:
    """0 within the plausible range, falling with each factor outside it."""
    least, most = PLAUSIBLE_SPREAD_M
    beyond = max(least / max(spread_m, 1e-12), spread_m / most, 1.0)
    return max(-_SPREAD_NATS * (np.log(beyond) / np.log(_SPREAD_FACTOR)) ** 2, -_MOST_NATS)


def point_nats(error_px: float, width: float) -> float:
    """From +20 where points project to where they were seen, to -20 from two per cent of the width on."""
    return _POINT_NATS * (1 - 2 * min(error_px / (_POINT_SHARE * width), 1.0))


def centres_of(poses: Sequence[np.ndarray]) -> np.ndarray:
    """[N, 3] optical centres of poses T_cam_world."""
    return np.stack([-T[:3, :3].T @ T[:3, 3] for T in poses])


def _places(forward: np.ndarray, centres: np.ndarray, spread: float) -> list[np.ndarray]:
    """Candidates for what all look at: where pairs of axes come closest, all axes do, and far ahead."""
    across = np.eye(3) - forward[:, :, None] * forward[:, None, :]
    places = [centres.mean(0) + forward.mean(0) * _FAR * max(spread, 1e-9)]
    for group in [slice(None), *map(list, islice(combinations(range(len(forward)), 2), _MOST_PLACES))]:
        A = across[group].sum(0)
        if np.linalg.eigvalsh(A)[0] > 1e-6:
            places.append(np.linalg.solve(A, np.einsum("nij,nj->i", across[group], centres[group])))
    return places


def _aimed(place: np.ndarray, R: np.ndarray, centres: np.ndarray) -> tuple[float, float, float]:
    """Nats, median aim and largest angle between cameras for one place."""
    towards = place - centres
    distance = np.linalg.norm(towards, axis=1)
    towards = towards / np.maximum(distance, 1e-12)[:, None]
    aim = np.where(distance > 1e-9, _angle(np.einsum("ni,ni->n", R[:, 2], towards)), np.pi / 2)
    apart = float(_angle((towards @ towards.T).min()))
    narrow = max(np.log(_APART_RAD / max(apart, 1e-9)), 0.0) / np.log(_APART_FACTOR)
    # Per solid angle; a Gaussian of sigma has 1 / (2 pi sigma^2) in its middle, and a random direction 1 / (4 pi).
    nats = np.log(_mixture(aim, _AIMED, lambda sigma: 2 / sigma**2)).sum() - min(narrow**2, _MOST_NATS)
    return float(nats), float(np.median(aim)), apart


def _ups(R: np.ndarray) -> list[np.ndarray]:
    """Candidates for up: +Z, the direction that is level in all pictures, and the mean of the pictures' ups."""
    level = np.linalg.svd(R[:, 0])[2][2]
    mean = -R[:, 1].mean(0)
    ups = [np.array([0.0, 0.0, 1.0]), level, -level]
    return [*ups, mean / np.linalg.norm(mean)] if np.linalg.norm(mean) > 1e-6 else ups


def _upright(up: np.ndarray, R: np.ndarray, cost: float) -> tuple[float, float]:
    """Nats and median roll for one up. A camera that looks along it has no roll, and says nothing."""
    in_picture = R @ up
    roll = np.abs(np.arctan2(in_picture[:, 0], -in_picture[:, 1]))
    tells = np.hypot(in_picture[:, 0], in_picture[:, 1]) > 0.2
    if not tells.any():
        return -cost, 0.0
    # Per angle; a Gaussian of both signs has 1 / (sqrt(2 pi) sigma) in its middle, and a random roll 1 / (2 pi).
    nats = np.log(_mixture(roll[tells], _LEVEL, lambda sigma: np.sqrt(2 * np.pi) / sigma)).sum()
    return float(nats) - cost, float(np.median(roll[tells]))


def _mixture(angle: np.ndarray, parts: Sequence[tuple[float, float]], peak) -> np.ndarray:
    """Density against a random direction's, of Gaussians with shares and the rest at random."""
    density = np.full_like(angle, 1 - sum(share for share, _ in parts))
    for share, sigma in parts:
        density += share * peak(sigma) * np.exp(-0.5 * (angle / sigma) ** 2)
    return density


def _angle(cosine: np.ndarray) -> np.ndarray:
    return np.arccos(np.clip(cosine, -1, 1))
