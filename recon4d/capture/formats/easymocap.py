"""EasyMocap's pair ``intri.yml`` and ``extri.yml``, in OpenCV's FileStorage.

``names`` lists the cameras; for each, ``K_NAME``, ``dist_NAME`` (or ``D_NAME``) and, newer, ``H_NAME`` and ``W_NAME``
stand in the one file, the rotation vector ``R_NAME``, the matrix ``Rot_NAME`` and ``T_NAME`` in the other. World to
camera, OpenCV axes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from recon4d.capture.calibrations import W2C_OPENCV, CalibrationFormat, Found, FoundCamera, Untrusted, Values, parse
from recon4d.errors import CaptureError

_SAME_ROTATION = 1e-3


def _pair(source: Untrusted) -> tuple[tuple[Path, dict[str, Any]], tuple[Path, dict[str, Any]]] | None:
    """The files of intrinsics and of extrinsics with their content; they may be one file."""
    documents = {path: data for path, data in source.documents.items() if isinstance(data, dict)}
    if source.path.is_file():  # The other of the pair lies beside it.
        for path in sorted(source.folder.glob("*.y*ml")):
            if path.stem.lower() in ("intri", "extri") and path not in documents:
                data = parse(path)
                documents |= {path: data} if isinstance(data, dict) else {}
    inner = [(path, data) for path, data in documents.items() if _has(data, "K_")]
    outer = [(path, data) for path, data in documents.items() if _has(data, "T_") and (_has(data, "R_", "Rot_"))]
    return (inner[0], outer[0]) if len(inner) == 1 and len(outer) == 1 else None


def _has(data: dict[str, Any], *prefixes: str) -> bool:
    names = data.get("names")
    return isinstance(names, list) and any(f"{prefix}{name}" in data for prefix in prefixes for name in names)


def _recognises(source: Untrusted) -> bool:
    try:
        return _pair(source) is not None
    except CaptureError:
        return False


def _read(source: Untrusted) -> Found:
    pair = _pair(source)
    if pair is None:
        raise CaptureError("a file with 'names' and K_NAME and one with R_NAME or Rot_NAME and T_NAME are needed")
    (inner, intrinsics), (outer, extrinsics) = pair
    names = [str(name) for name in intrinsics["names"]]
    others = [str(name) for name in extrinsics["names"]]
    if sorted(names) != sorted(others):
        only = sorted(set(names) ^ set(others))
        raise CaptureError(f"cameras {only[:8]} stand in only one of {inner.name} and {outer.name}", file=outer.name)
    cameras = []
    for name in names:
        values, poses = Values(inner.name, name), Values(outer.name, name)
        if f"K_{name}" not in intrinsics:
            values.refuse(f"the field 'K_{name}' is missing")
        width, height = (intrinsics.get(f"{side}_{name}") for side in ("W", "H"))
        lens = next((key for key in (f"dist_{name}", f"D_{name}") if key in intrinsics), None)
        cameras.append(
            FoundCamera(
                name=name,
                matrix=_pose(extrinsics, name, poses),
                K=values.intrinsics(intrinsics[f"K_{name}"], f"K_{name}"),
                width=None if width is None else values.side(width, f"W_{name}"),
                height=None if height is None else values.side(height, f"H_{name}"),
                distortion=None if lens is None else values.distortion(intrinsics[lens], lens),
            )
        )
    return Found(cameras=tuple(cameras), documented=W2C_OPENCV, units="m", z_up=True)


def _pose(data: dict[str, Any], name: str, values: Values) -> np.ndarray:
    """The pose from the matrix, else from the vector; where both are there, they must agree."""
    if f"T_{name}" not in data:
        values.refuse(f"the field 'T_{name}' is missing")
    found: dict[str, np.ndarray] = {}
    for prefix in ("Rot_", "R_"):
        key = f"{prefix}{name}"
        if key in data:
            found[key] = values.rotation(data[key], key)
    if not found:
        values.refuse(f"neither 'Rot_{name}' nor 'R_{name}' is there")
    first = next(iter(found.values()))
    for key, rotation in found.items():
        if np.abs(rotation - first).max() > _SAME_ROTATION:
            angle = np.degrees(np.linalg.norm(cv2.Rodrigues(rotation.T @ first)[0]))
            values.refuse(f"'{next(iter(found))}' and '{key}' are {angle:.3g} degrees apart; remove the wrong one")
    return values.pose(first, data[f"T_{name}"], f"T_{name}")


FORMAT = CalibrationFormat(
    name="easymocap",
    title="intri.yml and extri.yml of EasyMocap; world to camera, OpenCV axes, metres",
    recognises=_recognises,
    read=_read,
)
