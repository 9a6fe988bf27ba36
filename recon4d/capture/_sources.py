"""What a capture says of each camera before its video is decoded: for work that reads videos on its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recon4d.capture._clock import read_timestamps
from recon4d.capture._findings import Finding, Inspection
from recon4d.capture._manifest import read_manifest
from recon4d.capture._rig import RigCamera


@dataclass(frozen=True, kw_only=True)
class Source:
    """One camera of a capture folder: its numbers, its video, and the times that it was given."""

    rig: RigCamera
    video: Path
    times: np.ndarray | None
    """[F] float64 seconds from the timestamp file; None where the video's own times count."""
    time_offset_s: float
    time_scale: float

    @property
    def name(self) -> str:
        return self.rig.name

    @property
    def timed(self) -> bool:
        """Whether somebody gave this camera's times: a timestamp file, an offset or a scale."""
        return self.times is not None or self.time_offset_s != 0.0 or self.time_scale != 1.0


def read_sources(folder: Path | str) -> tuple[Source, ...]:
    """The cameras of a capture folder, in its order; no video is opened.

    Raises:
        CaptureError: ``capture.json`` or a timestamp file cannot be used.
    """

    def refuse(finding: Finding) -> None:
        if finding.severity == "error":
            raise finding.as_error()

    folder, inspection = Path(folder), Inspection(refuse)
    sources: list[Source] = []
    for entry in read_manifest(folder, inspection).entries:
        times = None
        if entry.timestamps is not None:
            times = read_timestamps(folder, entry.timestamps, entry.name, inspection)
        sources.append(
            Source(
                rig=RigCamera(camera=entry.camera, distortion=entry.distortion),
                video=folder / entry.video,
                times=times,
                time_offset_s=entry.time_offset_s,
                time_scale=entry.time_scale,
            )
        )
    return tuple(sources)
