"""The two doors that read a capture folder, on one implementation: what ``check`` lists, ``ingest`` refuses."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recon4d.capture._calibration import Undistorter, check_rig
from recon4d.capture._clock import check_rhythm, check_times, common_time, read_timestamps
from recon4d.capture._container import announced_frames
from recon4d.capture._findings import Finding, Inspection
from recon4d.capture._likeness import bench_points, compare_looks, pixels_of
from recon4d.capture._manifest import CameraEntry, Manifest, read_manifest
from recon4d.capture._store import Spool, Stored, StoredClip, open_stored
from recon4d.capture._video import decode
from recon4d.capture._watch import Looks, PictureWatch
from recon4d.errors import ConfigError, Stopped
from recon4d.events import Finished, OnEvent, Progress, ShouldStop, Started, Warned, ignore, never
from recon4d.types import Capture, Clip

_STAGE = "ingest"
_VIDEO_SUFFIXES = {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".h264", ".hevc"}
_PROGRESS_EVERY = 50


@dataclass(frozen=True, kw_only=True)
class IngestConfig:
    """How a capture is read."""

    memory_budget_mib: int = 128
    """MiB of decoded frames, over all cameras, that may be held in memory; a longer capture is read from a
    memory-mapped file. The default keeps memory the same for any real clip: 128 MiB are 2.4 s of 8 cameras at
    320x240 and 30 frames a second."""
    gap_factor: float = 3.0
    """An interval of more than this many usual ones is reported as a gap. Frames keep their own times, so one dropped
    frame (two intervals) does no harm; below 2 it is reported too."""
    exposure_ratio: float = 2.0
    """Cameras whose mean levels differ by more than this are reported. Different views of one bench differ by up to
    1.3 in the captures at hand."""

    def __post_init__(self) -> None:
        if self.memory_budget_mib < 0:
            raise ConfigError(f"memory_budget_mib must be 0 or more; it is {self.memory_budget_mib}")
        for name in ("gap_factor", "exposure_ratio"):
            if not getattr(self, name) > 1:
                raise ConfigError(f"{name} must be more than 1; it is {getattr(self, name)}")


def ingest(
    folder: Path | str,
    config: IngestConfig | None = None,
    *,
    workdir: Path | None = None,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> Capture:
    """Reads a capture folder: decodes, undistorts, puts all cameras on one clock.

    Args:
        folder: Holds ``capture.json`` and the videos; only read.
        config: How to read it.
        workdir: Where decoded frames are kept for later runs; a temporary folder when None.
        on_event: Gets ``Started``, ``Progress`` (in frames), ``Warned`` and ``Finished`` of the stage "ingest".
        should_stop: Asked between frames.

    Returns:
        The capture. Its frames are read-only uint8 [H, W, 3] arrays.

    Raises:
        CaptureError: the folder or a video cannot be used.
        CalibrationError: a camera's numbers cannot be used.
        OutputError: the work folder cannot be written, or the disk is full.
        Stopped: ``should_stop`` said so.
    """
    began = time.monotonic()
    config = config or IngestConfig()
    workdir = None if workdir is None else Path(workdir)

    def refuse_or_warn(finding: Finding) -> None:
        if finding.severity == "error":
            raise finding.as_error()
        if finding.severity == "warning":
            on_event(Warned(stage=_STAGE, message=str(finding)))

    inspection = Inspection(refuse_or_warn)
    survey = _survey(Path(folder), config, inspection)
    on_event(Started(stage=_STAGE, total=survey.frames or None, detail=f"{len(survey.sources)} cameras"))
    stored = None if workdir is None else open_stored(workdir, survey.input_hash)
    reused = stored is not None
    if stored is None:
        stored = _decode_all(survey, workdir, inspection, _Ticker(survey.frames, on_event, should_stop))
    else:
        for finding in stored.findings:
            inspection.report(finding)
    try:
        capture = _assemble(survey, stored, config, inspection)
    finally:
        if workdir is None:
            # The frames are in memory, or mapped: a mapping outlives the file's name, and frees the disk at its end.
            shutil.rmtree(stored.folder, ignore_errors=True)
    frames = ", ".join(f"'{clip.camera.name}' {len(clip)}" for clip in capture.clips)
    detail = f"{capture.duration_s:.3f} s; frames: {frames}"
    on_event(Finished(stage=_STAGE, seconds=time.monotonic() - began, reused=reused, detail=detail))
    return capture


def check(folder: Path | str, config: IngestConfig | None = None) -> tuple[Finding, ...]:
    """Everything that ``ingest`` would refuse or warn of, all at once; videos are decoded to the end.

    Memory stays small and nothing is written. An empty result, or warnings alone, mean that ``ingest`` will do.
    """
    config = config or IngestConfig()
    findings: list[Finding] = []
    inspection = Inspection(findings.append)
    with inspection.part():
        survey = _survey(Path(folder), config, inspection)
        clips: dict[str, _Decoded] = {}
        for source in survey.sources:
            with inspection.part():
                clips[source.entry.name] = _decode_one(source, inspection, lambda frame: None)
        _compare(survey, clips, config, inspection)
        if len(clips) == survey.manifest.declared:
            with inspection.part():
                common_time({name: clip.times for name, clip in clips.items()}, inspection)
    return tuple(findings)


def check_calibration(folder: Path | str) -> tuple[Finding, ...]:
    """What ``check`` finds in ``capture.json`` alone: every camera's numbers and the rig, without any video."""
    findings: list[Finding] = []
    inspection = Inspection(findings.append)
    with inspection.part():
        check_rig(read_manifest(Path(folder), inspection), inspection)
    return tuple(findings)


