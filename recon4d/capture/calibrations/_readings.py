"""How a calibration's poses are meant: every candidate reading is scored, and the clear winner is taken.

What a format documents counts first, as long as the evidence (see ``_evidence``) does not contradict
it; what the evidence contradicts is read as the evidence says, if that is clear, and said. Scores are in nats: three
are odds of 20 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import cv2
import numpy as np

from recon4d.capture.calibrations._evidence import Geometry, geometry, point_nats, spread_nats
from recon4d.capture.calibrations._found import Found, FoundCamera, Reading, Seen
from recon4d.errors import CalibrationError

UNITS = {"m": 1.0, "dm": 0.1, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}
"""Lengths of a file to metres."""

CLEAR = 3.0
"""Nats by which one reading must be likelier than another to be told from it."""
CONTRADICTED = 6.0
"""Nats by which another reading must be likelier than the documented one to be taken instead."""
_TRANSPOSED = 2.0
_ROTATION_ERROR = 1e-2
_FEWEST_POINTS = 10
_FEWEST_WITNESSES = 3
"""Cameras below which no evidence contradicts a format: two axes meet somewhere under many readings."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """The evidence for one reading."""

    reading: Reading
    units: str
    """A key of ``UNITS``; "given" when the scale was given, "arbitrary" when there is none."""
    nats: float
    """All evidence together; differences of scores are logarithms of odds."""
    aim_deg: float
    """Median angle between the cameras' axes and the place that they look at together."""
    roll_deg: float
    """Median angle by which pictures are turned against their common up."""
    apart_deg: float
    """Largest angle between two cameras as seen from that place."""
    point_error_px: float | None
    """Median distance of points from where they were seen; None without points, inf when behind the cameras."""
    spread_m: float | None
    """Largest distance of two cameras; None when lengths have no scale."""


def rank(
    found: Found, *, reading: Reading | None = None, units: str | None = None, scale: float | None = None
) -> tuple[Score, ...]:
    """Every candidate's score, the best first.

    Args:
        found: What the file says.
        reading: The only one to try.
        units: The only ones to try.
        scale: Metres per unit of the file, instead of units.

    Raises:
        CalibrationError: a pose is no rotation.
    """
    _require_rotations(found)
    scores = []
    for candidate, poses in _candidates(found, reading):
        stands, error_px = geometry(poses, z_up=found.z_up), _point_error(found, poses)
        for label, factor in _lengths(found, units, scale):
            scores.append(_score(found, candidate, label, factor, stands, error_px))
    return tuple(sorted(scores, key=lambda score: -score.nats))


def choose(found: Found, scores: Sequence[Score]) -> tuple[Score, str]:
    """The reading to take, and what is to be warned of; empty when the documented one fits, and alone.

    Raises:
        CalibrationError: several readings are about as likely, and nothing tells which is meant.
    """
    best = scores[0]
    documented = [score for score in scores if _as_documented(found, score)]
    if documented and documented[0].nats > best.nats - CLEAR:
        taken = documented[0]
        close = [score for score in documented[1:] if score.nats > taken.nats - CLEAR]
        rivals = [score for score in scores if score not in documented and score.nats > taken.nats - CLEAR]
        warning = ""
        if rivals:
            others = ", ".join(f"'{score.reading}' in {score.units}" for score in rivals[:4])
            warning = f"the documented reading '{taken.reading}' is taken, but the poses would allow {others} as well"
    else:
        taken = best
        close = [score for score in scores[1:] if score.nats > taken.nats - CLEAR]
        warning = ""
        if documented:
            told = documented[0]
            contradicted = told.nats <= best.nats - CONTRADICTED and len(found.cameras) >= _FEWEST_WITNESSES
            if not contradicted and told not in close:
                close.append(told)
            warning = (
                f"the poses are not what the format documents ('{told.reading}' in {told.units}): they are read as"
                f" '{taken.reading}' in {taken.units}, which is likelier by {best.nats - told.nats:.0f} nats"
            )
    if close:
        raise _undecided([taken, *close])
    if not warning and taken.nats < 0:
        warning = (
            "under no reading do the cameras look at one place, level and from plausible distances; the best is"
            f" '{taken.reading}' in {taken.units}"
        )
    return taken, warning


def table(scores: Sequence[Score], most: int = 6) -> str:
    """The best candidates, one a line, for people. Odds are against the first."""
    lines = [
        f"{'reading':<24}{'units':<11}{'odds':>9}{'aim deg':>9}{'roll deg':>10}{'apart deg':>11}{'points px':>11}"
        f"{'spread m':>10}"
    ]
    for score in scores[:most]:
        points = "-" if score.point_error_px is None else f"{score.point_error_px:.2f}"
        spread = "-" if score.spread_m is None else f"{score.spread_m:.3g}"
        odds = np.exp(score.nats - scores[0].nats)
        lines.append(
            f"{score.reading!s:<24}{score.units:<11}{odds:>9.1e}{score.aim_deg:>9.1f}{score.roll_deg:>10.1f}"
            f"{score.apart_deg:>11.1f}{points:>11}{spread:>10}"
        )
    return "\n".join(lines)


