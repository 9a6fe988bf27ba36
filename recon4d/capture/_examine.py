"""The doors that say everything that is wrong with a capture at once, where ``ingest`` would refuse the first of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recon4d.capture._check_rig import Undistorter, check_rig
from recon4d.capture._clock import common_time
from recon4d.capture._config import IngestConfig
from recon4d.capture._decode import Decoded, compare_cameras, decode_one
from recon4d.capture._facts import CameraFacts, facts_of
from recon4d.capture._findings import SEVERITIES, Finding, Inspection
from recon4d.capture._manifest import MANIFEST, read_manifest
from recon4d.capture._survey import Filmed, Survey, survey_folder
from recon4d.capture._ticker import Ticker
from recon4d.capture.poses import GROUND, PoseFit, Shrinker, View, check_poses, fitting_reading, moments
from recon4d.events import Finished, OnEvent, ShouldStop, Started, ignore, never

_STAGE = "check"


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What was found out about a capture in one pass over its videos."""

    findings: tuple[Finding, ...]
    """As they were found; with no error among them ``ingest`` takes the capture."""
    cameras: tuple[CameraFacts, ...]
    """Of each camera whose entry in ``capture.json`` could be read."""
    common_s: tuple[float, float] | None
    """First and last instant that every camera covers, on the original clock; None when there is none."""
    clocks: str
    """What the cameras' common clock rests on, as one sentence; empty where every camera's times were given."""
    poses: str
    """How well the poses fit the pictures, as one sentence; empty when that cannot be told."""
    wrong: frozenset[str]
    """Cameras that an error names, or whose poses do not fit the pictures."""
    inexact: frozenset[str]
    """Cameras of which some poses are a little off; which, the pictures do not tell."""
    views: tuple[View, ...]
    """A few small pictures of each camera, for ``contact_sheet``."""
    plane: np.ndarray | None
    """[4] float64, the bench, where ``capture.json`` names it."""

    @property
    def usable(self) -> bool:
        """Whether nothing stands against a reconstruction."""
        return all(finding.severity != "error" for finding in self.findings)

    def by_severity(self) -> tuple[Finding, ...]:
        """The findings, errors first and notes last."""
        return tuple(sorted(self.findings, key=lambda finding: SEVERITIES.index(finding.severity)))

    def counts(self) -> dict[str, int]:
        """How many ``errors``, ``warnings`` and ``notes`` there are."""
        return {f"{kind}s": sum(finding.severity == kind for finding in self.findings) for kind in SEVERITIES}

    def to_json(self) -> dict[str, Any]:
        """Plain values, but for the pictures: findings by severity, and everything else by its name here."""
        return {
            "usable": self.usable,
            **self.counts(),
            "findings": [asdict(finding) for finding in self.by_severity()],
            "cameras": [asdict(camera) for camera in self.cameras],
            "common_s": self.common_s and list(self.common_s),
            "clocks": self.clocks,
            "poses": self.poses,
            "wrong": sorted(self.wrong),
            "inexact": sorted(self.inexact),
        }


