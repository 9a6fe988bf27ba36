"""The doors for calibrations: read in any known format, settled to one rig; written in a few."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from recon4d.capture._findings import Finding
from recon4d.capture._rig import Rig, RigCamera
from recon4d.capture.calibrations._found import CalibrationFormat, Found, FoundCamera, Reading
from recon4d.capture.calibrations._placing import ReadConfig, about_up, place, scale_by_distance
from recon4d.capture.calibrations._readings import UNITS, Score, choose, rank, rotation_error
from recon4d.capture.calibrations._report import CalibrationReport
from recon4d.capture.calibrations._untrusted import Untrusted
from recon4d.capture.calibrations._values import LARGEST
from recon4d.errors import CalibrationError, CaptureError, ConfigError, OutputError
from recon4d.types import Camera

_READERS = {
    "calibration": "recon4d.capture.formats.calibration_json:FORMAT",
    "colmap": "recon4d.capture.formats.colmap:FORMAT",
    "nerfstudio": "recon4d.capture.formats.nerfstudio:FORMAT",
    "llff": "recon4d.capture.formats.llff:FORMAT",
    "easymocap": "recon4d.capture.formats.easymocap:FORMAT",
    "toml": "recon4d.capture.formats.toml_family:FORMAT",
    "pusht-embodied": "recon4d.capture.formats.pusht_embodied:FORMAT",
    "opencv": "recon4d.capture.formats.opencv:FORMAT",
}
_LAST = "opencv"
"""Names in it are free, so that others look like it: it is asked when no other recognises a source."""
_WRITERS = {
    "calibration": "recon4d.capture.formats.calibration_json:write",
    "colmap": "recon4d.capture.formats.colmap:write_binary",
    "colmap-text": "recon4d.capture.formats.colmap:write_text",
    "nerfstudio": "recon4d.capture.formats.nerfstudio:write",
}
AUTO = "auto"
_MOST_CAMERAS = 1024
_NOTABLE_ROTATION_ERROR = 1e-4


def calibration_formats() -> dict[str, str]:
    """By name of each calibration format that can be read: what it is, in a line."""
    return {name: _format(name).title for name in _READERS}


def is_calibration(format: str) -> bool:
    """Whether a name is a calibration format's, or asks to find one out."""
    return format == AUTO or format in _READERS


def calibration_writers() -> tuple[str, ...]:
    """Names of the formats that ``write_calibration`` writes."""
    return tuple(_WRITERS)


def read_calibration(
    path: Path | str, config: ReadConfig | None = None, *, format: str | None = None
) -> tuple[Rig, CalibrationReport]:
    """Reads a calibration of any known format; ``print(report)`` tells how.

    Args:
        path: The file, or the folder that holds it.
        config: What the file leaves open, or says wrongly.
        format: A name of ``calibration_formats()``; None finds out by content.

    Returns:
        The rig (metres, +Z up, as far as file and config tell) and the report.

    Raises:
        CaptureError: nothing known is there, or it cannot be read.
        CalibrationError: numbers make no rig, or more than one reading is as likely as another.
        ConfigError: there is no such format.
    """
    source = Untrusted(Path(path))
    name, found = find_calibration(source, format)
    return settle(found, config or ReadConfig(), format=name, file=source.path.name)


def write_calibration(rig: Rig, path: Path | str, format: str = "calibration") -> Path:
    """Writes a rig; what was written can be read back to the same cameras.

    Args:
        rig: The cameras.
        path: The file (calibration, nerfstudio) or the folder (colmap, colmap-text) to write; must not exist yet.
        format: A name of ``calibration_writers()``. COLMAP and nerfstudio do not keep the bench plane.

    Returns:
        The path.

    Raises:
        ConfigError: there is no such format.
        CalibrationError: a camera cannot be expressed in it.
        OutputError: the path exists, or cannot be written.
    """
    path = Path(path)
    if format not in _WRITERS:
        raise ConfigError(f"there is no writer of '{format}'; there are {', '.join(_WRITERS)}")
    if path.exists():
        raise OutputError(f"'{path}' exists already; remove it, or choose another")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _load(_WRITERS[format])(rig, path)
    except OSError as error:
        raise OutputError(f"'{path}' cannot be written: {error.strerror or error}") from error
    return path


