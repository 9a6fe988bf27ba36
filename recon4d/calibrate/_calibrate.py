"""The door: videos of a board in, cameras out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from recon4d.calibrate import _lens
from recon4d.calibrate._board import Board
from recon4d.calibrate._bundle import DELAY, SLOTS, Noise, Observations, State, residuals
from recon4d.calibrate._errors import Spread, distances, ruler
from recon4d.calibrate._fit import Fit, Rules, fit, placed
from recon4d.calibrate._instants import GRID, Picture, by_clock, clocks, pair, pictures_of, tilt_of
from recon4d.calibrate._result import Calibrated, CameraErrors, Seen
from recon4d.calibrate._sightings import Shelf, Sightings
from recon4d.calibrate._survey import survey
from recon4d.calibrate._world import BaseTag, World, at_base, find_tag, level, moved, on_bench
from recon4d.capture import Distortion, Finding, Rig, RigCamera
from recon4d.errors import CalibrationError, CaptureError, ConfigError
from recon4d.events import Finished, OnEvent, ShouldStop, Started, Warned, ignore, never
from recon4d.types import Camera

_STAGE = "fit"
_UNSURE_FOCAL, _USELESS_FOCAL = 0.01, 0.05
"""Standard deviations of the focal length, as a share of it, that are warned of and refused."""
_MISFIT_PX = 3.0
"""Half of the points further off than this mean that the board or the cameras are not what they are said to be."""
_SQUARE_OFF = 0.005
_OFF_TIME = 6.0
"""Standard deviations of a picture's residual along the board's motion that mean that it was taken at another time."""
_MANY_OFF_TIME = 0.1
_LITTLE_COVERED = 0.3
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

    Lenses and poses are found together by bundle adjustment over all instants (Triggs et al. 2000), from each lens
    alone (Zhang 2000) and a spanning tree of cameras that saw the board together.

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
    options = {"every": config.every, "findings": findings, "on_event": on_event, "should_stop": should_stop}
    board, sightings = survey(videos, board, shelf, **options)
    began = time.monotonic()
    on_event(Started(stage=_STAGE, detail=f"{len(videos)} cameras"))
    clock, pairing = clocks(sightings, config.pairing)
    pictures = [pictures_of(i, one, clock[i], config.every) for i, one in enumerate(sightings)]
    rules = Rules(
        board=board,
        names=tuple(videos),
        sizes=tuple((one.width, one.height) for one in sightings),
        lens=config.lens,
        most=config.most_instants,
        held_out_every=config.held_out_every,
        delay_s=config.delay_s,
    )
    found = fit(pictures, clock, rules, should_stop)
    _refuse_or_warn(found, rules, findings)
    world = level(found.state)
    if align is not None and align.videos is not None:
        _, lying = survey(_same_cameras(align.videos, videos), board, shelf, **options)
        world = _bench(found, rules, lying, align, np.zeros(len(videos)), should_stop)
    elif align is not None:
        world = _bench(found, rules, sightings, align, found.delays_s, should_stop)
    if base_tag is not None:
        bench = world if align is not None else None
        world = at_base(find_tag(videos, found.state, found.noise_px, base_tag, should_stop), base_tag, bench)
    result = _result(found, rules, sightings, pictures, world, pairing, findings)
    for finding in result.findings:
        if finding.severity == "warning":
            on_event(Warned(stage=_STAGE, message=str(finding)))
    on_event(Finished(stage=_STAGE, seconds=time.monotonic() - began))
    return result


def _same_cameras(lying: Mapping[str, Path], videos: Mapping[str, Path]) -> dict[str, Path]:
    strange = sorted(set(lying) - set(videos))
    missing = sorted(set(videos) - set(lying))
    if strange or missing:
        raise CaptureError(
            f"the videos of the board on the bench must be of the same cameras; {missing or 'none'} are missing and"
            f" {strange or 'none'} are others"
        )
    return {name: lying[name] for name in videos}


def _refuse_or_warn(found: Fit, rules: Rules, findings: list[Finding]) -> None:
    """What the fit shows to be wrong with the pictures."""
    off = distances(found.state, found.used)
    if np.median(off) > _MISFIT_PX:
        raise CalibrationError(
            f"half of the points lie more than {np.median(off):.1f} px from where any cameras could see them. Check"
            f" that the board is {rules.board} (columns x rows, and which comes first), that the videos began together,"
            " and that no camera moved or zoomed"
        )
    for index, name in enumerate(rules.names):
        focal, sigma = found.state.lenses[index, 0], found.sigma[index, 0]
        if sigma > _USELESS_FOCAL * focal:
            raise CalibrationError(
                f"the focal length is {focal:.0f} px, give or take {sigma:.0f}: the board was always nearly frontal, or"
                " seen too rarely. Tilt it by 30 to 45 degrees to all sides, near and far",
                camera=name,
            )
        if sigma > _UNSURE_FOCAL * focal:
            findings.append(
                Finding(
                    severity="warning",
                    message=f"the focal length is {focal:.1f} px, give or take {sigma:.1f} ({sigma / focal:.1%})",
                    advice="show this camera the board longer, tilted to all sides, near and far, up to the corners",
                    camera=name,
                )
            )


def _bench(
    found: Fit, rules: Rules, sightings: list[Sightings], align: Align, delays_s: np.ndarray, should_stop: ShouldStop
) -> World:
    clock, _ = clocks(sightings, "auto")
    pictures = [pictures_of(i, one, clock[i], 1) for i, one in enumerate(sightings)]
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


def _result(
    found: Fit,
    rules: Rules,
    sightings: list[Sightings],
    pictures: list[list[Picture]],
    world: World,
    pairing: str,
    findings: list[Finding],
) -> Calibrated:
    state = moved(found.state, world)
    measured = ruler(found.unseen_state, found.unseen, rules.board)
    count = range(len(rules.names))
    cameras = tuple(_rig_camera(i, state, rules) for i in count)
    errors = tuple(_errors_of(i, found, rules, sightings[i], len(pictures[i])) for i in count)
    findings = [*findings, *_worth_saying(errors, measured, rules.board)]
    if world.plane is None:
        findings.append(Finding(severity="note", message=world.words))
    notes = f"calibrated from a board {rules.board}; {world.words}"
    return Calibrated(
        rig=Rig(cameras=cameras, plane=world.plane, notes=notes),
        board=rules.board,
        cameras=errors,
        reference=rules.names[found.reference],
        world=world.words,
        pairing=pairing,
        square_m=None if measured is None else measured[0],
        square_sides=0 if measured is None else measured[1],
        T_world_board=state.T_rig_board,
        held_out_instants=len(found.unseen_state.T_rig_board),
        sigma=found.sigma,
        relative=found.state.T_cam_rig,
        seen=tuple(_seen(i, found, rules.board) for i in count),
        findings=tuple(findings),
    )


def _rig_camera(index: int, state: State, rules: Rules) -> RigCamera:
    lens, kind = state.lenses[index], state.kinds[index]
    return RigCamera(
        camera=Camera(
            name=rules.names[index],
            width=rules.sizes[index][0],
            height=rules.sizes[index][1],
            K=_lens.matrix(lens),
            T_cam_world=state.T_cam_rig[index],
        ),
        distortion=Distortion(model=kind, coefficients=_lens.coefficients(lens, kind)),
    )


def _errors_of(index: int, found: Fit, rules: Rules, one: Sightings, usable: int) -> CameraErrors:
    sigma = found.sigma[index]
    used = found.used.only(found.used.camera == index)
    unseen = found.unseen.only(found.unseen.camera == index)
    retimed, _ = _retimed(found.unseen_state, unseen, found.noise_px[index])
    _, off_time = _retimed(found.state, used, found.noise_px[index])
    return CameraErrors(
        name=rules.names[index],
        lens=found.state.kinds[index],
        frames=len(one.times_s),
        seen=len(one.seen),
        usable=usable,
        used=len(used.starts),
        training=Spread.of(distances(found.state, used)),
        held_out=Spread.of(distances(found.unseen_state, unseen)),
        held_out_retimed=Spread.of(retimed),
        off_time=off_time,
        rejected=int(found.rejected[index]),
        focal_px=float(found.state.lenses[index, _lens.FOCAL]),
        focal_sigma_px=float(sigma[_lens.FOCAL]),
        position_sigma_m=float(np.linalg.norm(sigma[SLOTS + 3 : SLOTS + 6])),
        rotation_sigma_rad=float(np.linalg.norm(sigma[SLOTS : SLOTS + 3])),
        delay_s=float(found.delays_s[index]),
        delay_sigma_s=float(sigma[DELAY]),
        coverage=_coverage(used.pixel, rules.sizes[index]),
    )


def _retimed(state: State, observations: Observations, sigma_px: float) -> tuple[np.ndarray, float]:
    """Distances [n] px after each picture has moved to its best instant, and the share of pictures that had to."""
    if len(observations) == 0:
        return np.zeros(0), 0.0
    r, m, starts = residuals(state, observations), observations.motion, observations.starts
    power = np.maximum(np.add.reduceat((m * m).sum(-1), starts), 1e-12)
    along = np.add.reduceat((m * r).sum(-1), starts)
    rest = r - m * (along / power)[observations.picture][:, None]
    return np.linalg.norm(rest, axis=-1), float(np.mean(np.abs(along) / np.sqrt(power) > _OFF_TIME * sigma_px))


def _coverage(pixels: np.ndarray, size: tuple[int, int]) -> float:
    cells = np.clip(np.floor(pixels / size * GRID).astype(int), 0, np.array(GRID) - 1)
    return len(np.unique(cells, axis=0)) / (GRID[0] * GRID[1])


def _seen(index: int, found: Fit, board: Board) -> Seen:
    own = found.used.only(found.used.camera == index)
    shown = [picture for row in found.used_instants.pictures for picture, _ in row if picture.camera == index]
    return Seen(
        pixels=own.pixel,
        errors_px=residuals(found.state, own),
        tilts=np.array([tilt_of(picture, board)[0] for picture in shown]),
    )


def _worth_saying(cameras: tuple[CameraErrors, ...], measured: tuple[float, int] | None, board: Board) -> list[Finding]:
    findings = []
    for camera in cameras:
        if camera.off_time > _MANY_OFF_TIME:
            findings.append(
                Finding(
                    severity="warning",
                    message=f"{camera.off_time:.0%} of its pictures were taken at other times than those they are"
                    " paired with: their errors lie along the board's motion",
                    advice="they weigh little; trigger the cameras together, or hold the board still now and then",
                    camera=camera.name,
                )
            )
        if camera.coverage < _LITTLE_COVERED:
            findings.append(
                Finding(
                    severity="warning",
                    message=f"the board reached {camera.coverage:.0%} of its picture; elsewhere its lens is a guess",
                    advice="carry the board through the whole of what it sees, into the corners",
                    camera=camera.name,
                )
            )
        if abs(camera.delay_s) > 5 * max(camera.delay_sigma_s, 1e-3):
            findings.append(
                Finding(
                    severity="note",
                    message=f"its pictures were taken {abs(camera.delay_s) * 1e3:.0f} ms"
                    f" {'later' if camera.delay_s > 0 else 'earlier'} than its clock says, by that of the reference",
                    camera=camera.name,
                )
            )
    if measured is not None and abs(measured[0] / board.square_m - 1) > _SQUARE_OFF:
        findings.append(
            Finding(
                severity="warning",
                message=f"the board's square measures {measured[0] * 1e3:.2f} mm when triangulated, given were"
                f" {board.square_m * 1e3:.2f} mm",
                advice="calibrate from more instants that several cameras share",
            )
        )
    return findings
