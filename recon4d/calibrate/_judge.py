"""What a fit is worth: refused, warned of, or told with its errors."""

from __future__ import annotations

import numpy as np

from recon4d.calibrate import _lens
from recon4d.calibrate._board import Board
from recon4d.calibrate._bundle import DELAY, READOUT, SLOTS, Observations, State, residuals
from recon4d.calibrate._errors import Spread, distances, ruler
from recon4d.calibrate._fit import Fit, Rules
from recon4d.calibrate._instants import GRID, Picture, tilt_of
from recon4d.calibrate._result import Calibrated, CameraErrors, Seen
from recon4d.calibrate._sightings import Sightings
from recon4d.calibrate._world import World, moved
from recon4d.capture import Distortion, Finding, Rig, RigCamera
from recon4d.errors import CalibrationError
from recon4d.types import Camera

_UNSURE_FOCAL, _USELESS_FOCAL = 0.01, 0.05
"""Standard deviations of the focal length, as a share of it, that are warned of and refused."""
_MISFIT_PX = 3.0
"""Half of the points further off than this mean that the board or the cameras are not what they are said to be."""
_SQUARE_OFF = 0.005
_OFF_TIME = 6.0
"""Standard deviations of a picture's residual along the board's motion that mean that it was taken at another time."""
_MANY_OFF_TIME = 0.1
_LITTLE_COVERED = 0.3


def refuse_or_warn(found: Fit, rules: Rules, findings: list[Finding]) -> None:
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


def result_of(
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
    findings.append(Finding(severity="note", message=f"the world: {world.words}"))
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
        readout_s=float(found.state.readouts_s[index]),
        readout_sigma_s=float(sigma[READOUT]),
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
        if camera.readout_s > 3 * camera.readout_sigma_s > 0:
            findings.append(
                Finding(
                    severity="note",
                    message=f"its shutter rolls: {camera.readout_s * 1e3:.0f} ms from a picture's top to its bottom",
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
