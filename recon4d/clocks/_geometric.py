"""Clocks from what moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from recon4d.capture import Source
from recon4d.clocks._clock import Clock
from recon4d.clocks._config import SyncConfig
from recon4d.clocks._filmed import given_clock
from recon4d.clocks._pencil import Pencil
from recon4d.clocks._readings import side
from recon4d.clocks._solve import Pair, Solution, View, solve, tree
from recon4d.clocks._table import CameraClock, Evidence, Synchronised
from recon4d.clocks._ties import Tie, tie
from recon4d.errors import CaptureError

_FEW = 8
"""Tracks that a camera needs."""
_STRONG = 5.0
"""Standard deviations by which a tie must beat chance. On real and drawn benches right ones have 10 to 40, ties to a
mirrored video less than 2."""
_SUPPORT = 6.0
"""Tracks that must agree."""
_SCATTERED_FRAMES = 0.65
"""Median distance of readings from the result. They are looked for within 3 frames, so by chance it is 1.5; a mirrored
video has 0.9, right ones have 0.1 to 0.3, and at 120 frames a second, where a frame is short, 0.6."""
_MOVE = "move something through the view of all cameras, fast and slowly, for some seconds"


def synchronise_by_motion(sources: Sequence[Source], views: Mapping[str, View], config: SyncConfig) -> Synchronised:
    """The sync table from moving points.

    Raises:
        CaptureError: too little moves to tie any two cameras, or nothing is tied to the reference that was asked for.
    """
    starts = _starts(views)
    shifted = {name: replace(view, times_s=view.times_s - starts[name]) for name, view in views.items()}
    ties = {pair: found for pair in combinations(views, 2) if (found := _tied(shifted, pair, config)) is not None}
    strong = {pair: t for pair, t in ties.items() if t.strength >= _STRONG and t.support >= _SUPPORT}
    _require_motion(views, strong, config)
    reference = config.reference or _reference(sources, strong)
    reasons: dict[str, str] = {}
    while True:
        usable = {pair: t for pair, t in strong.items() if not reasons.keys() & set(pair)}
        clocks = tree(usable, reference)
        if len(clocks) < 2:
            why = "; ".join(reasons.values()) or "what moves in it agrees with no other camera's motion"
            raise CaptureError(
                f"no other camera can be tied to it: {why}; choose another reference, or {_MOVE}", camera=reference
            )
        solution = solve(shifted, clocks, reference)
        worst = _worst(solution, shifted, reference, config)
        if worst is None:
            break
        reasons[worst[0]] = worst[1]
    for name, view in shifted.items():
        if name not in solution.clocks and name not in reasons:
            reasons[name] = _why_not(name, view, ties, config)
    rows = (_row(source, views[source.name], starts, reference, solution, reasons, config) for source in sources)
    return Synchronised(
        method="geometric",
        reference=reference,
        clocks=tuple(rows),
        evidence=_evidence(ties, solution, reference),
    )


def _starts(views: Mapping[str, View]) -> dict[str, float]:
    """What is taken for zero of each camera: one instant where the given times overlap, else each one's first frame."""
    first = {name: float(view.times_s[0]) for name, view in views.items()}
    if max(first.values()) < min(float(view.times_s[-1]) for view in views.values()):
        return dict.fromkeys(first, min(first.values()))
    return first


def _tied(views: Mapping[str, View], pair: Pair, config: SyncConfig) -> Tie | None:
    a, b = (views[name] for name in pair)
    if np.linalg.norm(a.camera.center_w - b.camera.center_w) < 1e-6:
        return None  # No baseline, no planes.
    pencil = Pencil(a.camera, b.camera)
    return tie(side(a.tracks, a.times_s, pencil), side(b.tracks, b.times_s, pencil), config.search_s, config.max_drift)


def _require_motion(views: Mapping[str, View], strong: Mapping[Pair, Tie], config: SyncConfig) -> None:
    if strong:
        return
    moving = {name: len(view.tracks) for name, view in views.items()}
    few = [name for name, count in moving.items() if count < _FEW]
    found = ", ".join(f"'{name}' {count}" for name, count in moving.items())
    if len(few) >= len(views) - 1:
        raise CaptureError(
            f"too little moves to tell the clocks: moving points followed: {found}; at least {_FEW} are needed in two"
            f" cameras; {_MOVE}, or give timestamps, or use --method audio"
        )
    raise CaptureError(
        f"no two cameras' motion agrees at any offset within {config.search_s:g} s (moving points followed: {found});"
        " check that the calibration belongs to these videos and that they are of one take, raise --search-s, or use"
        " --method audio"
    )


def _reference(sources: Sequence[Source], strong: Mapping[Pair, Tie]) -> str:
    """The camera that the others hold best to; of those whose times were given, where there are any."""
    held = {source.name: sum(t.strength for pair, t in strong.items() if source.name in pair) for source in sources}
    timed = [source.name for source in sources if source.timed and held[source.name] > 0]
    return max(timed or held, key=held.__getitem__)