@dataclass(frozen=True, kw_only=True)
class _Source:
    """One camera with what is known before its video is decoded."""

    entry: CameraEntry
    path: Path
    times: np.ndarray | None
    """From the timestamp file; None when the video's own times count."""
    frames: int
    """How many frames are to be expected; 0 when unknown."""
    bench_px: np.ndarray
    """[P, 2] float64, where the camera films points of the bench that all are asked for; NaN outside its picture."""


@dataclass(frozen=True, kw_only=True)
class _Survey:
    manifest: Manifest
    sources: tuple[_Source, ...]
    input_hash: str

    @property
    def frames(self) -> int:
        return sum(source.frames for source in self.sources)


def _survey(folder: Path, config: IngestConfig, inspection: Inspection) -> _Survey:
    """Everything that can be said without decoding."""
    manifest = read_manifest(folder, inspection)
    check_rig(manifest, inspection)
    digest = hashlib.sha256(manifest.text)
    owners: dict[str, str] = {}
    sources: list[_Source] = []
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
                _Source(entry=entry, path=path, times=times, frames=frames, bench_px=pixels_of(points_w, entry))
            )
    _warn_of_strays(manifest, inspection)
    return _Survey(manifest=manifest, sources=tuple(sources), input_hash=digest.hexdigest())


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


class _Ticker:
    """Counts decoded frames, says so now and then, and ends the work when asked to."""

    def __init__(self, total: int, on_event: OnEvent, should_stop: ShouldStop) -> None:
        self._total = total
        self._on_event = on_event
        self._should_stop = should_stop
        self._step = 0
        self._began = time.monotonic()

    def tick(self, *, last: bool = False) -> None:
        if self._should_stop():
            raise Stopped("stopped while decoding; nothing is kept, and the next run decodes again")
        self._step += not last
        if last or self._step % _PROGRESS_EVERY == 0:
            total = max(self._total, self._step)
            eta_s = (time.monotonic() - self._began) / max(self._step, 1) * (total - self._step)
            self._on_event(Progress(stage=_STAGE, step=self._step, total=total, eta_s=eta_s))


@dataclass(frozen=True, kw_only=True)
class _Decoded:
    """What is known of one camera once its video is decoded."""

    times: np.ndarray
    """[F] float64, seconds on the original clock."""
    looks: Looks


