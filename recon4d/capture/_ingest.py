"""The door that reads a capture folder whole; what ``examine`` lists, it refuses."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np

from recon4d.capture._check_rig import Undistorter
from recon4d.capture._clock import common_time
from recon4d.capture._config import IngestConfig
from recon4d.capture._decode import compare_cameras, decode_one
from recon4d.capture._findings import Finding, Inspection
from recon4d.capture._store import Spool, Stored, StoredClip, open_stored
from recon4d.capture._survey import Survey, survey_folder
from recon4d.capture._ticker import Ticker
from recon4d.capture.poses import Shrinker, View, check_poses, moments
from recon4d.events import Finished, OnEvent, ShouldStop, Started, Warned, ignore, never
from recon4d.types import Capture, Clip

_STAGE = "ingest"


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
    survey = survey_folder(Path(folder), inspection)
    on_event(Started(stage=_STAGE, total=survey.frames or None, detail=f"{len(survey.sources)} cameras"))
    stored = None if workdir is None else open_stored(workdir, survey.input_hash)
    reused = stored is not None
    if stored is None:
        stored = _decode_all(survey, workdir, inspection, Ticker(_STAGE, survey.frames, on_event, should_stop))
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


def _decode_all(survey: Survey, workdir: Path | None, inspection: Inspection, ticker: Ticker) -> Stored:
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
            clip = decode_one(source, Inspection(remember), store)
            ticker.tick(last=True)
            shape = (len(clip.times), camera.height, camera.width, 3)
            clips.append(StoredClip(camera=camera.name, file=file, shape=shape, times=clip.times, looks=clip.looks))
        return spool.finish(survey.input_hash, clips, findings)


def _assemble(survey: Survey, stored: Stored, config: IngestConfig, inspection: Inspection) -> Capture:
    compare_cameras(survey, {clip.camera: clip for clip in stored.clips}, config, inspection)
    start_s, end_s = common_time({clip.camera: clip.times for clip in stored.clips}, inspection)
    check_poses(_views(survey, stored), survey.manifest.plane, inspection)
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


def _views(survey: Survey, stored: Stored) -> list[View]:
    """A few pictures of each camera out of the decoded frames."""
    chosen = moments({clip.camera: clip.times for clip in stored.clips})
    views: list[View] = []
    for source, clip in zip(survey.sources, stored.clips, strict=True):
        shrink = Shrinker(source.entry.camera, Undistorter(source.entry).valid)
        frames, indices = stored.frames(clip, in_memory=False), chosen[clip.camera]
        views.append(
            View(
                camera=shrink.camera,
                pictures=tuple(shrink(frames[index]) for index in indices),
                times_s=tuple(clip.times[list(indices)].tolist()),
                valid=shrink.valid,
            )
        )
    return views
