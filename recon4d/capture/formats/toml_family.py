"""The TOML that anipose, aniposelib, freemocap, caliscope and Pose2Sim write.

A section a camera with ``matrix``, ``distortions``, ``rotation`` (a vector, or in caliscope's ``camera_array.toml``
also a matrix), ``translation`` and ``size``; caliscope's sections are ``cameras.N``. World to camera, OpenCV axes,
lengths in the board's unit: metres or millimetres. Sections come sorted as text; here they are in the order of their
numbers. caliscope's ``rotation_count`` turns pictures on the screen alone and means nothing here.
"""

from __future__ import annotations

import re
from typing import Any

from recon4d.capture._findings import Finding
from recon4d.capture.calibrations import W2C_OPENCV, CalibrationFormat, Found, FoundCamera, Untrusted, Values
from recon4d.errors import CaptureError

_TOLD_BY = {"matrix", "translation", "rotation"}


def _sections(data: Any) -> dict[str, dict[str, Any]] | None:
    """By section: the cameras of one file; None when it holds none."""
    if not isinstance(data, dict):
        return None
    nested = data.get("cameras")
    held = nested if isinstance(nested, dict) else data
    cameras = {
        str(key): value
        for key, value in held.items()
        if isinstance(value, dict) and "matrix" in value and key != "metadata"
    }
    complete = any(cameras[key].keys() >= _TOLD_BY for key in cameras)
    return dict(sorted(cameras.items(), key=lambda item: natural(item[0]))) if complete else None


def natural(text: str) -> list[tuple[int, int, str]]:
    """A key that sorts by numbers as numbers: cam_2 before cam_10."""
    parts = re.findall(r"\d{1,15}|\D+|\d+", text)
    return [(0, int(part), "") if part.isdecimal() and len(part) < 16 else (1, 0, part) for part in parts]


def _recognises(source: Untrusted) -> bool:
    return any(_sections(data) is not None for data in source.documents.values())


def _read(source: Untrusted) -> Found:
    found = {path: sections for path, data in source.documents.items() if (sections := _sections(data)) is not None}
    if len(found) != 1:
        raise CaptureError(
            f"{len(found) or 'no'} files have sections with matrix, rotation and translation"
            + (f": {', '.join(path.name for path in found)}; give one of them" if found else "")
        )
    ((path, sections),) = found.items()
    left_out = [key for key, section in sections.items() if section.get("ignore") is True]
    document = source.documents[path]
    nested = isinstance(document, dict) and isinstance(document.get("cameras"), dict)
    cameras = tuple(
        _camera(key, section, path.name, nested) for key, section in sections.items() if key not in left_out
    )
    note = Finding(
        severity="note", message=f"the cameras {left_out} are marked to be ignored", file=path.name, calibration=True
    )
    return Found(cameras=cameras, documented=W2C_OPENCV, units=None, findings=(note,) if left_out else ())


def _camera(key: str, section: dict[str, Any], file: str, nested: bool) -> FoundCamera:
    name = section.get("name")
    if not isinstance(name, str):
        # caliscope calls the video of camera N "cam_N".
        name = f"cam_{key}" if nested and key.isdecimal() else key
    values = Values(file, name)
    for field in ("rotation", "translation"):
        if section.get(field) is None:
            values.refuse(
                f"the field '{field}' is missing: the camera has no pose; calibrate it, or remove the section"
            )
    width, height = None, None
    if section.get("size") is not None:
        size = values.matrix(section["size"], "size", (2,))
        width, height = values.side(size[0].item(), "size[0]"), values.side(size[1].item(), "size[1]")
    fisheye = section.get("fisheye") is True
    distortions = section.get("distortions")
    return FoundCamera(
        name=name,
        matrix=values.pose(values.rotation(section["rotation"], "rotation"), section["translation"], "translation"),
        K=values.intrinsics(section["matrix"], "matrix"),
        width=width,
        height=height,
        distortion=None
        if distortions is None and not fisheye
        else values.distortion(distortions, "distortions", fisheye=fisheye),
    )


FORMAT = CalibrationFormat(
    name="toml",
    title="TOML of anipose, freemocap, caliscope and Pose2Sim; world to camera, OpenCV axes, metres or millimetres",
    recognises=_recognises,
    read=_read,
)