def _residual(solution: Solution, name: str) -> float:
    return float(np.median([misfit for pair, misfit in solution.misfits_s.items() if name in pair]))


def _worst(solution: Solution, views: Mapping[str, View], reference: str, config: SyncConfig) -> tuple[str, str] | None:
    """The camera that is furthest above the limit, and why; None when none is."""
    doubts: dict[str, tuple[float, str]] = {}
    for name in solution.clocks:
        frame = views[name].interval_s
        if name == reference:
            continue
        limit = f"the limit is {config.limit_frames:g}"
        error, residual = 2 * solution.error_s[name] / frame, _residual(solution, name) / frame
        scatter = _scatter(solution.spread[name]) / frame * config.limit_frames / _SCATTERED_FRAMES
        drift = abs(solution.clocks[name].scale - 1) / config.max_drift * config.limit_frames
        doubts[name] = max(
            (error, f"its clock is uncertain by {error:.2f} frames (twice the standard error); {limit}; {_MOVE}"),
            (residual, f"the other cameras disagree about its clock by {residual:.2f} frames; {limit}"),
            (scatter, "its motion hardly agrees with the other cameras' at any offset: readings scatter as by chance"),
            (drift, f"its clock would run {abs(solution.clocks[name].scale - 1):.2%} wrong, which no camera does"),
        )
    name, (doubt, reason) = max(doubts.items(), key=lambda item: item[1][0])
    return (name, reason) if doubt > config.limit_frames else None


def _scatter(spread: np.ndarray) -> float:
    """Weighted median of how far readings [M, 2] are from the result, seconds."""
    off, order = np.abs(spread[:, 0]), np.argsort(np.abs(spread[:, 0]))
    reached = np.cumsum(spread[order, 1])
    return float(off[order[np.searchsorted(reached, 0.5 * reached[-1])]])


def _why_not(name: str, view: View, ties: Mapping[Pair, Tie], config: SyncConfig) -> str:
    if len(view.tracks) < _FEW:
        return (
            f"too little moves in its view: {len(view.tracks)} moving points were followed, {_FEW} are needed; {_MOVE}"
        )
    best = max((t for pair, t in ties.items() if name in pair), key=lambda t: t.strength, default=None)
    found = f"at best {best.support:.0f} tracks agree, {best.chance:.0f} by chance" if best else "no two tracks agree"
    return f"its motion agrees with no other camera's at any offset within {config.search_s:g} s ({found})"


def _row(
    source: Source,
    view: View,
    starts: Mapping[str, float],
    reference: str,
    solution: Solution,
    reasons: Mapping[str, str],
    config: SyncConfig,
) -> CameraClock:
    name, given = source.name, given_clock(source)
    base = CameraClock(
        camera=name,
        status="refused",
        time_offset_s=given.offset_s,
        time_scale=given.scale,
        moved_s=0.0,
        drift=0.0,
        error_s=None,
        residual_s=None,
        frame_s=view.interval_s,
        speed_px_s=view.tracks.speed_px_s,
        reason=reasons.get(name, ""),
    )
    if name not in solution.clocks:
        return base
    # On the reference's clock, as it was before its zero was moved.
    found = Clock(offset_s=starts[reference]).after(solution.clocks[name]).after(Clock(offset_s=-starts[name]))
    moves = found(view.times_s) - view.times_s
    moved = float(moves[np.abs(moves).argmax()])
    row = replace(
        base,
        status="fitted",
        moved_s=moved,
        drift=found.scale - 1,
        error_s=solution.error_s[name],
        residual_s=_residual(solution, name),
    )
    if name == reference:
        return replace(row, status="reference", moved_s=0.0)
    if config.method == "auto" and source.timed and abs(moved) <= config.limit_frames * view.interval_s:
        return replace(
            row, status="given", reason=f"the times given agree with the motion within {abs(moved) * 1e3:.1f} ms"
        )
    total = found.after(given)
    return replace(row, time_offset_s=total.offset_s, time_scale=total.scale)


def _evidence(ties: Mapping[Pair, Tie], solution: Solution, reference: str) -> dict[str, Evidence]:
    """Of each camera: its search against the camera it is tied to best, the reference where they are tied."""
    evidence: dict[str, Evidence] = {}
    for name in {name for pair in ties for name in pair} - {reference}:
        own = {pair: t for pair, t in ties.items() if name in pair}
        direct = {pair: t for pair, t in own.items() if reference in pair and name in solution.clocks}
        (a, b), best = max((direct or own).items(), key=lambda item: item[1].strength)
        spread = solution.spread.get(name, np.zeros((0, 2)))
        evidence[name] = Evidence(
            lags_s=best.lags_s if b == name else -best.lags_s[::-1],
            score=best.score if b == name else best.score[::-1],
            against=a if b == name else b,
            spread_s=spread[:, 0],
            weight=spread[:, 1],
        )
    return evidence
