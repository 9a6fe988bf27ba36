"""nerfstudio's and instant-ngp's ``transforms.json``, and D-NeRF's with ``camera_angle_x``.

Each frame's ``transform_matrix`` is camera to world with OpenGL axes, after ``applied_transform`` (and
``applied_scale``), which are undone here. Intrinsics stand at the top or in a frame; principal points count from the
first pixel's corner. Lengths have no scale, as they usually come from COLMAP.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from recon4d.capture._findings import Finding
from recon4d.capture._rig import Distortion, Rig, RigCamera
from recon4d.capture.calibrations import (
    C2W_OPENGL,
    CalibrationFormat,
    Found,
    FoundCamera,
    Untrusted,
    Values,
    lens,
    show,
)
from recon4d.capture.formats._frames import cameras_of, still_pose
from recon4d.errors import CalibrationError, CaptureError

_PERSPECTIVE = ("PERSPECTIVE", "PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV")
_FISHEYE = ("OPENCV_FISHEYE", "FISHEYE")
_MOST_FRAMES = 100_000


def write(rig: Rig, path: Path) -> None:
    """Writes the rig as one file: intrinsics in each frame, pictures called ``images/NAME.png``.

    Raises:
        CalibrationError: a lens has more coefficients than the format, or pinhole and fisheye cameras are mixed.
    """
    fisheye = {_is_fisheye(camera.distortion) for camera in rig.cameras}
    if len(fisheye) > 1:
        raise CalibrationError(
            "nerfstudio reads one camera model a file, and the rig mixes fisheye with other lenses; use calibration"
            " or colmap"
        )
    frames = [_frame(camera) for camera in rig.cameras]
    data = {"camera_model": "OPENCV_FISHEYE" if True in fisheye else "OPENCV", "frames": frames}
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _is_fisheye(distortion: Distortion | None) -> bool:
    return distortion is not None and distortion.model == "fisheye"


def _frame(camera: RigCamera) -> dict[str, Any]:
    pinhole, distortion = camera.camera, camera.distortion
    if pinhole.K[0, 1] != 0:
        raise CalibrationError("nerfstudio's form has no skew", camera=camera.name)
    k = np.zeros(5) if distortion is None else np.asarray(distortion.coefficients, np.float64)
    names = ("k1", "k2", "k3", "k4") if _is_fisheye(distortion) else ("k1", "k2", "p1", "p2", "k3")
    if k[len(names) :].any():
        raise CalibrationError(
            f"its lens has {len(k)} coefficients; nerfstudio's form takes k1, k2, p1, p2 and k3", camera=camera.name
        )
    return {
        "file_path": f"images/{camera.name}.png",
        "w": pinhole.width,
        "h": pinhole.height,
        "fl_x": pinhole.K[0, 0],
        "fl_y": pinhole.K[1, 1],
        "cx": pinhole.K[0, 2],
        "cy": pinhole.K[1, 2],
        **dict(zip(names, k.tolist(), strict=False)),
        "transform_matrix": C2W_OPENGL.matrix(pinhole.T_cam_world).tolist(),
    }


def _is_ours(data: Any) -> bool:
    frames = data.get("frames") if isinstance(data, dict) else None
    return isinstance(frames, list) and any(isinstance(f, dict) and "transform_matrix" in f for f in frames)


def _recognises(source: Untrusted) -> bool:
    return any(_is_ours(data) for data in source.documents.values())


def _read(source: Untrusted) -> Found:
    path, data = source.only(_is_ours, "'frames' with a 'transform_matrix'")
    frames = _frames(data, path.name)
    pictures = [frame["file_path"] for frame in frames]
    findings: list[Finding] = []
    undo = _undo(data, path.name, findings)
    turned = False
    matrices: dict[int, np.ndarray] = {}
    for index, frame in enumerate(frames):
        values = Values(path.name, pictures[index])
        if "transform_matrix" not in frame:
            values.refuse("the field 'transform_matrix' is missing")
        matrix, was_turned = values.pose_matrix(frame["transform_matrix"], "transform_matrix")
        matrices[index], turned = undo(matrix), turned or was_turned
    if turned:
        findings.append(_TURNED)
    cameras = []
    for name, indices in _cameras(frames, pictures, matrices).items():
        index = still_pose(name, indices, matrices, pictures)
        cameras.append(_camera(name, {**data, **frames[index]}, matrices[index], Values(path.name, name)))
    return Found(cameras=tuple(cameras), documented=C2W_OPENGL, units="arbitrary", findings=tuple(findings))


_TURNED = Finding(
    severity="note",
    message="4x4 matrices hold their translation in the last row; they are transposed",
    calibration=True,
)


def _frames(data: dict[str, Any], file: str) -> list[dict[str, Any]]:
    frames = data["frames"]
    if len(frames) > _MOST_FRAMES:
        raise CaptureError(f"holds {len(frames)} frames; at most {_MOST_FRAMES} are read", file=file)
    for index, frame in enumerate(frames):
        if not isinstance(frame, dict) or not isinstance(frame.get("file_path"), str) or not frame["file_path"]:
            raise CaptureError(f"frames[{index}] needs a 'file_path'; it is {show(frame)}", file=file)
    return frames


def _cameras(
    frames: list[dict[str, Any]], pictures: list[str], matrices: dict[int, np.ndarray]
) -> dict[str, list[int]]:
    """By camera: its frames. Where frames have a time, those with one pose are of one camera."""
    if len({str(frame.get("time")) for frame in frames}) < 2:
        return cameras_of(pictures)
    groups: dict[bytes, list[int]] = {}
    for index in range(len(frames)):
        groups.setdefault(matrices[index].round(6).tobytes(), []).append(index)
    if len(groups) == len(frames):
        raise CaptureError(
            f"its {len(frames)} frames are of different times and different poses: one camera that moves, not a rig of"
            " fixed ones"
        )
    firsts = [indices[0] for indices in groups.values()]
    return dict(zip(cameras_of([pictures[k] for k in firsts]), groups.values(), strict=False))


def _undo(data: dict[str, Any], file: str, findings: list[Finding]) -> Any:
    """What takes a frame's matrix back to the world before nerfstudio moved it."""
    values = Values(file)
    scale = values.number(data.get("applied_scale", 1.0), "applied_scale")
    applied = np.eye(4)
    if data.get("applied_transform") is not None:
        applied, _ = values.pose_matrix(data["applied_transform"], "applied_transform")
    if scale <= 0 or abs(np.linalg.det(applied[:3, :3])) < 1e-9:
        values.refuse("'applied_transform' or 'applied_scale' cannot be undone: it flattens the world")
    if scale == 1.0 and np.array_equal(applied, np.eye(4)):
        return lambda matrix: matrix
    findings.append(
        Finding(
            severity="note", message="applied_transform is undone: poses are those before nerfstudio", calibration=True
        )
    )
    # The transform may scale: it moves centres by all of it, and turns axes by its direction alone.
    grown = float(np.cbrt(abs(np.linalg.det(applied[:3, :3]))))
    back = np.linalg.inv(applied)

    def undo(matrix: np.ndarray) -> np.ndarray:
        before = np.eye(4)
        before[:3, :3] = back[:3, :3] @ matrix[:3, :3] * grown
        before[:3, 3] = back[:3, :3] @ (matrix[:3, 3] / scale) + back[:3, 3]
        return before

    return undo


