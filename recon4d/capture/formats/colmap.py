"""COLMAP's sparse models, text and binary, with or without rigs and frames (3.12 and later).

Poses are world to camera with OpenCV axes; principal points count from the first pixel's corner, as ours do; lengths
have no scale. Images are of fixed cameras: one a camera, or a folder (or, where rigs are described, a sensor) a camera
whose images share a pose. ``images`` holds the whole pose of each image also where rigs and frames are there.
"""

from __future__ import annotations

import struct
from pathlib import Path

import cv2
import numpy as np

from recon4d.capture._findings import Finding
from recon4d.capture._rig import Distortion, Rig, RigCamera
from recon4d.capture.calibrations import (
    LARGEST,
    W2C_OPENCV,
    CalibrationFormat,
    Found,
    FoundCamera,
    Seen,
    Untrusted,
    Values,
    lens,
)
from recon4d.capture.formats._colmap_files import MODELS, Lens, Model, read_model
from recon4d.capture.formats._frames import cameras_of, still_pose
from recon4d.errors import CalibrationError, CaptureError

_PLACES = ("", "sparse/0", "sparse", "0", "colmap/sparse/0", "model", "dense/sparse")
_PINHOLE = ("SIMPLE_PINHOLE", "PINHOLE")
_RADIAL = ("SIMPLE_RADIAL", "RADIAL", "OPENCV")
_FISHEYE = ("SIMPLE_FISHEYE", "FISHEYE", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "OPENCV_FISHEYE")
_KNOWN = (*_PINHOLE, *_RADIAL, *_FISHEYE, "FULL_OPENCV", "THIN_PRISM_FISHEYE")
_NUMBERS = {name: number for number, (name, _) in MODELS.items()}


def write_binary(rig: Rig, path: Path) -> None:
    """Writes cameras.bin, images.bin and an empty points3D.bin into a new folder."""
    items = [_written(camera) for camera in rig.cameras]
    path.mkdir()
    cameras, images = [struct.pack("<Q", len(items))], [struct.pack("<Q", len(items))]
    for number, (camera, (model, params, pose)) in enumerate(zip(rig.cameras, items, strict=True), 1):
        size = (camera.camera.width, camera.camera.height)
        cameras.append(struct.pack(f"<IiQQ{len(params)}d", number, _NUMBERS[model], *size, *params))
        images.append(struct.pack("<I7dI", number, *pose, number) + f"{camera.name}.png".encode() + b"\0")
        images.append(struct.pack("<Q", 0))
    (path / "cameras.bin").write_bytes(b"".join(cameras))
    (path / "images.bin").write_bytes(b"".join(images))
    (path / "points3D.bin").write_bytes(struct.pack("<Q", 0))


def write_text(rig: Rig, path: Path) -> None:
    """Writes cameras.txt, images.txt and an empty points3D.txt into a new folder."""
    items = [_written(camera) for camera in rig.cameras]
    for camera in rig.cameras:
        if camera.name.split() != [camera.name]:
            raise CalibrationError("COLMAP's text form has no names with spaces; use the binary", camera=camera.name)
    path.mkdir()
    cameras, images = (
        ["# CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]"],
        ["# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME"],
    )
    for number, (camera, (model, params, pose)) in enumerate(zip(rig.cameras, items, strict=True), 1):
        numbers = " ".join(repr(value) for value in params)
        cameras.append(f"{number} {model} {camera.camera.width} {camera.camera.height} {numbers}")
        images += [f"{number} {' '.join(repr(value) for value in pose)} {number} {camera.name}.png", ""]
    (path / "cameras.txt").write_text("\n".join(cameras) + "\n", "utf-8")
    (path / "images.txt").write_text("\n".join(images) + "\n", "utf-8")
    (path / "points3D.txt").write_text("# no points\n", "utf-8")