def rotation_error(pose: np.ndarray) -> float:
    """How far the 3x3 part of a pose [4, 4] is from a rotation; inf when it mirrors or is not finite."""
    R = pose[:3, :3]
    if not np.isfinite(R).all() or np.linalg.det(R) <= 0:
        return np.inf
    return float(np.abs(R @ R.T - np.eye(3)).max())


def _candidates(found: Found, only: Reading | None) -> list[tuple[Reading, list[np.ndarray]]]:
    """Readings with the poses that they make; of those that make the same, the likeliest."""
    readings = [only] if only else [found.documented] if found.documented else []
    if only is None:
        readings += [Reading(*parts) for parts in product(("w2c", "c2w"), found.axes)]
        readings += [Reading(*parts, transposed=True) for parts in product(("w2c", "c2w"), found.axes)]
    candidates: list[tuple[Reading, list[np.ndarray]]] = []
    for reading in readings:
        poses = [reading.T_cam_world(camera.matrix) for camera in found.cameras]
        if not any(np.allclose(poses, known, rtol=1e-9, atol=1e-9) for _, known in candidates):
            candidates.append((reading, poses))
    return candidates


def _lengths(found: Found, units: str | None, scale: float | None) -> list[tuple[str, float | None]]:
    if scale is not None:
        return [("given", scale)]
    if units is not None:
        return [(units, UNITS[units])]
    if found.units == "arbitrary":
        return [("arbitrary", None)]
    return [("m", UNITS["m"]), ("mm", UNITS["mm"])]


def _score(
    found: Found, reading: Reading, units: str, factor: float | None, stands: Geometry, error_px: float | None
) -> Score:
    nats = stands.nats - (_TRANSPOSED if reading.transposed else 0.0)
    if factor is not None:
        nats += spread_nats(stands.spread * factor)
    if error_px is not None:
        nats += point_nats(error_px, float(np.median([camera.width or 1000 for camera in found.cameras])))
    return Score(
        reading=reading,
        units=units,
        nats=nats,
        aim_deg=stands.aim_deg,
        roll_deg=stands.roll_deg,
        apart_deg=stands.apart_deg,
        point_error_px=error_px,
        spread_m=None if factor is None else stands.spread * factor,
    )


def _point_error(found: Found, poses: list[np.ndarray]) -> float | None:
    by_name = {camera.name: (camera, pose) for camera, pose in zip(found.cameras, poses, strict=True)}
    errors = [_distances(*by_name[seen.camera], seen) for seen in found.seen if seen.camera in by_name]
    together = np.concatenate(errors) if errors else np.zeros(0)
    return float(np.median(together)) if len(together) >= _FEWEST_POINTS else None


def _distances(camera: FoundCamera, pose: np.ndarray, seen: Seen) -> np.ndarray:
    """[N] pixels between where points project and where they were seen; inf behind the camera."""
    assert camera.K is not None  # Files that list points describe pinhole cameras.
    points = seen.points @ pose[:3, :3].T + pose[:3, 3]
    front = points[:, 2] > 1e-9
    errors = np.full(len(points), np.inf)
    if front.any():
        still, K = np.zeros(3), camera.K
        lens = np.zeros(4) if camera.distortion is None else camera.distortion.coefficients
        if camera.distortion is not None and camera.distortion.model == "fisheye":
            pixels = cv2.fisheye.projectPoints(points[front][:, None], still, still, K, lens)[0]
        else:
            pixels = cv2.projectPoints(points[front], still, still, K, lens)[0]
        errors[front] = np.linalg.norm(pixels[:, 0] - seen.pixels[front], axis=1)
    return np.where(np.isfinite(errors), errors, np.inf)


def _as_documented(found: Found, score: Score) -> bool:
    """Whether a candidate is what the format documents; where it is silent on all, none is."""
    reading, units = found.documented, found.units
    fixed = score.units not in ("m", "mm") or units is None
    return (reading is not None) and score.reading == reading and (fixed or score.units == units)


def _require_rotations(found: Found) -> None:
    """All readings turn a pose's 3x3 part to another rotation or to none."""
    for camera in found.cameras:
        error, determinant = rotation_error(camera.matrix), float(np.linalg.det(camera.matrix[:3, :3]))
        if error > _ROTATION_ERROR:
            hint = (
                "it mirrors: its world is left-handed (as Unity's and Unreal's are); write it in a right-handed one"
                if determinant < 0
                else "write the pose again without scale and shear"
            )
            raise CalibrationError(
                f"the pose's 3x3 part is no rotation under any reading (off by {error:.3g}, determinant"
                f" {determinant:.3g}); {hint}",
                camera=camera.name,
            )


def _undecided(close: list[Score]) -> CalibrationError:
    readings = list(dict.fromkeys(str(score.reading) for score in close))
    units = list(dict.fromkeys(score.units for score in close))
    flags = []
    if len(readings) > 1:
        flags.append("--reading " + "|".join(readings))
    if len(units) > 1:
        flags.append("--units " + "|".join(units) + " (or --scale)")
    return CalibrationError(
        f"the numbers allow several readings, and nothing tells which is meant; give {' and '.join(flags)}\n"
        + table(close)
    )