def _camera(name: str, item: dict[str, Any], matrix: np.ndarray, values: Values) -> FoundCamera:
    """One frame with what stands at the top for all."""
    size = {side: values.side(item[side], side) if item.get(side) is not None else None for side in ("w", "h")}
    model = str(item.get("camera_model", "OPENCV")).upper()
    if model not in (*_PERSPECTIVE, *_FISHEYE):
        values.refuse(
            f"the camera model '{model[:40]}' is no pinhole or fisheye camera; there are"
            f" {', '.join((*_PERSPECTIVE, *_FISHEYE))}: undistort to one of them first"
        )
    K, view_x_rad = _intrinsics(item, size["w"], size["h"], values)
    return FoundCamera(
        name=name,
        matrix=matrix,
        K=K,
        view_x_rad=view_x_rad,
        width=size["w"],
        height=size["h"],
        distortion=_distortion(item, model in _FISHEYE or item.get("is_fisheye") is True, values),
    )


def _intrinsics(
    item: dict[str, Any], width: int | None, height: int | None, values: Values
) -> tuple[np.ndarray | None, float | None]:
    """K, or the horizontal field of view where there is nothing else."""
    if item.get("fl_x") is None:
        if item.get("camera_angle_x") is None:
            values.refuse("has neither 'fl_x' nor 'camera_angle_x': its focal length is unknown")
        view = values.number(item["camera_angle_x"], "camera_angle_x")
        if not 0.01 < view < 3.1:
            values.refuse(f"'camera_angle_x' must be radians between 0 and pi; it is {view:g}")
        return None, view
    fx = values.number(item["fl_x"], "fl_x")
    fy = values.number(item["fl_y"], "fl_y") if item.get("fl_y") is not None else fx
    if min(fx, fy) <= 0:
        values.refuse(f"focal lengths must be positive; they are {fx:g}, {fy:g}")
    centre = []
    for key, side in (("cx", width), ("cy", height)):
        if item.get(key) is None and side is None:
            values.refuse(f"has neither '{key}' nor the picture's size")
        centre.append(values.number(item[key], key) if item.get(key) is not None else (side or 0) / 2)
    return np.array([[fx, 0.0, centre[0]], [0.0, fy, centre[1]], [0.0, 0.0, 1.0]]), None


def _distortion(item: dict[str, Any], fisheye: bool, values: Values) -> Distortion | None:
    k1, k2, k3, k4, p1, p2 = (values.number(item.get(n) or 0.0, n) for n in ("k1", "k2", "k3", "k4", "p1", "p2"))
    if fisheye:
        if p1 or p2:
            values.refuse("a fisheye lens with tangential distortion (p1, p2) is not known; undistort first")
        return lens([k1, k2, k3, k4], fisheye=True)
    if k4:
        values.refuse("a fourth radial coefficient (k4) without a fisheye model is not known; undistort first")
    return lens([k1, k2, p1, p2, k3])


FORMAT = CalibrationFormat(
    name="nerfstudio",
    title="transforms.json of nerfstudio, instant-ngp and D-NeRF; camera to world, OpenGL axes, no scale",
    recognises=_recognises,
    read=_read,
)