def examine(
    folder: Path | str,
    config: IngestConfig | None = None,
    *,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> Examination:
    """Finds out everything that can be found out about a capture; every video is decoded once, to its end.

    Memory stays small and nothing is written.

    Args:
        folder: Holds ``capture.json`` and the videos; only read.
        config: How it would be read.
        on_event: Gets ``Started``, ``Progress`` (in frames) and ``Finished`` of the stage "check".
        should_stop: Asked between frames.

    Raises:
        Stopped: ``should_stop`` said so.
    """
    began = time.monotonic()
    config = config or IngestConfig()
    findings: list[Finding] = []
    inspection = Inspection(findings.append)
    survey = None
    with inspection.part():
        survey = survey_folder(Path(folder), inspection)
    sources = () if survey is None else survey.sources
    total = 0 if survey is None else survey.frames
    on_event(Started(stage=_STAGE, total=total or None, detail=f"{len(sources)} cameras"))
    clips, views = _decode_all(sources, inspection, Ticker(_STAGE, total, on_event, should_stop))
    common, fit = None, PoseFit()
    if survey is not None:
        compare_cameras(survey, clips, config, inspection)
        common, fit = _together(survey, clips, views, inspection)
    refused = {finding.camera for finding in findings if finding.severity == "error" and finding.camera}
    if any(finding.calibration and finding.camera is None for finding in findings):
        refused |= {source.entry.name for source in sources}  # It is about all of them together.
    on_event(Finished(stage=_STAGE, seconds=time.monotonic() - began, detail=f"{len(findings)} findings"))
    return Examination(
        findings=tuple(findings),
        cameras=tuple(facts_of(source, clips.get(source.entry.name)) for source in sources),
        common_s=common,
        clocks=_clocks(sources),
        poses=fit.verdict,
        wrong=fit.wrong | refused,
        inexact=fit.inexact,
        views=tuple(views),
        plane=None if survey is None else survey.manifest.plane,
    )


def check(folder: Path | str, config: IngestConfig | None = None) -> tuple[Finding, ...]:
    """The findings of ``examine`` alone: everything that ``ingest`` would refuse or warn of, and notes."""
    return examine(folder, config).findings


def check_calibration(folder: Path | str) -> tuple[Finding, ...]:
    """What ``check`` finds in ``capture.json`` alone: every camera's numbers and the rig, without any video."""
    findings: list[Finding] = []
    inspection = Inspection(findings.append)
    with inspection.part():
        check_rig(read_manifest(Path(folder), inspection), inspection)
    return tuple(findings)


def _clocks(sources: Sequence[Filmed]) -> str:
    """Says whose times nobody gave: a capture that is not synchronised looks sound otherwise."""
    untold = [f"'{source.entry.name}'" for source in sources if not source.timed]
    if not untold:
        return ""
    names = "all cameras" if len(untold) == len(sources) else ", ".join(untold)
    return (
        f"of {names} nobody gave times, an offset or a scale: their videos' own times are taken to be of one clock;"
        " `recon4d sync` finds out"
    )


def _together(
    survey: Survey, clips: Mapping[str, Decoded], views: list[View], inspection: Inspection
) -> tuple[tuple[float, float] | None, PoseFit]:
    """The time that all cameras share, and whether their poses fit what they show."""
    common, fit = None, PoseFit()
    if len(clips) == survey.manifest.declared:
        with inspection.part():
            common = common_time({name: clip.times for name, clip in clips.items()}, inspection)
    plane, shown = survey.manifest.plane, [view for view in views if view.pictures]
    if not inspection.calibration_failed:
        fit = check_poses(views, plane, inspection)
    elif reading := fitting_reading(shown, GROUND if plane is None else plane):
        inspection.note(f"the pictures do not fit the poses as they are declared; {reading}", file=MANIFEST)
    return common, fit


def _decode_all(
    sources: tuple[Filmed, ...], inspection: Inspection, ticker: Ticker
) -> tuple[dict[str, Decoded], list[View]]:
    announced = {source.entry.name: source.announced() for source in sources}
    chosen = moments({name: times for name, times in announced.items() if times is not None})
    clips: dict[str, Decoded] = {}
    views: list[View] = []
    for source in sources:
        name = source.entry.name
        keep = _Keeper(source, chosen.get(name, ()), ticker)
        with inspection.part():
            clips[name] = decode_one(source, inspection, keep)
        ticker.tick(last=True)
        times = clips[name].times if name in clips else announced[name]
        views.append(keep.view(times))
    return clips, views


class _Keeper:
    """Keeps a few of the frames that pass by, undistorted and small."""

    def __init__(self, source: Filmed, chosen: tuple[int, ...], ticker: Ticker) -> None:
        self._undistort = Undistorter(source.entry)
        self._shrink = Shrinker(source.entry.camera, self._undistort.valid)
        self._chosen = chosen
        self._ticker = ticker
        self._kept: dict[int, np.ndarray] = {}
        self._count = 0

    def __call__(self, frame: np.ndarray) -> None:
        if self._count in self._chosen:
            self._kept[self._count] = self._shrink(self._undistort(frame))
        self._count += 1
        self._ticker.tick()

    def view(self, times: np.ndarray | None) -> View:
        """What was kept, with its times."""
        kept = self._kept if times is not None else {}
        return View(
            camera=self._shrink.camera,
            pictures=tuple(kept.values()),
            times_s=tuple(float(times[index]) for index in kept) if times is not None else (),
            valid=self._shrink.valid,
        )
