"""Which frames of different cameras show one instant, how the board moves in them, and which of them are used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recon4d.calibrate._board import Board
from recon4d.calibrate._bundle import Observations
from recon4d.calibrate._sightings import Sightings

_SHARED = 4
"""Points that a frame must share with the frames before and after it: where the board goes must be known."""
_BLURRED = 0.5
"""Pictures whose edges are this much less steep than the camera's usual ones are left out."""
_FAST = 0.5
"""As are those in which the board moves by more than this share of its extent between two frames, …"""
_JERKY = 0.25
"""… or in which that motion changes by more than this share."""
GRID = (8, 5)
"""Fields of a picture that the board should reach."""
_TILTS = (0.6, 0.85)
"""Bounds between strongly tilted, tilted and frontal boards: width over length of a square as it is seen."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The board in one frame of one camera."""

    camera: int
    frame: int
    points: np.ndarray
    """[n] int, of the board."""
    pixels: np.ndarray
    """[n, 2]"""
    motion: np.ndarray
    """[n, 2] px/s"""
    bend: np.ndarray
    """[n, 2] px/s^2"""
    rows: np.ndarray
    """[n] from -0.5 at the picture's top to 0.5 at its bottom."""
    sharpness: float


@dataclass(frozen=True, kw_only=True)
class Instants:
    """Instants of the clip, and what each camera shows at them."""

    times_s: np.ndarray
    """[V] float64, on the clock of the camera that gives the beat."""
    pictures: tuple[tuple[tuple[Picture, float], ...], ...]
    """By instant, one a camera that shows the board: the picture, and by how much it was taken later."""

    def __len__(self) -> int:
        return len(self.times_s)

    def only(self, index: np.ndarray) -> Instants:
        return Instants(times_s=self.times_s[index], pictures=tuple(self.pictures[i] for i in index))

    def observations(self, board: Board) -> Observations:
        """Everything as one table; views are numbered as the instants are."""
        rows = [(picture, view, late) for view, shown in enumerate(self.pictures) for picture, late in shown]
        rows.sort(key=lambda row: (row[0].camera, row[1]))
        counts = [len(picture.points) for picture, _, _ in rows]
        return Observations(
            camera=np.repeat(np.array([picture.camera for picture, _, _ in rows], int), counts),
            view=np.repeat(np.array([view for _, view, _ in rows], int), counts),
            point_m=_stacked([board.points_m[picture.points] for picture, _, _ in rows], 3),
            pixel=_stacked([picture.pixels for picture, _, _ in rows], 2),
            motion=_stacked([picture.motion for picture, _, _ in rows], 2),
            bend=_stacked([picture.bend for picture, _, _ in rows], 2),
            late_s=np.repeat(np.array([late for _, _, late in rows], np.float64), counts),
            row=np.concatenate([np.zeros(0), *(picture.rows for picture, _, _ in rows)]),
        )

    def shared(self, cameras: int) -> np.ndarray:
        """[C, C] int, at how many instants two cameras both show the board; 0 on the diagonal."""
        shows = np.zeros((len(self), cameras), int)
        for view, shown in enumerate(self.pictures):
            shows[view, [picture.camera for picture, _ in shown]] = 1
        pairs = shows.T @ shows
        np.fill_diagonal(pairs, 0)
        return pairs


def _stacked(parts: list[np.ndarray], width: int) -> np.ndarray:
    return np.concatenate([np.zeros((0, width)), *parts])


def clocks(sightings: list[Sightings], pairing: str) -> tuple[list[np.ndarray], str]:
    """Each camera's frame times [F] in seconds, and how frames are paired: by "index" or by "time".

    "auto" pairs by index where all videos have as many frames and their times agree to half a frame.
    """
    times = [one.times_s for one in sightings]
    known = all(np.isfinite(t).all() and len(t) > 1 for t in times)
    intervals = [float(np.median(np.diff(t))) for t in times] if known else [1 / 30]
    if pairing == "auto":
        equal = known and len({len(t) for t in times}) == 1
        together = equal and max(np.abs(t - t[0] - times[0] + times[0][0]).max() for t in times) < intervals[0] / 2
        pairing = "index" if together or not known else "time"
    if pairing == "time" and known:
        return times, "time"
    return [np.arange(len(t)) * intervals[0] for t in times], "index"


def pictures_of(camera: int, one: Sightings, clock: np.ndarray, every: int) -> list[Picture]:
    """The camera's frames that can be used: the board is seen, sharp, and its motion is known and slow enough."""
    seen = one.seen
    if len(seen) == 0:
        return []
    usual = float(np.median(one.sharpness[seen]))
    found = []
    for frame in seen:
        before, after = frame - every, frame + every
        if before < 0 or after >= len(clock) or one.sharpness[frame] < _BLURRED * usual:
            continue
        picture = _moving(camera, one, clock, (int(before), int(frame), int(after)))
        if picture is not None:
            found.append(picture)
    return found


