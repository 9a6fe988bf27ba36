"""What a calibration gives, and the report of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recon4d.calibrate._board import Board
from recon4d.calibrate._errors import Spread
from recon4d.capture import Finding, Rig


@dataclass(frozen=True, kw_only=True)
class CameraErrors:
    """How well one camera is known. Standard deviations hold for what single pictures and stretches of the clip do to
    the result, not for a board whose squares are not what they are said to be."""

    name: str
    lens: str
    """opencv or fisheye."""
    frames: int
    seen: int
    """Frames in which the board was found."""
    usable: int
    """… and sharp and slow enough, with known motion."""
    used: int
    """… and chosen for the fit."""
    training: Spread | None
    held_out: Spread | None
    """On instants that were not fitted, with the board placed by what all cameras see of it."""
    held_out_retimed: Spread | None
    """The same after each picture was moved to its own best instant: what is left is not the clock's."""
    off_time: float
    """Share of used pictures that were taken at another time than their instant's, by more than their noise."""
    rejected: int
    """Points taken out as misplaced."""
    focal_px: float
    focal_sigma_px: float
    position_sigma_m: float
    """Length of the error of the optical centre, relative to the reference camera; 0 for that camera."""
    rotation_sigma_rad: float
    delay_s: float
    """How much later its pictures were taken than its clock says, relative to the reference camera."""
    delay_sigma_s: float
    readout_s: float
    """How much later the bottom of its pictures was taken than the top: a rolling shutter, from the board's motion."""
    readout_sigma_s: float
    coverage: float
    """Share of the picture's 40 fields that the board reached."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was used of one camera, for pictures of it."""

    pixels: np.ndarray
    """[n, 2] px."""
    errors_px: np.ndarray
    """[n, 2] projected less observed."""
    tilts: np.ndarray
    """[k] 0 frontal to 2 strongly tilted, of each used frame."""


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """Cameras in one world, and how well they are known."""

    rig: Rig
    board: Board
    """As it was found."""
    cameras: tuple[CameraErrors, ...]
    reference: str
    """The camera that poses' errors are relative to."""
    world: str
    """Where the world is."""
    pairing: str
    """index or time."""
    square_m: float | None
    """The board's square as points triangulated from held-out instants measure it."""
    square_sides: int
    T_world_board: np.ndarray
    """[V, 4, 4] where the board was, at the instants that were fitted."""
    held_out_instants: int
    sigma: np.ndarray
    """[C, 17] standard deviations: focal length, aspect, principal point, five coefficients, rotation, translation of
    the pose relative to the reference camera, delay, readout; 0 of what is fixed."""
    relative: np.ndarray
    """[C, 4, 4] poses relative to the reference camera, that ``sigma`` belongs to."""
    seen: tuple[Seen, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """The report, for machines."""
        square = None
        if self.square_m is not None:
            share = self.square_m / self.board.square_m - 1
            square = {"measured_m": self.square_m, "given_m": self.board.square_m, "off": share}
            square["sides"] = self.square_sides
        return {
            "version": 1,
            "board": str(self.board),
            "world": self.world,
            "reference": self.reference,
            "pairing": self.pairing,
            "instants": len(self.T_world_board),
            "held_out_instants": self.held_out_instants,
            "square": square,
            "cameras": [asdict(camera) for camera in self.cameras],
            "T_world_board": self.T_world_board.tolist(),
            "findings": [asdict(finding) for finding in self.findings],
        }
