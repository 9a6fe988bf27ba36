"""OpenCV's FileStorage in YAML, XML or JSON, and JSON or YAML by hand: names are free, so they are guessed widely.

A camera is a group of fields: its matrix (``camera_matrix``, ``K``, ``cameraMatrix``, …), distortion, picture size,
and a pose as ``rvec``/``R`` with ``tvec``/``T`` (world to camera, as OpenCV's functions give it) or as a 4x4. Groups
are told apart by

- files      a file a camera, named after it unless it says ``camera_name``;
- objects    ``{"left": {"K": …}}`` or a list of such objects with ``name``, at any depth;
- suffixes   ``K_left``, ``D_left``, ``R_left``, ``T_left``; or OpenCV's stereo ``M1``, ``D1``, ``M2``, ``D2`` with the
             one ``R`` and ``T`` from the first camera to the second.

What is said of one name in several files is put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from recon4d.capture._findings import Finding
from recon4d.capture.calibrations import (
    W2C_OPENCV,
    CalibrationFormat,
    Found,
    FoundCamera,
    Reading,
    Untrusted,
    Values,
    is_matrix,
)
from recon4d.errors import CalibrationError, CaptureError

_SPELLINGS = {
    "K": "k m mtx matrix cameramatrix cameramat intrinsicmatrix intrinsic intrinsics cameraintrinsics",
    "D": "d dist distortion distortions distortioncoefficients distcoeffs distcoefs distortioncoeffs",
    "R": "r rot rotation rvec rotationvector rotationmatrix rmat rotvec",
    "T": "t tvec translation translationvector trans",
    "pose": "extrinsic extrinsics extrinsicmatrix pose transform transformation transformmatrix tf",
    "w2c": "w2c worldtocam worldtocamera world2cam world2camera tcamworld tcw extrinsicw2c",
    "c2w": "c2w camtoworld cameratoworld cam2world camera2world tworldcam twc camerapose extrinsicc2w",
    "size": "size imagesize resolution imageresolution",
    "width": "width imagewidth w",
    "height": "height imageheight h",
    "model": "model distortionmodel cameramodel",
    "fisheye": "fisheye isfisheye",
    "name": "name cameraname serial serialnumber id cameraid",
    "fx": "fx flx", "fy": "fy fly", "cx": "cx ppx", "cy": "cy ppy",
}  # fmt: skip
_ROLES = {spelling: role for role, spellings in _SPELLINGS.items() for spelling in spellings.split()}
_SUFFIXED = re.compile(
    r"(camera_?matrix|intrinsics?|mtx|K|M|distortion(?:_coefficients)?|dist(?:_?coeffs?)?|D|rvec|Rot|R|tvec|T"
    r"|extrinsics?|pose|image_?width|width|W|image_?height|height|H)(?:[_-](\w{1,64})|(\d{1,3}))",
    re.IGNORECASE,
)
_FISHEYE = {"fisheye", "equidistant", "kannalabrandt", "opencvfisheye"}
_PERSPECTIVE = {"", "pinhole", "opencv", "plumbbob", "radtan", "rationalpolynomial", "brownconrady", "perspective"}
_DEEPEST = 16

Fields = dict[str, tuple[str, Any]]
"""By role: the key as it is written, and its value."""


def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _fields(node: dict[str, Any], *, inner: bool = False) -> Fields:
    """The roles in an object; those of objects like ``intrinsics`` and ``extrinsics`` inside it included."""
    found: Fields = {}
    for key, value in node.items():
        role = _ROLES.get(_plain(str(key)))
        if role is None:
            continue
        if isinstance(value, dict) and not is_matrix(value):
            found |= {} if inner else _fields(value, inner=True)
        else:
            found[role] = (str(key), value)
    return found


def _groups(node: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Fields]]:
    """Name and fields of every group in a document."""
    if depth > _DEEPEST:
        return
    if isinstance(node, list):
        for index, item in enumerate(node):
            if isinstance(item, dict):
                yield from _groups(item, str(index), depth + 1)
        return
    if not isinstance(node, dict):
        return
    suffixed = _suffixed(node)
    if suffixed:
        yield from suffixed.items()
        return
    fields = _fields(node)
    if fields.keys() & {"K", "fx", "R", "T", "pose", "w2c", "c2w"}:
        own = fields.get("name")
        yield (str(own[1]) if own and isinstance(own[1], str | int) else name), fields
        return
    for key, value in node.items():
        if isinstance(value, dict | list) and not is_matrix(value):
            yield from _groups(value, str(key), depth + 1)


def _suffixed(node: dict[str, Any]) -> dict[str, Fields]:
    """By suffix: the fields of names like ``K_left``; empty unless two cameras have a matrix or a pose so."""
    found: dict[str, Fields] = {}
    for key, value in node.items():
        match = _SUFFIXED.fullmatch(str(key))
        if match and (not isinstance(value, dict) or is_matrix(value)):
            found.setdefault(match[2] or match[3], {})[_ROLES[_plain(match[1])]] = (str(key), value)
    telling = {name: fields for name, fields in found.items() if fields.keys() & {"K", "R", "T", "pose"}}
    if len(telling) < 2:
        return {}
    shared = _fields(node)
    if set(telling) == {"1", "2"} and shared.keys() >= {"R", "T"}:  # Stereo: R1 and R2 only rectify.
        first, second = ({k: v for k, v in telling[name].items() if k not in ("R", "T")} for name in "12")
        identity = {"R": ("R", np.eye(3).tolist()), "T": ("T", [0.0, 0.0, 0.0])}
        telling = {"1": first | identity, "2": second | {"R": shared["R"], "T": shared["T"]}}
    common = {role: shared[role] for role in ("size", "width", "height", "model", "fisheye") if role in shared}
    return {name: common | fields for name, fields in telling.items()}


def _cameras(source: Untrusted) -> dict[str, tuple[str, Fields]]:
    """By name: file and fields, put together over all documents."""
    found: dict[str, tuple[str, Fields]] = {}
    for path, data in source.documents.items():
        for name, fields in _groups(data, path.stem):
            file, known = found.get(name, (path.name, {}))
            twice = sorted((known.keys() & fields.keys()) & {"K", "R", "T", "pose", "w2c", "c2w"})
            if twice:
                raise CalibrationError(
                    f"'{known[twice[0]][0]}' is given twice, in {file} and {path.name}", camera=name, file=path.name
                )
            found[name] = (file, known | fields)
    return found


def _has_pose(fields: Fields) -> bool:
    return bool(fields.keys() & {"pose", "w2c", "c2w"}) or {"R", "T"} <= fields.keys()


def _has_matrix(fields: Fields) -> bool:
    return "K" in fields or {"fx", "cx", "cy"} <= fields.keys()


def _recognises(source: Untrusted) -> bool:
    try:
        return any(_has_matrix(fields) and _has_pose(fields) for _, fields in _cameras(source).values())
    except CaptureError:
        return True  # Its own reader says what is wrong.


def _read(source: Untrusted) -> Found:
    groups = {name: (file, fields) for name, (file, fields) in _cameras(source).items() if _has_matrix(fields)}
    if not groups:
        raise CaptureError("no camera matrix was found; call it 'camera_matrix' or 'K'")
    posed = [name for name, (_, fields) in groups.items() if _has_pose(fields)]
    if len(posed) < len(groups):
        missing = sorted(set(groups) - set(posed))
        raise CaptureError(
            f"the cameras {missing[:8]} have a matrix but no pose (R and T, or a 4x4): without poses there is no rig;"
            " calibrate the extrinsics"
        )
    cameras, readings, turned = [], set(), False
    for name, (file, fields) in groups.items():
        values = Values(file, name)
        matrix, reading, was_turned = _pose(fields, values)
        cameras.append(_camera(name, fields, matrix, values))
        readings.add(reading)
        turned = turned or was_turned
    if len(readings) > 1:
        raise CalibrationError(f"its cameras' poses are written in {len(readings)} ways; write all in one")
    note = Finding(severity="note", message="4x4 matrices were written transposed", calibration=True)
    return Found(cameras=tuple(cameras), documented=readings.pop(), units=None, findings=(note,) if turned else ())


def _pose(fields: Fields, values: Values) -> tuple[np.ndarray, Reading | None, bool]:
    """The matrix as it is written, what its name says of it, and whether it was transposed."""
    if {"R", "T"} <= fields.keys():
        (r, rotation), (t, translation) = fields["R"], fields["T"]
        return values.pose(values.rotation(rotation, r), translation, t), W2C_OPENCV, False
    role = next(role for role in ("w2c", "c2w", "pose") if role in fields)
    key, value = fields[role]
    matrix, turned = values.pose_matrix(value, key)
    named = {"w2c": W2C_OPENCV, "c2w": Reading("c2w", "opencv"), "pose": None}
    return matrix, named[role], turned


def _camera(name: str, fields: Fields, matrix: np.ndarray, values: Values) -> FoundCamera:
    width, height = _size(fields, values)
    distortion = None
    if "D" in fields:
        key, value = fields["D"]
        distortion = values.distortion(value, key, fisheye=_is_fisheye(fields, values))
    return FoundCamera(
        name=name, matrix=matrix, K=_intrinsics(fields, values), width=width, height=height, distortion=distortion
    )


def _intrinsics(fields: Fields, values: Values) -> np.ndarray:
    if "K" in fields:
        key, value = fields["K"]
        return values.intrinsics(value, key)
    fx, cx, cy = (values.number(fields[role][1], fields[role][0]) for role in ("fx", "cx", "cy"))
    fy = values.number(fields["fy"][1], fields["fy"][0]) if "fy" in fields else fx
    return values.intrinsics([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]], "fx, fy, cx, cy")


def _size(fields: Fields, values: Values) -> tuple[int | None, int | None]:
    if "width" in fields and "height" in fields:
        (w, width), (h, height) = fields["width"], fields["height"]
        return values.side(width, w), values.side(height, h)
    if "size" in fields:
        key, value = fields["size"]
        width, height = values.matrix(value, key, (2,))
        return values.side(float(width), key), values.side(float(height), key)
    return None, None


def _is_fisheye(fields: Fields, values: Values) -> bool:
    if str(fields.get("fisheye", ("", ""))[1]).lower() in ("1", "true"):
        return True
    key, model = fields.get("model", ("model", ""))
    name = _plain(str(model))
    if name not in _FISHEYE | _PERSPECTIVE:
        values.refuse(f"'{key}' is '{str(model)[:40]}'; pinhole (plumb_bob) and fisheye (equidistant) are known")
    return name in _FISHEYE


FORMAT = CalibrationFormat(
    name="opencv",
    title="OpenCV's YAML, XML or JSON with free names; R and T are world to camera, a 4x4 is found out",
    recognises=_recognises,
    read=_read,
)
