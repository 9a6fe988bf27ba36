"""A calibration and a folder of videos become a capture."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from recon4d.capture._findings import Finding
from recon4d.capture._fit import FITS, Fit, fitted_to
from recon4d.capture._match import LEVELS, match_videos, videos_in
from recon4d.capture._rig import RigCamera
from recon4d.capture.calibrations import Found, ReadConfig, Untrusted, find_calibration, settle
from recon4d.capture.formats import Foreign
from recon4d.capture.video import frames
from recon4d.errors import CaptureError, ConfigError


def read_calibrated(
    format: str,
    source: Path,
    *,
    calibration: Path | None = None,
    videos: Path | None = None,
    config: ReadConfig | None = None,
    fit: Fit | None = None,
    cameras: Sequence[str] | None = None,
    need_videos: bool = False,
) -> Foreign:
    """Reads a calibration, and finds each camera's video by its name.

    Args:
        format: A name of ``calibration_formats()``, or "auto".
        source: A folder with the calibration and the videos, or with one of them.
        calibration: The calibration's file or folder, where it lies elsewhere.
        videos: The videos' folder, where it is another.
        config: What the calibration leaves open.
        fit: What was done to pictures since the calibration, where sizes differ.
        cameras: Those of the calibration to take; None takes all.
        need_videos: Whether videos are looked for, and a camera without one is an error.

    Raises:
        CaptureError: see ``read_calibration``; or cameras and videos do not match, or a video cannot be read.
        CalibrationError: see ``read_calibration``; or a calibration is for pictures of another size.
        ConfigError: there is no such format, camera or fit.
    """
    if fit is not None and fit not in FITS:
        raise ConfigError(f"fit must be one of {', '.join(FITS)}; it is '{fit}'")
    place = Untrusted(calibration or source)
    name, found = find_calibration(place, format)
    unwanted: set[str] = set()
    if cameras is not None:
        unwanted = {camera.name for camera in found.cameras} - set(cameras)
        found = _only(found, cameras)
    if need_videos:
        found, matched, said = _matched(found, videos, source, known=calibration is None, unwanted=unwanted)
        sizes = {camera: _size(video, camera) for camera, video in matched.items()}
    else:
        matched = {camera.name: camera.video for camera in found.cameras if camera.video is not None}
        sizes, said = {}, []
    rig, report = settle(found, config or ReadConfig(), format=name, file=place.path.name, sizes=sizes)
    turned = [fitted_to(camera, sizes.get(camera.name, _own(camera)), fit) for camera in rig.cameras]
    rig = replace(rig, cameras=tuple(turned))
    note = Finding(severity="note", message=report.summary, file=report.file, calibration=True)
    return Foreign(
        manifest={"name": source.resolve().name, **rig.to_manifest()},
        videos=matched,
        timestamps={camera.name: camera.timestamps for camera in found.cameras if camera.timestamps is not None},
        findings=(note, *report.findings, *said),
    )


def _own(camera: RigCamera) -> tuple[int, int]:
    return camera.camera.width, camera.camera.height


def _only(found: Found, wanted: Sequence[str]) -> Found:
    names = [camera.name for camera in found.cameras]
    for name in wanted:
        if name not in names:
            raise ConfigError(f"--cameras names the camera '{name}'; there are {names}")
    return replace(found, cameras=tuple(camera for camera in found.cameras if camera.name in wanted))


def _matched(
    found: Found, videos: Path | None, source: Path, *, known: bool, unwanted: Collection[str]
) -> tuple[Found, dict[str, Path], list[Finding]]:
    """The calibration with names that its videos have told, each camera's video, and what is to be said of it."""
    if videos is None and known and all(camera.video is not None for camera in found.cameras):
        return found, {camera.name: camera.video for camera in found.cameras if camera.video is not None}, []
    folder = videos or (source if source.is_dir() else source.parent)
    files = videos_in(folder)
    names = [camera.name for camera in found.cameras]
    matched, ignored = match_videos(names, files, ordered=found.ordered)
    said = []
    if ignored:
        pairs = ", ".join(f"{name} = {path.name}" for name, path in list(matched.items())[:16])
        said.append(Finding(severity="note", message=f"videos matched: {ignored} ({pairs})"))
    for path in files:
        if path not in matched.values() and not _is_of(path, unwanted):
            said.append(_stray(path))
    if found.ordered:  # Made-up names give way to the videos'.
        cameras = tuple(replace(camera, name=matched[camera.name].stem) for camera in found.cameras)
        return replace(found, cameras=cameras), {path.stem: path for path in matched.values()}, said
    return found, matched, said


def _is_of(video: Path, cameras: Collection[str]) -> bool:
    """Whether a video is the one of a camera, among those that were left out on request."""
    if not cameras:
        return False
    return any(key(video.stem) in {key(name) for name in cameras} for _, key in LEVELS)


def _stray(path: Path) -> Finding:
    return Finding(
        severity="warning",
        message="no camera of the calibration has this video; it is left out",
        advice="calibrate its camera too, or take the file away",
        file=path.name,
    )


def _size(video: Path, camera: str) -> tuple[int, int]:
    """Width and height of a video's pictures, upright."""
    with closing(frames(video, camera=camera)) as pictures:
        for _, picture in pictures:
            return picture.shape[1], picture.shape[0]
    raise CaptureError("holds no picture", camera=camera, file=video.name)