def find_calibration(source: Untrusted, format: str | None = None) -> tuple[str, Found]:
    """The format's name and what the source says; the format is found by content unless it is given.

    Raises:
        CaptureError: see ``read_calibration``.
        ConfigError: there is no such format.
    """
    with _naming(source.path.name):
        name = _recognised(source) if format is None or format == AUTO else format
        found = _format(name).read(source)
        _check(found)
    return name, found


def settle(
    found: Found,
    config: ReadConfig,
    *,
    format: str,
    file: str,
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[Rig, CalibrationReport]:
    """Decides how a calibration is meant, and brings it to metres and a z-up world.

    Args:
        found: What the file says.
        config: What it leaves open.
        format: Its format's name, for the report.
        file: Its own, for the report.
        sizes: By camera, width and height in pixels where the file gives none.

    Raises:
        CalibrationError: see ``read_calibration``.
    """
    with _naming(file):
        found = replace(found, cameras=tuple(_sized(camera, config, sizes or {}) for camera in found.cameras))
        if config.reading is not None:
            found = replace(found, documented=Reading.parse(config.reading))
        score, metres, scores, warning = _decide(found, config)
    poses = [_nearest(score.reading.T_cam_world(camera.matrix)) for camera in found.cameras]
    placed, plane = place(poses, metres, config, found.plane)
    findings = list(found.findings)
    if warning:
        findings.append(Finding(severity="warning", message=warning, advice=_OTHERWISE, calibration=True))
    if score.units == "arbitrary":
        findings.append(_UNSCALED)
    error = max(rotation_error(camera.matrix) for camera in found.cameras)
    if error > _NOTABLE_ROTATION_ERROR:
        message = f"rotations are off by up to {error:.1e}; the nearest rotations are taken"
        findings.append(Finding(severity="note", message=message, calibration=True))
    turned = about_up(placed, found, config)
    rig = Rig(
        cameras=tuple(map(_rig_camera, found.cameras, placed)),
        plane=plane,
        notes=found.notes,
    )
    report = CalibrationReport(
        format=format,
        file=file,
        reading=score.reading,
        units=score.units,
        metres_per_unit=metres,
        scores=scores,
        findings=(*findings, *([turned] if turned else [])),
    )
    return rig, report


_OTHERWISE = "look at `recon4d check`'s pictures, or say how it is meant with --reading and --units"
_UNSCALED = Finding(
    severity="warning",
    message="the calibration's scale is arbitrary; 1 unit is taken as 1 m",
    advice="give --scale (metres per unit), or --distance CAMERA:CAMERA:METRES; --units m if it is metric",
    calibration=True,
)


def _decide(found: Found, config: ReadConfig) -> tuple[Score, float, tuple[Score, ...], str]:
    """The score taken, metres per unit, all scores, and what is to be warned of."""
    reading = None if config.reading is None else Reading.parse(config.reading)
    if config.distance is not None:
        # A distance holds whatever the reading: the reading is found first, as if there were no scale.
        scores = rank(replace(found, units="arbitrary"), reading=reading)
        score, warning = choose(replace(found, units="arbitrary"), scores)
        poses = [score.reading.T_cam_world(camera.matrix) for camera in found.cameras]
        metres = scale_by_distance(found, poses, config.distance)
        return replace(score, units="given"), metres, scores, warning
    scores = rank(found, reading=reading, units=config.units, scale=config.scale)
    score, warning = choose(found, scores)
    metres = config.scale if config.scale is not None else UNITS.get(score.units, 1.0)
    return score, metres, scores, warning


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Errors name the file, also those of the system and of content that is nested beyond all reason."""
    try:
        yield
    except CaptureError as error:
        if error.file is not None:
            raise
        raise type(error)(error.reason, camera=error.camera, file=file) from error
    except RecursionError:
        raise CaptureError("is nested too deeply to be a calibration", file=file) from None
    except OSError as error:
        raise CaptureError(f"cannot be read: {error.strerror or error}", file=file) from error


def _recognised(source: Untrusted) -> str:
    names = [name for name in _READERS if name != _LAST and _format(name).recognises(source)]
    if not names and _format(_LAST).recognises(source):
        names = [_LAST]
    if len(names) == 1:
        return names[0]
    if names:
        raise CaptureError(
            f"holds calibrations of several formats: {', '.join(names)}; give the file, or name the format",
            file=str(source.path),
        )
    complaints = "".join(f"; {name} {reason}" for name, reason in list(source.complaints.items())[:4])
    raise CaptureError(
        f"holds no calibration of a known format ({', '.join(_READERS)}){complaints}", file=str(source.path)
    )


def _check(found: Found) -> None:
    """What every reader's result must hold, whatever the file said."""
    if len(found.cameras) < 2:
        raise CaptureError(
            f"the calibration names {len(found.cameras)} cameras; at least 2 are needed to place anything in space"
        )
    if len(found.cameras) > _MOST_CAMERAS:
        raise CaptureError(
            f"the calibration names {len(found.cameras)} cameras; a rig of at most {_MOST_CAMERAS} fixed ones is meant"
        )
    names = [camera.name for camera in found.cameras]
    for camera in found.cameras:
        if not camera.name.strip() or camera.name in (".", "..") or any(c in "/\\" or ord(c) < 32 for c in camera.name):
            raise CalibrationError(f"a camera's name must be non-empty and without slashes; it is {camera.name!r}")
        if names.count(camera.name) > 1:
            raise CalibrationError(f"{names.count(camera.name)} cameras have this name", camera=camera.name)
        numbers = {"pose": camera.matrix, "camera matrix": camera.K}
        numbers["distortion"] = None if camera.distortion is None else camera.distortion.coefficients
        for what, array in numbers.items():
            if array is not None and not (np.abs(array) < LARGEST).all():
                raise CalibrationError(
                    f"the {what} {array.tolist()} holds numbers beyond all reason", camera=camera.name
                )
    if found.plane is not None and not (np.abs(found.plane) < LARGEST).all():
        raise CalibrationError(f"the plane {found.plane.tolist()} holds numbers beyond all reason")


def _sized(camera: FoundCamera, config: ReadConfig, sizes: Mapping[str, tuple[int, int]]) -> FoundCamera:
    """The camera with size and K; what the file gives comes before what was asked for."""
    if camera.width is None or camera.height is None:
        size = sizes.get(camera.name) or config.size
        if size is None:
            raise CalibrationError(
                "the calibration does not say how large the pictures are; give --size WIDTHxHEIGHT, or the videos",
                camera=camera.name,
            )
        camera = camera.sized(*size)
    if camera.K is None:
        width, height = camera.width or 1, camera.height or 1
        f = 0.5 * width / np.tan(0.5 * (camera.view_x_rad or 1.0))
        camera = replace(camera, K=np.array([[f, 0.0, width / 2], [0.0, f, height / 2], [0.0, 0.0, 1.0]]))
    return camera


def _nearest(pose: np.ndarray) -> np.ndarray:
    """The pose with its 3x3 part replaced by the nearest rotation (polar decomposition); a rotation stays itself."""
    if rotation_error(pose) < 1e-9:
        return pose
    U, _, Vt = np.linalg.svd(pose[:3, :3])
    nearest = pose.copy()
    nearest[:3, :3] = U @ Vt
    # The centre is what stays where it is.
    nearest[:3, 3] = nearest[:3, :3] @ np.linalg.solve(pose[:3, :3], pose[:3, 3])
    return nearest


def _rig_camera(camera: FoundCamera, pose: np.ndarray) -> RigCamera:
    assert camera.K is not None
    assert camera.width is not None
    assert camera.height is not None
    pinhole = Camera(name=camera.name, width=camera.width, height=camera.height, K=camera.K, T_cam_world=pose)
    return RigCamera(camera=pinhole, distortion=camera.distortion)


def _format(name: str) -> CalibrationFormat:
    if name not in _READERS:
        raise ConfigError(f"there is no calibration format '{name}'; there are {', '.join(_READERS)}")
    return _load(_READERS[name])


def _load(entry: str) -> Any:
    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)
