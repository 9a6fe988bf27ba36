"""Calibrate: from videos of a board to cameras.

Input       one video per fixed camera, of one ChArUco board or tag grid that is carried through what they see.
Output      ``Calibrated``: a ``Rig`` in metres, errors of each camera on instants that were fitted and that were not,
            error bars, delays of the cameras' clocks; pictures of the rig and of what each camera was shown.
Owns        boards and how they are written in a word, finding them in pictures, lens models with derivatives, bundle
            adjustment and its error bars, the frames that a board on the bench or a tag of the robot's base give.
Does not    calibrate without a board, synchronise videos that began seconds apart, or read other calibrations.
"""

from recon4d.calibrate._board import FORM, Board
from recon4d.calibrate._calibrate import Align, CalibrateConfig, calibrate
from recon4d.calibrate._draw import draw_coverage, draw_rig
from recon4d.calibrate._errors import Spread
from recon4d.calibrate._result import Calibrated, CameraErrors, Seen
from recon4d.calibrate._world import BaseTag

__all__ = [
    "FORM",
    "Align",
    "BaseTag",
    "Board",
    "CalibrateConfig",
    "Calibrated",
    "CameraErrors",
    "Seen",
    "Spread",
    "calibrate",
    "draw_coverage",
    "draw_rig",
]
