"""Clocks: what a capture's cameras call one instant.

Input       a capture folder: a calibrated rig with its videos, whose times are missing, wrong, or to be verified.
Output      a sync table: offset and drift of every camera's clock against one of them, with residual and uncertainty;
            and the same capture with its clocks set.
Owns        following what moves, the search over offsets by the epipolar constraint, the fit of all clocks at once,
            the correlation of sound, the refusal of a camera whose clock cannot be relied on.
Does not    solve calibrations, resample pictures in time, or change a capture in place.
"""

from recon4d.clocks._config import SyncConfig
from recon4d.clocks._plot import plot
from recon4d.clocks._synchronise import synchronise
from recon4d.clocks._table import CameraClock, Evidence, Synchronised
from recon4d.clocks._write import write_capture

__all__ = ["CameraClock", "Evidence", "SyncConfig", "Synchronised", "plot", "synchronise", "write_capture"]