def _decode_all(survey: _Survey, workdir: Path | None, inspection: Inspection, ticker: _Ticker) -> Stored:
    findings: list[Finding] = []

    def remember(finding: Finding) -> None:
        inspection.report(finding)
        findings.append(finding)

    clips: list[StoredClip] = []
    with Spool(workdir) as spool:
        for index, source in enumerate(survey.sources):
            camera, undistort, file = source.entry.camera, Undistorter(source.entry), f"{index}.rgb"

            def store(frame: np.ndarray, undistort: Undistorter = undistort) -> None:
                spool.write(undistort(frame))
                ticker.tick()

            spool.begin(file)
            clip = _decode_one(source, Inspection(remember), store)
            ticker.tick(last=True)
            shape = (len(clip.times), camera.height, camera.width, 3)
            clips.append(StoredClip(camera=camera.name, file=file, shape=shape, times=clip.times, looks=clip.looks))
        return spool.finish(survey.input_hash, clips, findings)


def _decode_one(source: _Source, inspection: Inspection, take: Callable[[np.ndarray], None]) -> _Decoded:
    """Decodes a video to the end and hands every frame to ``take``."""
    watch = PictureWatch(source.bench_px)
    presented: list[float | None] = []
    entry = source.entry
    with closing(decode(source.path, inspection.about(entry.name, entry.video), entry.camera)) as frames:
        for time_s, frame in frames:
            presented.append(time_s)
            watch.see(frame)
            take(frame)
    times = _times(source, presented, inspection)
    watch.conclude(times, inspection.about(entry.name, entry.video))
    return _Decoded(times=times, looks=watch.looks)


def _times(source: _Source, presented: list[float | None], inspection: Inspection) -> np.ndarray:
    """[F] seconds on the original clock: of the timestamp file, else of the container."""
    entry = source.entry
    if source.times is not None:
        if len(source.times) != len(presented):
            inspection.error(
                f"the video decodes to {len(presented)} frames, but {entry.timestamps} holds {len(source.times)} times",
                "every frame needs its own time: write the timestamps again, or use the video that they belong to",
                camera=entry.name,
                file=entry.video,
            )
        return entry.on_the_clock(source.times)
    if None in presented:
        inspection.error(
            f"frame {presented.index(None)} carries no presentation time",
            "use a container that stores times (MP4, MKV), or add a timestamp file",
            camera=entry.name,
            file=entry.video,
        )
    times = entry.on_the_clock(np.array(presented, np.float64))
    check_times(times, entry.name, entry.video, inspection)
    return times


def _compare(
    survey: _Survey, clips: Mapping[str, _Decoded | StoredClip], config: IngestConfig, inspection: Inspection
) -> None:
    """Looks at rhythms, and at how the cameras' pictures differ."""
    for source in survey.sources:
        name, file = source.entry.name, source.entry.timestamps or source.entry.video
        if name in clips:
            check_rhythm(clips[name].times, name, file, config.gap_factor, inspection)
    compare_looks({name: clip.looks for name, clip in clips.items()}, config.exposure_ratio, inspection)


def _assemble(survey: _Survey, stored: Stored, config: IngestConfig, inspection: Inspection) -> Capture:
    _compare(survey, {clip.camera: clip for clip in stored.clips}, config, inspection)
    start_s, end_s = common_time({clip.camera: clip.times for clip in stored.clips}, inspection)
    in_memory = stored.bytes <= config.memory_budget_mib * 2**20
    clips: list[Clip] = []
    for source, clip in zip(survey.sources, stored.clips, strict=True):
        first, last = np.searchsorted(clip.times, start_s), np.searchsorted(clip.times, end_s, side="right")
        clips.append(
            Clip(
                camera=source.entry.camera,
                times=clip.times[first:last] - start_s,
                frames=stored.frames(clip, in_memory=in_memory)[first:last],
                valid=Undistorter(source.entry).valid,
            )
        )
    manifest = survey.manifest
    return Capture(
        name=manifest.name,
        clips=tuple(clips),
        duration_s=end_s - start_s,
        clock_offset_s=start_s,
        plane=manifest.plane,
        split=manifest.split,
        input_hash=survey.input_hash,
        notes=manifest.notes,
    )
