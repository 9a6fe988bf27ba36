"""What is wrong with a capture, said once and used twice: ``check`` collects it, ``ingest`` refuses with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

from recon4d.errors import CalibrationError, CaptureError

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The gravest first."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong with a capture, or that somebody should know about it."""

    severity: Severity
    """An error stops the work, a warning wants a look, a note says what was done about something common."""
    message: str
    """What was found, with the value, and what is allowed."""
    advice: str = ""
    """What to do about it."""
    camera: str | None = None
    file: str | None = None
    """Path relative to the capture folder, where there is one."""
    calibration: bool = False
    """Whether it is about a camera's numbers (K, distortion, size, pose) and not about its files."""

    @property
    def text(self) -> str:
        """Message and advice as one sentence, without camera and file."""
        return f"{self.message}; {self.advice}" if self.advice else self.message

    def as_error(self) -> CaptureError:
        """The exception that ``ingest`` raises for it."""
        kind = CalibrationError if self.calibration else CaptureError
        return kind(self.text, camera=self.camera, file=self.file)

    def __str__(self) -> str:
        return str(CaptureError(self.text, camera=self.camera, file=self.file))


class RefusedError(Exception):
    """Unwinds to the end of the part that cannot go on; the finding has been reported already."""


class Inspection:
    """Where every check reports to.

    ``on_finding`` decides what an error means: a function that raises makes the first one final, one that
    collects lets the inspection go on with the parts that do not depend on what failed.
    """

    def __init__(self, on_finding: Callable[[Finding], None]) -> None:
        self._on_finding = on_finding
        self.calibration_failed = False
        """Whether an error about a camera's numbers was reported."""

    def report(self, finding: Finding) -> None:
        self._on_finding(finding)

    def warn(self, message: str, advice: str = "", *, camera: str | None = None, file: str | None = None) -> None:
        self._on_finding(Finding(severity="warning", message=message, advice=advice, camera=camera, file=file))

    def note(self, message: str, advice: str = "", *, camera: str | None = None, file: str | None = None) -> None:
        self._on_finding(Finding(severity="note", message=message, advice=advice, camera=camera, file=file))

    def error(
        self,
        message: str,
        advice: str = "",
        *,
        camera: str | None = None,
        file: str | None = None,
        calibration: bool = False,
    ) -> NoReturn:
        self.calibration_failed |= calibration
        self._on_finding(
            Finding(severity="error", message=message, advice=advice, camera=camera, file=file, calibration=calibration)
        )
        raise RefusedError

    def about(self, camera: str | None, file: str | None) -> Subject:
        """This inspection, of one camera's file."""
        return Subject(inspection=self, camera=camera, file=file)

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of the inspection that may fail without ending the others."""
        try:
            yield
        except RefusedError:
            return


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What an inspection looks at: one camera's file, named once."""

    inspection: Inspection
    camera: str | None
    file: str | None

    def warn(self, message: str, advice: str = "") -> None:
        self.inspection.warn(message, advice, camera=self.camera, file=self.file)

    def note(self, message: str, advice: str = "") -> None:
        self.inspection.note(message, advice, camera=self.camera, file=self.file)

    def error(self, message: str, advice: str = "", *, calibration: bool = False) -> NoReturn:
        self.inspection.error(message, advice, camera=self.camera, file=self.file, calibration=calibration)
