"""The layout of the Push-T captures of embodied_gaussians (Boston Dynamics AI Institute).

``cameras.json`` maps a camera's serial to ``X_WC`` (camera to world, OpenGL axes, metres, robot base), the path of its
video and that of a JSON file with ``K`` (OpenCV pixel centres, no distortion), ``resolution`` and ``timestamps``.
``ground_plane.json``, where present, holds the bench as ``plane`` [a, b, c, d].
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recon4d.capture.formats import Foreign
from recon4d.errors import CaptureError


def read(source: Path) -> Foreign:
    """Reads the layout's JSON files; the numbers are checked when the capture is ingested."""
    rig = _load(source, "cameras.json")
    cameras, videos, timestamps = [], {}, {}
    for serial, item in rig.items():
        file = _member(item, "metadata_path", "cameras.json", serial)
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
                    "matrix": _member(item, "X_WC", "cameras.json", serial),
                },
                "pixel_center": "integer",
            }
        )
        videos[serial] = source / _member(item, "video_path", "cameras.json", serial)
        timestamps[serial] = _member(metadata, "timestamps", file, serial)
    manifest: dict[str, Any] = {"version": 1, "name": source.resolve().name, "cameras": cameras}
    if (source / "ground_plane.json").exists():
        plane = _load(source, "ground_plane.json")
        manifest["bench_plane"] = _member(plane, "plane", "ground_plane.json", None)
    return Foreign(manifest=manifest, videos=videos, timestamps=timestamps)


def _load(source: Path, file: str) -> dict[str, Any]:
    try:
        data = json.loads((source / file).read_text("utf-8-sig"))
    except FileNotFoundError as error:
        raise CaptureError(f"'{source}' has no such file; is it a pusht-embodied folder?", file=file) from error
    except (OSError, ValueError) as error:
        raise CaptureError(f"cannot be read as JSON: {error}", file=file) from error
    if not isinstance(data, dict):
        raise CaptureError(f"must hold a JSON object; it holds a {type(data).__name__}", file=file)
    return data


def _member(data: Any, key: str, file: str, camera: str | None) -> Any:
    if not isinstance(data, dict) or key not in data:
        raise CaptureError(f"the field '{key}' is missing", camera=camera, file=file)
    return data[key]
