"""Capture: from a folder of videos to clips on one clock.

Input       a capture folder (``capture.json`` and one video per camera), another project's layout to import, or a
            calibration in any of the forms that labs keep.
Output      ``Capture`` records: undistorted uint8 frames at their own times, cameras, bench plane; and what is
            computed from frames alone for several rooms: the train/test division, temporal median and spread.
Owns        the capture folder's format (documented in ``recon4d.capture._manifest``), decoding, clocks,
            undistortion, the checks of a capture, the cache of decoded frames.
Does not    solve calibrations, resample in time, balance colours, or know anything of Gaussians.
"""

from recon4d.capture._config import IngestConfig
from recon4d.capture._divide import Division, divide
from recon4d.capture._examine import Examination, check, check_calibration, examine
from recon4d.capture._facts import CameraFacts
from recon4d.capture._findings import Finding
from recon4d.capture._ingest import ingest
from recon4d.capture._rig import Distortion, Rig, RigCamera
from recon4d.capture._sheet import contact_sheet
from recon4d.capture._sources import Source, read_sources
from recon4d.capture._statistics import statistics
from recon4d.capture.calibrations import (
    CalibrationReport,
    ReadConfig,
    calibration_formats,
    calibration_writers,
    read_calibration,
    write_calibration,
)
from recon4d.capture.formats import Foreign, formats, import_capture, read_layout
from recon4d.capture.video import frames

__all__ = [
    "CalibrationReport",
    "CameraFacts",
    "Distortion",
    "Division",
    "Examination",
    "Finding",
    "Foreign",
    "IngestConfig",
    "ReadConfig",
    "Rig",
    "RigCamera",
    "Source",
    "calibration_formats",
    "calibration_writers",
    "check",
    "check_calibration",
    "contact_sheet",
    "divide",
    "examine",
    "formats",
    "frames",
    "import_capture",
    "ingest",
    "read_calibration",
    "read_layout",
    "read_sources",
    "statistics",
    "write_calibration",
]