def _written(camera: RigCamera) -> tuple[str, list[float], list[float]]:
    """Model, parameters and pose (quaternion wxyz, translation) of a camera."""
    K, distortion = camera.camera.K, camera.distortion
    if K[0, 1] != 0:
        raise CalibrationError("COLMAP's camera models have no skew", camera=camera.name)
    pinhole = [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]
    k = [] if distortion is None else np.asarray(distortion.coefficients, np.float64).tolist()
    if distortion is None:
        model = "PINHOLE"
    elif distortion.model == "fisheye":
        model = "OPENCV_FISHEYE"
    elif len(k) == 4:
        model = "OPENCV"
    elif len(k) <= 8 or not any(k[8:]):
        model, k = "FULL_OPENCV", [*k, 0.0, 0.0, 0.0][:8]
    else:
        raise CalibrationError(
            f"its lens has {len(k)} coefficients; COLMAP's models take the first 8 of OpenCV's", camera=camera.name
        )
    T = camera.camera.T_cam_world
    return model, [float(v) for v in (*pinhole, *k)], [*_quaternion(T[:3, :3]), *T[:3, 3].tolist()]


def _quaternion(R: np.ndarray) -> list[float]:
    """wxyz of a rotation matrix, w >= 0."""
    rvec = cv2.Rodrigues(R)[0].ravel()
    angle = float(np.linalg.norm(rvec))
    axis = rvec / angle if angle > 0 else rvec
    return [float(np.cos(angle / 2)), *(float(v) for v in axis * np.sin(angle / 2))]


def _folder(source: Untrusted) -> Path | None:
    """The folder of the model: a file of it, the folder itself, or where COLMAP puts it."""
    for place in _PLACES if source.path.is_dir() else ("",):
        folder = source.folder / place
        for suffix in ("bin", "txt"):
            cameras, images = folder / f"cameras.{suffix}", folder / f"images.{suffix}"
            if cameras.is_file() and images.is_file() and (suffix == "bin" or _is_text(cameras)):
                return folder
    return None


def _is_text(path: Path) -> bool:
    """Whether a file's first line that is no comment names a camera model."""
    with path.open("rb") as file:
        words = [line.split() for line in file.read(65536).splitlines() if line.strip() and not line.startswith(b"#")]
    return not words or (len(words[0]) > 1 and words[0][1].decode("ascii", "replace") in _NUMBERS)


def _recognises(source: Untrusted) -> bool:
    if source.path.is_file() and source.path.suffix.lower() not in (".bin", ".txt"):
        return False
    return _folder(source) is not None


def _read(source: Untrusted) -> Found:
    folder = _folder(source)
    if folder is None:
        raise CaptureError("there are no cameras.bin and images.bin (or .txt) here, nor in sparse/0")
    model = read_model(folder)
    if not model.pictures:
        raise CaptureError("the model holds no registered image", file="images")
    pictures = [picture.name for picture in model.pictures]
    matrices = {index: _matrix(model, index) for index in range(len(pictures))}
    cameras, seen = [], []
    for name, indices in _grouped(model, pictures).items():
        index = still_pose(name, indices, matrices, pictures)
        picture = model.pictures[index]
        values = Values("images", name)
        if picture.camera not in model.lenses:
            values.refuse(f"its image names the camera {picture.camera}, which cameras does not hold")
        camera = _camera(name, model.lenses[picture.camera], matrices[index])
        cameras.append(camera)
        known = [k for k, point in enumerate(picture.points) if int(point) in model.points]
        if known:
            points = np.stack([model.points[int(picture.points[k])] for k in known])
            if (np.abs(points) < LARGEST).all() and (np.abs(picture.pixels[known]) < LARGEST).all():
                seen.append(Seen(camera=name, pixels=picture.pixels[known], points=points))
    return Found(
        cameras=tuple(cameras),
        documented=W2C_OPENCV,
        units="arbitrary",
        seen=tuple(seen),
        findings=_other_models(folder),
    )


