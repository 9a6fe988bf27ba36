"""The layout of the Push-T captures of embodied_gaussians (Boston Dynamics AI Institute).

``cameras.json`` maps a camera's serial to ``X_WC`` (camera to world, OpenGL axes, metres, robot base), the path of its
video and that of a JSON file with ``K`` (OpenCV pixel centres, no distortion), ``resolution`` and ``timestamps``.
``ground_plane.json``, where present, holds the bench as ``plane`` [a, b, c, d].
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from recon4d.capture.calibrations import CalibrationFormat, Found, Untrusted, parse
from recon4d.capture.formats import Foreign
from recon4d.capture.formats.calibration_json import found_in
from recon4d.errors import CaptureError

_RIG, _PLANE = "cameras.json", "ground_plane.json"


def read(source: Path) -> Foreign:
    """Reads the layout's JSON files; the numbers are checked when the capture is ingested."""
    rig = _load(source, _RIG)
    cameras, videos, timestamps = [], {}, {}
    for serial, item in rig.items():
        file = _path(item, "metadata_path", serial)
        metadata = _load(source, file)
        resolution = _member(metadata, "resolution", file, serial)
        if not isinstance(resolution, list) or len(resolution) != 2:
            raise CaptureError(f"'resolution' must be [width, height]; it is {resolution}", camera=serial, file=file)
        cameras.append(
            {
                "name": serial,
                "width": resolution[0],
                "height": resolution[1],
                "K": _member(metadata, "K", file, serial),
                "pose": {
                    "convention": "T_world_cam",
                    "axes": "opengl",
                    "matrix": _member(item, "X_WC", _RIG, serial),
                },
                "pixel_center": "integer",
            }
        )
        videos[serial] = source / _path(item, "video_path", serial)
        timestamps[serial] = _member(metadata, "timestamps", file, serial)
    manifest: dict[str, Any] = {"version": 1, "name": source.resolve().name, "cameras": cameras}
    if (source / _PLANE).exists():
        plane = _load(source, _PLANE)
        manifest["bench_plane"] = _member(plane, "plane", _PLANE, None)
    return Foreign(manifest=manifest, videos=videos, timestamps=timestamps)


def _load(source: Path, file: str) -> dict[str, Any]:
    if not (source / file).is_file():
        raise CaptureError(f"'{source}' has no such file; is it a pusht-embodied folder?", file=file)
    data = parse(source / file)
    if not isinstance(data, dict):
        raise CaptureError(f"must hold a JSON object; it holds a {type(data).__name__}", file=file)
    return data


def _member(data: Any, key: str, file: str, camera: str | None) -> Any:
    if not isinstance(data, dict) or key not in data:
        raise CaptureError(f"the field '{key}' is missing", camera=camera, file=file)
    return data[key]


def _path(item: Any, key: str, camera: str) -> str:
    """A path inside the folder: the file may come from a stranger."""
    value = _member(item, key, _RIG, camera)
    if (
        not isinstance(value, str)
        or not value
        or "\0" in value
        or Path(value).is_absolute()
        or ".." in Path(value).parts
    ):
        raise CaptureError(
            f"'{key}' must be the path of a file inside the folder; it is {str(value)[:80]!r}", camera=camera, file=_RIG
        )
    return value


def _recognises(source: Untrusted) -> bool:
    return any(
        isinstance(data, dict)
        and any(isinstance(item, dict) and "X_WC" in item and "metadata_path" in item for item in data.values())
        for data in source.documents.values()
    )


def _read(source: Untrusted) -> Found:
    foreign = read(source.folder)
    found = found_in(foreign.manifest, source.folder, _RIG)
    cameras = (
        replace(camera, video=foreign.videos[camera.name], timestamps=foreign.timestamps[camera.name])
        for camera in found.cameras
    )
    return replace(found, cameras=tuple(cameras))


FORMAT = CalibrationFormat(
    name="pusht-embodied",
    title="cameras.json of embodied_gaussians; X_WC is camera to world, OpenGL axes, metres",
    recognises=_recognises,
    read=_read,
)
