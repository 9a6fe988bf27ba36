"""How a calibration was read, for people and for machines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from recon4d.capture._findings import Finding
from recon4d.capture.calibrations._found import Reading
from recon4d.capture.calibrations._readings import Score, table


@dataclass(frozen=True, kw_only=True)
class CalibrationReport:
    """How a calibration was read, and why so."""

    format: str
    file: str
    reading: Reading
    """Of the file's pose matrices."""
    units: str
    metres_per_unit: float
    scores: tuple[Score, ...]
    """Every candidate, the best first."""
    findings: tuple[Finding, ...]
    """Warnings and notes."""

    @property
    def summary(self) -> str:
        """What was decided, and below it the scores that decided it."""
        decided = f"{self.format}, poses read as {self.reading} in {self.units} (1 unit = {self.metres_per_unit:.6g} m)"
        return f"{decided}\n{table(self.scores)}"

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.file}: {self.summary}", *(f"{finding.severity}: {finding}" for finding in self.findings)]
        )

    def to_json(self) -> dict[str, Any]:
        """The same as plain values; an error in pixels is null where points lie behind the cameras."""
        return {
            "format": self.format,
            "file": self.file,
            "reading": str(self.reading),
            "units": self.units,
            "metres_per_unit": self.metres_per_unit,
            "scores": [_plain(score) for score in self.scores],
            "findings": [vars(finding) for finding in self.findings],
        }


def _plain(score: Score) -> dict[str, Any]:
    error_px = score.point_error_px
    finite = error_px if error_px is not None and math.isfinite(error_px) else None
    return {**vars(score), "reading": str(score.reading), "point_error_px": finite}