def _other_models(folder: Path) -> tuple[Finding, ...]:
    """COLMAP writes several models where it could not join all images: each holds a part of the cameras."""
    if not folder.name.isdecimal():
        return ()
    others = sorted(p.name for p in folder.parent.iterdir() if p.name.isdecimal() and p != folder and p.is_dir())
    if not others:
        return ()
    return (
        Finding(
            severity="warning",
            message=f"COLMAP left several models ({folder.name}, {', '.join(others[:8])}): not all images are joined",
            advice=f"model {folder.name} is read; see that it holds every camera, or give the folder of another",
            calibration=True,
        ),
    )


def _grouped(model: Model, pictures: list[str]) -> dict[str, list[int]]:
    """By camera: its pictures. A rig of several sensors tells which; else their folders do."""
    by_path = cameras_of(pictures)
    if model.sensors < 2 or len(by_path) < len(pictures):
        return by_path
    by_sensor: dict[int, list[int]] = {}
    for index, picture in enumerate(model.pictures):
        by_sensor.setdefault(picture.camera, []).append(index)
    names = list(by_path)
    return {names[indices[0]]: indices for indices in by_sensor.values()}


def _matrix(model: Model, index: int) -> np.ndarray:
    picture = model.pictures[index]
    values = Values("images", picture.name)
    pose = np.concatenate([picture.quat, picture.translation])
    within = bool((np.abs(pose) < LARGEST).all())
    norm = float(np.linalg.norm(picture.quat)) if within else 0.0
    if not 0.5 < norm < 2:
        values.refuse(f"the pose {pose.tolist()} is no quaternion (wxyz) and translation")
    w, x, y, z = picture.quat / norm
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, 3] = picture.translation
    return matrix


def _camera(name: str, given: Lens, matrix: np.ndarray) -> FoundCamera:
    values = Values("cameras", name)
    if given.model not in _KNOWN:
        values.refuse(_no_counterpart(given.model))
    if not np.isfinite(given.params).all():
        values.refuse(f"its parameters are not finite: {given.params.tolist()}")
    single = given.model.startswith("SIMPLE_") or given.model in ("RADIAL", "RADIAL_FISHEYE")
    params = given.params.tolist()
    fx, fy, cx, cy, *rest = params if not single else [params[0], *params]
    K = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    return FoundCamera(
        name=name,
        matrix=matrix,
        K=values.intrinsics(K.tolist(), "K", shift=0.0),
        width=values.side(given.width, "width"),
        height=values.side(given.height, "height"),
        distortion=_distortion(given.model, rest, values),
    )


def _distortion(model: str, k: list[float], values: Values) -> Distortion | None:
    """The lens in OpenCV's terms; a model that has none is refused by name."""
    if model in _PINHOLE:
        return None
    if model in _RADIAL:
        return lens([*k, 0.0, 0.0, 0.0][:4])
    if model == "FULL_OPENCV":
        return lens(k if any(k[5:]) else k[:5])
    if model in _FISHEYE:
        return lens([*k, 0.0, 0.0, 0.0, 0.0][:4], fisheye=True)
    if model == "THIN_PRISM_FISHEYE" and not any((*k[2:4], *k[6:])):
        return lens([k[0], k[1], k[4], k[5]], fisheye=True)
    values.refuse(_no_counterpart(model))


def _no_counterpart(model: str) -> str:
    return (
        f"the camera model {model} has no counterpart among pinhole cameras with OpenCV's or fisheye distortion; run"
        " `colmap image_undistorter` and use its model and pictures, or reconstruct with the camera model OPENCV or"
        " OPENCV_FISHEYE"
    )


FORMAT = CalibrationFormat(
    name="colmap",
    title="COLMAP's sparse model, text or binary, with or without rigs; world to camera, OpenCV axes, no scale",
    recognises=_recognises,
    read=_read,
)
