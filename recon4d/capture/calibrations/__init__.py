"""Calibration files of any form, settled to one rig.

Input       a file or folder in a known format, and what its owner knows of units, axes and scale.
Output      a ``Rig`` and how it was read; the same written in a few formats.
Owns        detection by content, candidate readings and their scores, the way from a file's world to the bench's,
            parsers that do not trust what they parse.
Does not    know the formats, which lie in ``recon4d.capture.formats``, nor any video.
"""

from recon4d.capture.calibrations._calibrations import (
    calibration_formats,
    calibration_writers,
    find_calibration,
    is_calibration,
    read_calibration,
    settle,
    write_calibration,
)
from recon4d.capture.calibrations._found import (
    C2W_OPENGL,
    W2C_OPENCV,
    CalibrationFormat,
    Found,
    FoundCamera,
    Reading,
    Seen,
)
from recon4d.capture.calibrations._placing import ReadConfig
from recon4d.capture.calibrations._report import CalibrationReport
from recon4d.capture.calibrations._untrusted import Untrusted, load_npy, parse, reading
from recon4d.capture.calibrations._values import LARGEST, Values, is_matrix, lens, show

__all__ = [
    "C2W_OPENGL",
    "LARGEST",
    "W2C_OPENCV",
    "CalibrationFormat",
    "CalibrationReport",
    "Found",
    "FoundCamera",
    "ReadConfig",
    "Reading",
    "Seen",
    "Untrusted",
    "Values",
    "calibration_formats",
    "calibration_writers",
    "find_calibration",
    "is_calibration",
    "is_matrix",
    "lens",
    "load_npy",
    "parse",
    "read_calibration",
    "reading",
    "settle",
    "show",
    "write_calibration",
]