def _moving(camera: int, one: Sightings, clock: np.ndarray, frames: tuple[int, int, int]) -> Picture | None:
    """The middle frame, with motion and bend of each point from the parabola through all three."""
    (p0, x0), (p1, x1), (p2, x2) = (one.at(frame) for frame in frames)
    common = np.intersect1d(np.intersect1d(p0, p1), p2)
    if len(common) < _SHARED:
        return None
    a, b, c = x0[_where(p0, common)], x1[_where(p1, common)], x2[_where(p2, common)]
    h0, h1 = clock[frames[1]] - clock[frames[0]], clock[frames[2]] - clock[frames[1]]
    first, second = (b - a) / h0, (c - b) / h1
    motion = (first * h1 + second * h0) / (h0 + h1)
    bend = 2 * (second - first) / (h0 + h1)
    step, extent = (h0 + h1) / 2, float(np.ptp(b, axis=0).max())
    speed, change = (float(np.linalg.norm(np.median(v, axis=0))) for v in (motion, bend))
    if speed * step > _FAST * extent or change * step**2 > _JERKY * extent:
        return None
    return Picture(
        camera=camera,
        frame=frames[1],
        points=common,
        pixels=b,
        motion=motion,
        bend=bend,
        rows=b[:, 1] / one.height - 0.5,
        sharpness=float(one.sharpness[frames[1]]),
    )


def _where(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    order = np.argsort(values)
    return order[np.searchsorted(values[order], wanted)]


def pair(pictures: list[list[Picture]], clock: list[np.ndarray]) -> Instants:
    """Instants at the frames of the camera that has most, and the pictures of all cameras nearest to them."""
    beat = clock[int(np.argmax([len(times) for times in clock]))]
    shown: list[list[tuple[Picture, float]]] = [[] for _ in beat]
    for camera, own in enumerate(pictures):
        by_frame = {picture.frame: picture for picture in own}
        times = clock[camera]
        if len(times) < 2:
            continue
        nearest = np.clip(np.searchsorted(times, beat), 1, len(times) - 1)
        nearest -= beat - times[nearest - 1] < times[nearest] - beat
        reach = max(float(np.median(np.diff(times))), float(np.median(np.diff(beat)))) / 2
        for instant, frame in enumerate(nearest):
            late = float(times[frame] - beat[instant])
            if abs(late) <= reach * 1.001 and int(frame) in by_frame:
                shown[instant].append((by_frame[int(frame)], late))
    kept = [index for index, row in enumerate(shown) if row]
    return Instants(times_s=beat[kept], pictures=tuple(tuple(shown[index]) for index in kept))


def held_out(instants: Instants, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of instants to fit, and of those to judge the fit by: each so many of those that two cameras share."""
    several = np.array([index for index, row in enumerate(instants.pictures) if len(row) > 1], int)
    if every < 2 or len(several) < 3 * every:
        return np.arange(len(instants)), np.zeros(0, int)
    aside = several[every // 2 :: every]
    return np.setdiff1d(np.arange(len(instants)), aside), aside


def select(instants: Instants, most: int, board: Board, sizes: list[tuple[int, int]]) -> np.ndarray:
    """Indices of up to so many instants, chosen one by one for what they add to those chosen already.

    What counts is, for each camera, the fields of its picture that the board reaches, the ways in which it is tilted
    there, and the cameras that see it together; each the less the more often it is there already. Slow and sharp
    pictures count more.
    """
    if len(instants) <= most:
        return np.arange(len(instants))
    features: dict[tuple, int] = {}
    rows = [_features(row, board, sizes, features) for row in instants.pictures]
    shows = np.zeros((len(rows), len(features)))
    for index, row in enumerate(rows):
        shows[index, row] = 1.0
    shows *= np.array([_quality(row) for row in instants.pictures])[:, None]
    count, chosen = np.zeros(len(features)), []
    for _ in range(most):
        gain = shows @ (1 / (1 + count))
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        count += shows[best]
    return np.sort(np.array(chosen))


def _features(
    row: tuple[tuple[Picture, float], ...], board: Board, sizes: list[tuple[int, int]], known: dict[tuple, int]
) -> list[int]:
    """Numbers of what an instant has; new ones are added to those known."""
    found: set[tuple] = set()
    for picture, _ in row:
        cells = np.floor(picture.pixels / sizes[picture.camera] * GRID).astype(int)
        found |= {("field", picture.camera, *cell) for cell in map(tuple, cells.tolist())}
        found.add(("tilt", picture.camera, *tilt_of(picture, board)))
        found |= {("pair", *sorted((picture.camera, other.camera))) for other, _ in row if other is not picture}
    return [known.setdefault(name, len(known)) for name in sorted(found)]


def tilt_of(picture: Picture, board: Board) -> tuple[int, int]:
    """How strongly (0 frontal to 2) and towards which of four directions a board is tilted, from its outline."""
    flat = board.points_m[picture.points, :2]
    A, *_ = np.linalg.lstsq(np.c_[flat, np.ones(len(flat))], picture.pixels, rcond=None)
    _, s, V = np.linalg.svd(A[:2])
    strength = 2 - int(np.searchsorted(_TILTS, s[1] / max(s[0], 1e-9)))
    direction = int(np.floor(np.degrees(np.arctan2(V[1, 1], V[1, 0])) % 180 / 45))
    return (strength, direction % 4) if strength else (0, 0)


def _quality(row: tuple[tuple[Picture, float], ...]) -> float:
    """One for pictures at rest, less for moving ones: 100 px/s halve it."""
    speed = np.mean([np.linalg.norm(np.median(picture.motion, axis=0)) for picture, _ in row])
    return float(1 / (1 + speed / 100))


def by_clock(clock: list[np.ndarray], offsets_s: np.ndarray) -> list[np.ndarray]:
    """Clocks corrected for what is known of the cameras' delays."""
    return [times + offset for times, offset in zip(clock, offsets_s, strict=True)]
