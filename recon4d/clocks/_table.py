"""The sync table: what was found of every camera's clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from recon4d.errors import CaptureError

Status = Literal["reference", "given", "fitted", "refused"]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a camera's clock was found from, for a picture."""

    lags_s: np.ndarray
    """[L] lags against another camera that were searched."""
    score: np.ndarray
    """[L] how well the two agree at each."""
    against: str
    """That other camera."""
    spread_s: np.ndarray
    """[M] how far single readings are from the result, seconds."""
    weight: np.ndarray
    """[M] their weights."""


@dataclass(frozen=True, kw_only=True)
class CameraClock:
    """One row of the sync table: t = time of the file * time_scale + time_offset_s."""

    camera: str
    status: Status
    """"given": times that somebody gave and that are right; "refused": no clock that could be relied on."""
    time_offset_s: float
    time_scale: float
    moved_s: float
    """How far the times were off at the worst instant of the clip; 0 for the reference."""
    drift: float
    """By which part of a second per second its clock ran differently."""
    error_s: float | None
    """Standard deviation of the clock at the worst instant; None where it was not found."""
    residual_s: float | None
    """Median over the other cameras of how far two cameras by themselves are from the common result."""
    frame_s: float
    """Usual time between two frames, on the common clock."""
    speed_px_s: float
    """Upper quartile of the speeds of what moves in the picture, pixels per second; 0 where nothing does."""
    reason: str = ""
    """Why it was refused, or what agrees with what."""

    @property
    def doubt_s(self) -> float | None:
        """The larger of the residual and of twice the error."""
        return None if self.error_s is None else max(2 * self.error_s, self.residual_s or 0.0)

    def to_json(self) -> dict[str, Any]:
        doubt = self.doubt_s
        return {
            **{key: value for key, value in vars(self).items() if value is not None},
            **({} if doubt is None else {"doubt_frames": doubt / self.frame_s, "doubt_px": doubt * self.speed_px_s}),
        }


@dataclass(frozen=True, kw_only=True)
class Synchronised:
    """The clocks of a capture's cameras."""

    method: Literal["geometric", "audio"]
    """What decided."""
    reference: str
    clocks: tuple[CameraClock, ...]
    """In the capture's order."""
    evidence: dict[str, Evidence] = field(default_factory=dict)
    """By camera, where there is some."""
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> tuple[CameraClock, ...]:
        return tuple(clock for clock in self.clocks if clock.status == "refused")

    def require(self) -> None:
        """Raises a CaptureError that names the first camera without a clock, unless all have one."""
        if self.refused:
            first, others = self.refused[0], [clock.camera for clock in self.refused[1:]]
            more = f"; the same holds for {others}" if others else ""
            raise CaptureError(
                f"cannot be synchronised: {first.reason}{more}; check its video and calibration, or leave it out with"
                " --drop-bad-cameras",
                camera=first.camera,
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "reference": self.reference,
            "cameras": [clock.to_json() for clock in self.clocks],
            "notes": list(self.notes),
        }

    def text(self) -> str:
        """The table as lines."""
        head = ("camera", "clock", "moved", "frames", "drift", "error", "residual", "frames", "motion")
        rows = [head, *(_row(clock) for clock in self.clocks)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines += [f"{clock.camera}: {clock.reason}" for clock in self.clocks if clock.reason]
        return "\n".join([*lines, *self.notes])


def _row(clock: CameraClock) -> tuple[str, ...]:
    doubt = clock.doubt_s
    if clock.error_s is None or doubt is None:
        return (clock.camera, clock.status, *["-"] * 7)
    return (
        clock.camera,
        clock.status,
        f"{clock.moved_s * 1e3:+.1f} ms",
        f"{clock.moved_s / clock.frame_s:+.2f}",
        f"{clock.drift * 100:+.3f} %",
        f"{clock.error_s * 1e3:.1f} ms",
        "-" if clock.residual_s is None else f"{clock.residual_s * 1e3:.1f} ms",
        f"{doubt / clock.frame_s:.2f}",
        f"{doubt * clock.speed_px_s:.2f} px" if clock.speed_px_s else "-",
    )
