"""Everything that can be said of a capture before a video is decoded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recon4d.capture._check_rig import check_rig
from recon4d.capture._clock import read_timestamps
from recon4d.capture._findings import Inspection
from recon4d.capture._likeness import bench_points, pixels_of
from recon4d.capture._manifest import CameraEntry, Manifest, read_manifest
from recon4d.capture.video import announced_frames, announced_times

_VIDEO_SUFFIXES = {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".h264", ".hevc"}


@dataclass(frozen=True, kw_only=True)
class Filmed:
    """One camera with what is known before its video is decoded."""

    entry: CameraEntry
    path: Path
    times: np.ndarray | None
    """From the timestamp file; None when the video's own times count."""
    frames: int
    """How many frames are to be expected; 0 when unknown."""
    bench_px: np.ndarray
    """[P, 2] float64, where the camera films points of the bench that all are asked for; NaN outside its picture."""

    @property
    def timed(self) -> bool:
        """Whether somebody gave this camera's times: a timestamp file, an offset or a scale."""
        return self.times is not None or self.entry.time_offset_s != 0.0 or self.entry.time_scale != 1.0

    def announced(self) -> np.ndarray | None:
        """[F] seconds on the common clock at which frames are to be expected, None when unknown; decodes nothing."""
        times = announced_times(self.path) if self.times is None else self.times
        return None if times is None or not len(times) else self.entry.on_the_clock(times)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A capture's manifest and its cameras; those that could not be read are missing."""

    manifest: Manifest
    sources: tuple[Filmed, ...]
    input_hash: str

    @property
    def frames(self) -> int:
        return sum(source.frames for source in self.sources)


def survey_folder(folder: Path, inspection: Inspection) -> Survey:
    """Everything that can be said without decoding."""
    manifest = read_manifest(folder, inspection)
    check_rig(manifest, inspection)
    digest = hashlib.sha256(manifest.text)
    owners: dict[str, str] = {}
    sources: list[Filmed] = []
    points_w = bench_points(manifest)
    for entry in manifest.entries:
        with inspection.part():
            path = folder / entry.video
            times = None
            if entry.timestamps is not None:
                times = read_timestamps(folder, entry.timestamps, entry.name, inspection)
                digest.update(times.tobytes())
            if path.is_file():
                content = _hash(path)
                digest.update(content.encode())
                if content in owners:
                    inspection.error(
                        f"is the same video as that of camera '{owners[content]}'",
                        "one was copied over the other; give each camera its own",
                        camera=entry.name,
                        file=entry.video,
                    )
                owners[content] = entry.name
            frames = len(times) if times is not None else announced_frames(path)
            sources.append(
                Filmed(entry=entry, path=path, times=times, frames=frames, bench_px=pixels_of(points_w, entry))
            )
    _warn_of_strays(manifest, inspection)
    return Survey(manifest=manifest, sources=tuple(sources), input_hash=digest.hexdigest())


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _warn_of_strays(manifest: Manifest, inspection: Inspection) -> None:
    named = {(manifest.folder / entry.video).resolve() for entry in manifest.entries}
    if len(manifest.entries) < manifest.declared:
        return  # A camera that could not be read may well be the one that names the file.
    for place in sorted({manifest.folder.resolve()} | {path.parent for path in named}):
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if path.suffix.lower() in _VIDEO_SUFFIXES and path.resolve() not in named:
                inspection.warn(
                    "no camera in capture.json names this video; it is left out",
                    "add its camera, or remove the file",
                    file=str(path.relative_to(manifest.folder.resolve())),
                )
