"""The door: videos of a board in, cameras out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from recon4d.calibrate._board import Board
from recon4d.calibrate._bundle import Noise
from recon4d.calibrate._fit import Fit, Rules, fit, placed
from recon4d.calibrate._instants import by_clock, clocks, pair, pictures_of
from recon4d.calibrate._judge import refuse_or_warn, result_of
from recon4d.calibrate._result import Calibrated
from recon4d.calibrate._sightings import Shelf, Sightings
from recon4d.calibrate._survey import survey
from recon4d.calibrate._world import BaseTag, World, at_base, find_tag, level, on_bench
from recon4d.capture import Finding
from recon4d.errors import CalibrationError, CaptureError, ConfigError
from recon4d.events import Finished, OnEvent, ShouldStop, Started, Warned, ignore, never

_STAGE = "fit"
_LIES_S, _LIES_M, _LIES_RAD = 0.5, 0.004, np.radians(1.0)
"""A board that lies on the bench stays so near to where it is, for so long before and after."""


@dataclass(frozen=True, kw_only=True)
class CalibrateConfig:
    """How cameras are calibrated."""

    lens: Literal["auto", "opencv", "fisheye"] = "auto"
    """Lens model; "auto" takes the fisheye for a camera that it explains clearly better."""
    pairing: Literal["auto", "index", "time"] = "auto"
    """Which frames show one instant: those of one number, or those nearest in time. "auto" goes by number where all
    videos have as many frames at the same times."""
    every: int = 1
    """Only each so many frames are searched; 3 is enough at 30 frames a second."""
    most_instants: int = 120
    """Of more instants those are chosen that show most: 120 take seconds, and more change little."""
    held_out_every: int = 5
    """Each so many instants is kept out of the fit to judge it; 0 keeps none out."""
    delay_s: float = 0.2
    """How far the cameras' clocks may be apart, as a standard deviation. Delays are estimated from the board's motion;
    for cameras that are triggered together 0.0001 says so."""

    def __post_init__(self) -> None:
        for name, least in (("every", 1), ("most_instants", 10), ("held_out_every", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}; it is {getattr(self, name)}")
        if self.held_out_every == 1:
            raise ConfigError("held_out_every = 1 keeps all instants out of the fit; give 0, or 2 and more")
        if not 0 < self.delay_s <= 10:
            raise ConfigError(f"delay_s must lie above 0 and up to 10 seconds; it is {self.delay_s}")


@dataclass(frozen=True, kw_only=True)
class Align:
    """Where the board lies on the bench: at a time of the clip, or throughout other videos of the same cameras."""

    time_s: float | None = None
    """Seconds on the clock of the first camera; -inf is the first instant that shows the board, inf the last."""
    videos: Mapping[str, Path] | None = None
    thickness_m: float = 0.0
    """Of the board: the bench is so much lower than the print."""

    def __post_init__(self) -> None:
        if (self.time_s is None) == (self.videos is None):
            raise ConfigError("the board on the bench is given by a time, or by videos; give one of them")
        if not 0 <= self.thickness_m <= 0.2:
            raise ConfigError(f"a board {self.thickness_m:g} m thick is not possible; 0 to 0.2")


def calibrate(
    videos: Mapping[str, Path],
    board: Board,
    config: CalibrateConfig | None = None,
    *,
    align: Align | None = None,
    base_tag: BaseTag | None = None,
    cache: Path | None = None,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> Calibrated:
    """Cameras from videos of a board that is carried through what they see.

    Lenses and poses come from bundle adjustment (Triggs et al. 2000), begun at each lens alone (Zhang 2000).

    Args:
        videos: By the camera's name; all filmed the same board at the same time.
        board: What was carried.
        config: How to go about it.
        align: The board on the bench, which becomes z = 0; the world is level by guess without.
        base_tag: A tag that makes the world the robot's base.
        cache: File in which detections are kept, so that a run with other options is quick.
        on_event: Gets ``Started``, ``Progress``, ``Warned`` and ``Finished`` of the stages "detect" and "fit".
        should_stop: Asked between frames and steps.

    Raises:
        ConfigError: no video, or an option that is out of range.
        CaptureError: a video cannot be read.
        CalibrationError: what the videos show does not determine the cameras; says what is missing.
        OutputError: the cache cannot be written.
        Stopped: ``should_stop`` said so.
    """
    config = config or CalibrateConfig()
    if not videos:
        raise ConfigError("there is no video to calibrate from")
    findings: list[Finding] = []
    shelf = Shelf(cache, config.every)

    def look(given: Mapping[str, Path], board: Board) -> tuple[Board, list[Sightings]]:
        options = {"every": config.every, "findings": findings, "on_event": on_event, "should_stop": should_stop}
        return survey(given, board, shelf, **options)

    board, sightings = look(videos, board)
    lying = None if align is None or align.videos is None else look(_same_cameras(align.videos, videos), board)[1]
    began = time.monotonic()
    on_event(Started(stage=_STAGE, detail=f"{len(videos)} cameras"))
    rules = _rules(board, videos, sightings, config)
    clock, pairing = clocks(sightings, config.pairing)
    pictures = [pictures_of(i, one, clock[i], config.every) for i, one in enumerate(sightings)]
    found = fit(pictures, clock, rules, should_stop)
    refuse_or_warn(found, rules, findings)
    bench = None if align is None else _bench(found, rules, lying or sightings, align, should_stop)
    world = bench or level(found.state)
    if base_tag is not None:
        world = at_base(*find_tag(videos, found.state, found.noise_px, base_tag, should_stop), base_tag, bench)
    result = result_of(found, rules, sightings, pictures, world, pairing, findings)
    for finding in (one for one in result.findings if one.severity == "warning"):
        on_event(Warned(stage=_STAGE, message=str(finding)))
    on_event(Finished(stage=_STAGE, seconds=time.monotonic() - began))
    return result


def _rules(board: Board, videos: Mapping[str, Path], sightings: list[Sightings], config: CalibrateConfig) -> Rules:
    return Rules(
        board=board,
        names=tuple(videos),
        sizes=tuple((one.width, one.height) for one in sightings),
        lens=config.lens,
        every=config.every,
        most=config.most_instants,
        held_out_every=config.held_out_every,
        delay_s=config.delay_s,
    )


def _same_cameras(lying: Mapping[str, Path], videos: Mapping[str, Path]) -> dict[str, Path]:
    strange = sorted(set(lying) - set(videos))
    missing = sorted(set(videos) - set(lying))
    if strange or missing:
        raise CaptureError(
            f"the videos of the board on the bench must be of the same cameras; {missing or 'none'} are missing and"
            f" {strange or 'none'} are others"
        )
    return {name: lying[name] for name in videos}


def _bench(found: Fit, rules: Rules, sightings: list[Sightings], align: Align, should_stop: ShouldStop) -> World:
    """The bench under the board; sightings are those of the clip, or of videos of the board on the bench."""
    clock, _ = clocks(sightings, "auto")
    pictures = [pictures_of(i, one, clock[i], rules.every) for i, one in enumerate(sightings)]
    # A board that lies still is where it is whatever the clocks say, so delays matter in the clip alone.
    delays_s = found.delays_s if align.videos is None else np.zeros(len(sightings))
    instants = pair(pictures, by_clock(clock, delays_s))
    if len(instants) == 0:
        raise CalibrationError("the board on the bench is seen well in no frame; film it longer, and lit well")
    index = np.arange(len(instants))
    where = "in the videos of the board on the bench"
    if align.time_s is not None:
        within = np.clip(align.time_s, instants.times_s[0], instants.times_s[-1])
        nearest = instants.times_s[int(np.argmin(np.abs(instants.times_s - within)))]
        index = np.flatnonzero(np.abs(instants.times_s - nearest) <= _LIES_S)
        where = f"around {nearest:.2f} s"
    lying = instants.only(index)
    seen = lying.observations(rules.board)
    boards = placed(found.state, seen, len(lying), Noise(sigma_px=found.noise_px), should_stop).T_rig_board
    if align.time_s is not None and len(lying) > 1:
        _refuse_moving(boards, where)
    return on_bench(boards, align.thickness_m)


def _refuse_moving(boards: np.ndarray, where: str) -> None:
    shift = np.linalg.norm(boards[:, :3, 3] - np.median(boards[:, :3, 3], axis=0), axis=-1)
    turn = boards[len(boards) // 2, :3, :3].T @ boards[:, :3, :3]
    angle = np.arccos(np.clip((np.trace(turn, axis1=-2, axis2=-1) - 1) / 2, -1, 1))
    if np.median(shift) > _LIES_M or np.median(angle) > _LIES_RAD:
        raise CalibrationError(
            f"the board does not lie still {where}: it moves by {np.median(shift) * 1e3:.1f} mm and"
            f" {np.degrees(np.median(angle)):.1f} degrees. Give a time at which it lies on the bench"
        )
