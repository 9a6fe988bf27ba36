"""One rig, and writers of our own for every calibration format: what the readers are held against."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from recon4d.geometry import look_at

DIRECTIONS, AXES = ("w2c", "c2w"), ("opencv", "opengl")
READINGS = [f"{d}-{a}{t}" for d in DIRECTIONS for a in AXES for t in ("", "-transposed")]
"""All that a 3x3 part and a translation can mean."""
_CAMERA_AXES = {
    "opencv": np.eye(3),  # Right, down, forward: as rows of OpenCV's own axes.
    "opengl": np.diag([1.0, -1.0, -1.0]),
    "llff": np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1]]),
}


@dataclass(frozen=True)
class Truth:
    """A camera: OpenCV's principal point with pixel centres at integers is ``c - 0.5``."""

    name: str
    width: int
    height: int
    f: tuple[float, float]
    c: tuple[float, float]
    T_cam_world: np.ndarray
    k: tuple[float, ...] = ()
    fisheye: bool = False

    def K(self, shift: float = 0.0) -> list[list[float]]:
        return [[self.f[0], 0.0, self.c[0] + shift], [0.0, self.f[1], self.c[1] + shift], [0.0, 0.0, 1.0]]

    def written(self, reading: str, unit: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """3x3 part and translation as a file of that reading holds them; ``unit`` is metres per unit."""
        direction, axes, *transposed = reading.split("-")
        R = _CAMERA_AXES[axes] @ self.T_cam_world[:3, :3]
        t = _CAMERA_AXES[axes] @ self.T_cam_world[:3, 3] / unit
        if direction == "c2w":
            R, t = R.T, -R.T @ t
        return (R.T if transposed else R), t

    def matrix(self, reading: str, unit: float = 1.0) -> list[list[float]]:
        R, t = self.written(reading, unit)
        return [*np.column_stack([R, t]).tolist(), [0.0, 0.0, 0.0, 1.0]]


def rig(lens: str = "opencv") -> list[Truth]:
    """Six cameras around a bench: several sizes and distances, off-centre principal points.

    Args:
        lens: "none" (centred and square as well), "opencv", or "fisheye".
    """
    places = [
        (-0.2, 0.62, 1.30),
        (0.9, 0.35, 0.95),
        (2.1, 0.85, 1.55),
        (3.0, 0.5, 1.1),
        (4.1, 0.3, 1.7),
        (5.2, 0.7, 0.8),
    ]
    aims = [(0.1, 0.05, 0), (0.0, -0.1, 0.1), (-0.15, 0.1, 0), (0.2, 0, 0.05), (0.05, 0.15, 0.1), (-0.1, -0.1, 0)]
    names = ["cam_1", "cam_2", "cam_3", "cam_04", "cam_9", "cam_10"]
    sizes = [(1280, 720), (640, 480), (1920, 1080), (848, 480), (640, 360), (720, 1280)]
    cameras, middle = [], np.array([0.3, -0.2, 0.05])
    for index, ((azimuth, elevation, distance), aim) in enumerate(zip(places, aims, strict=True)):
        level = np.array([np.cos(azimuth), np.sin(azimuth), 0]) * np.cos(elevation)
        T = look_at(distance * (level + np.array([0, 0, np.sin(elevation)])) + middle, np.array(aim) + middle)
        roll = np.radians([2, -3, 1, 4, -2, 3][index])
        turn = np.eye(4)
        turn[:2, :2] = [[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]]
        width, height = sizes[index]
        f = 0.9 * max(width, height)
        square = lens == "none"
        k: dict[str, tuple[float, ...]] = {
            "none": (),
            "opencv": (-0.11 - 0.01 * index, 0.06, 0.001, -0.0015, 0.01),
            "fisheye": (0.03, -0.01 - 0.001 * index, 0.004, -0.0006),
        }
        cameras.append(
            Truth(
                name=names[index],
                width=width,
                height=height,
                f=(f, f if square else 1.01 * f),
                c=(width / 2, height / 2) if square else (width / 2 + 7.25 + index, height / 2 - 5.5),
                T_cam_world=turn @ T,
                k=k[lens],
                fisheye=lens == "fisheye",
            )
        )
    return cameras


Write = Callable[[Path, list[Truth], str, float], Path]
"""Writes cameras under a reading, with so many metres a unit, into an empty folder, and gives what is to be read."""


def colmap_text(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
    lines, images = ["# Camera list"], ["# Image list"]
    for number, camera in enumerate(cameras, 1):
        model, params = _colmap_lens(camera)
        lines.append(f"{number} {model} {camera.width} {camera.height} {' '.join(map(repr, params))}")
        pose = " ".join(map(repr, _quaternion_pose(camera, reading, unit)))
        images += [f"{number} {pose} {number} images/{camera.name}.jpg", ""]
    (folder / "cameras.txt").write_text("\n".join(lines) + "\n")
    (folder / "images.txt").write_text("\n".join(images) + "\n")
    (folder / "points3D.txt").write_text("")
    return folder


def colmap_binary(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
    model_folder = folder / "sparse/0"
    model_folder.mkdir(parents=True)
    numbers = {"PINHOLE": 1, "FULL_OPENCV": 6, "OPENCV_FISHEYE": 5}
    lenses = images = struct.pack("<Q", len(cameras))
    for number, camera in enumerate(cameras, 1):
        model, params = _colmap_lens(camera)
        lenses += struct.pack("<IiQQ", number, numbers[model], camera.width, camera.height)
        lenses += struct.pack(f"<{len(params)}d", *params)
        images += struct.pack("<I7dI", number, *_quaternion_pose(camera, reading, unit), number)
        images += f"{camera.name}.jpg".encode() + b"\0"
        images += struct.pack("<Qddqddq", 2, 1.0, 2.0, -1, 3.0, 4.0, -1)
    (model_folder / "cameras.bin").write_bytes(lenses)
    (model_folder / "images.bin").write_bytes(images)
    (model_folder / "points3D.bin").write_bytes(struct.pack("<Q", 0))
    return folder


def _colmap_lens(camera: Truth) -> tuple[str, list[float]]:
    pinhole = [float(v) for v in (*camera.f, *camera.c)]
    if camera.fisheye:
        return "OPENCV_FISHEYE", [*pinhole, *camera.k]
    return ("FULL_OPENCV", [*pinhole, *camera.k, 0.0, 0.0, 0.0]) if camera.k else ("PINHOLE", pinhole)


def _quaternion_pose(camera: Truth, reading: str, unit: float) -> list[float]:
    R, t = camera.written(reading, unit)
    w = np.sqrt(max(0.0, 1 + np.trace(R))) / 2
    if w > 0.1:
        q = [w, (R[2, 1] - R[1, 2]) / (4 * w), (R[0, 2] - R[2, 0]) / (4 * w), (R[1, 0] - R[0, 1]) / (4 * w)]
    else:  # The axis is the eigenvector of 1.
        axis = np.linalg.svd(R - np.eye(3))[2][2]
        angle = np.arccos(np.clip((np.trace(R) - 1) / 2, -1, 1))
        skew = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
        axis = axis if skew @ axis >= 0 else -axis
        q = [np.cos(angle / 2), *(np.sin(angle / 2) * axis)]
    return [float(v) for v in (*q, *t)]


def transforms(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
    frames = []
    for camera in cameras:
        names = ("k1", "k2", "k3", "k4") if camera.fisheye else ("k1", "k2", "p1", "p2", "k3")
        frames.append(
            {
                "file_path": f"./images/{camera.name}.png",
                "w": camera.width,
                "h": camera.height,
                "fl_x": camera.f[0],
                "fl_y": camera.f[1],
                "cx": camera.c[0],
                "cy": camera.c[1],
                **dict(zip(names, camera.k, strict=False)),
                "transform_matrix": camera.matrix(reading, unit),
            }
        )
    data = {"camera_model": "OPENCV_FISHEYE" if cameras[0].fisheye else "OPENCV", "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(data))
    return folder


def llff(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
    rows = []
    for camera in cameras:
        R, t = camera.written(reading, unit)
        rows.append([*np.column_stack([R, t, [camera.height, camera.width, camera.f[0]]]).ravel(), 0.3, 4.0])
    np.save(folder / "poses_bounds.npy", np.array(rows))
    return folder


def easymocap(folder: Path, cameras: list[Truth], reading: str, unit: float, *, vectors: bool = False) -> Path:
    intrinsics, extrinsics = (
        cv2.FileStorage(str(folder / f"{n}.yml"), cv2.FILE_STORAGE_WRITE) for n in ("intri", "extri")
    )
    for storage in (intrinsics, extrinsics):
        storage.startWriteStruct("names", cv2.FileNode_SEQ)
        for camera in cameras:
            storage.write("", camera.name)
        storage.endWriteStruct()
    for camera in cameras:
        R, t = camera.written(reading, unit)
        intrinsics.write(f"K_{camera.name}", np.array(camera.K(-0.5)))
        intrinsics.write(f"dist_{camera.name}", np.array([camera.k or (0.0,) * 5]))
        intrinsics.write(f"H_{camera.name}", camera.height)
        intrinsics.write(f"W_{camera.name}", camera.width)
        extrinsics.write(f"R_{camera.name}", cv2.Rodrigues(R)[0])
        if not vectors:
            extrinsics.write(f"Rot_{camera.name}", R)
        extrinsics.write(f"T_{camera.name}", t.reshape(3, 1))
    intrinsics.release()
    extrinsics.release()
    return folder


def file_storage(suffix: str) -> Write:
    """OpenCV's own writer: a file a camera, with rvec and tvec."""

    def write(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
        for camera in cameras:
            R, t = camera.written(reading, unit)
            storage = cv2.FileStorage(str(folder / f"{camera.name}.{suffix}"), cv2.FILE_STORAGE_WRITE)
            storage.write("image_width", camera.width)
            storage.write("image_height", camera.height)
            storage.write("camera_matrix", np.array(camera.K(-0.5)))
            if camera.fisheye:
                storage.write("distortion_model", "fisheye")
            storage.write("distortion_coefficients", np.array(camera.k or (0.0,) * 5).reshape(-1, 1))
            storage.write("rvec", cv2.Rodrigues(R)[0])
            storage.write("tvec", t.reshape(3, 1))
            storage.release()
        return folder

    return write


def by_hand(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
    """JSON by serial, with a 4x4 whose name says nothing."""
    data: dict[str, Any] = {
        camera.name: {
            "intrinsics": {"K": camera.K(-0.5), "D": list(camera.k), "resolution": [camera.width, camera.height]},
            "extrinsics": camera.matrix(reading, unit),
            **({"fisheye": True} if camera.fisheye else {}),
        }
        for camera in cameras
    }
    if not cameras[0].k:
        for item in data.values():
            del item["intrinsics"]["D"]
    (folder / "rig.json").write_text(json.dumps({"cameras": data}))
    return folder


def anipose(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
    return _toml(folder / "calibration.toml", cameras, reading, unit, caliscope=False)


def caliscope(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
    return _toml(folder / "camera_array.toml", cameras, reading, unit, caliscope=True)


def _toml(path: Path, cameras: list[Truth], reading: str, unit: float, *, caliscope: bool) -> Path:
    sections = []
    for camera in cameras:
        R, t = camera.written(reading, unit)
        number = int(camera.name.split("_")[1])
        head = f"[cameras.{number}]\ncam_id = {number}\nrotation_count = 1\nignore = false" if caliscope else ""
        head = head or f'[cam_{number}]\nname = "{camera.name}"'
        rotation = R.tolist() if caliscope else cv2.Rodrigues(R)[0].ravel().tolist()
        sections.append(
            f"{head}\nsize = [{camera.width}, {camera.height}]\nmatrix = {camera.K(-0.5)}\n"
            f"distortions = {list(camera.k or (0.0,) * 5)}\nfisheye = {str(camera.fisheye).lower()}\n"
            f"rotation = {rotation}\ntranslation = {t.tolist()}\n"
        )
    # As the tools do, sections sorted as text: cam_10 comes before cam_2.
    path.write_text("\n".join(sorted(sections)) + "\n[metadata]\nadjusted = false\nerror = 0.0\n")
    return path


def x_wc(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
    serials = {}
    for camera in cameras:
        metadata = {"K": camera.K(-0.5), "resolution": [camera.width, camera.height], "timestamps": [0.0, 0.1]}
        (folder / f"{camera.name}.json").write_text(json.dumps(metadata))
        serials[camera.name] = {
            "X_WC": camera.matrix(reading, unit),
            "video_path": f"{camera.name}.mp4",
            "metadata_path": f"{camera.name}.json",
        }
    (folder / "cameras.json").write_text(json.dumps(serials))
    return folder


def ours(declared: str) -> Write:
    """Our own form, which declares one reading, whatever its matrices are."""
    direction, axes = declared.split("-")

    def write(folder: Path, cameras: list[Truth], reading: str, unit: float) -> Path:
        items = []
        for camera in cameras:
            convention = {"w2c": "T_cam_world", "c2w": "T_world_cam"}[direction]
            pose = {"convention": convention, "axes": axes, "matrix": camera.matrix(reading, unit)}
            lens = {"model": "fisheye" if camera.fisheye else "opencv", "coefficients": list(camera.k)}
            items.append(
                {
                    "name": camera.name,
                    "width": camera.width,
                    "height": camera.height,
                    "K": camera.K(-0.5),
                    "pose": pose,
                    "pixel_center": "integer",
                    **({"distortion": lens} if camera.k else {}),
                }
            )
        (folder / "calibration.json").write_text(json.dumps({"version": 1, "cameras": items}))
        return folder

    return write


@dataclass(frozen=True)
class Kind:
    """A way of writing, and what is known of the format."""

    write: Write
    format: str
    documented: str | None
    lenses: tuple[str, ...]
    metric: bool
    """Whether its lengths have a scale."""
    readings: tuple[str, ...] = tuple(READINGS)


_ALL_LENSES = ("none", "opencv", "fisheye")
KINDS = {
    "colmap-text": Kind(colmap_text, "colmap", "w2c-opencv", _ALL_LENSES, False),
    "colmap-binary": Kind(colmap_binary, "colmap", "w2c-opencv", _ALL_LENSES, False),
    "transforms": Kind(transforms, "nerfstudio", "c2w-opengl", _ALL_LENSES, False),
    "llff": Kind(
        llff, "llff", "c2w-llff", ("none",), False, (*READINGS, "w2c-llff", "c2w-llff", "c2w-llff-transposed")
    ),
    "easymocap": Kind(easymocap, "easymocap", "w2c-opencv", ("none", "opencv"), True),
    "opencv-yaml": Kind(file_storage("yml"), "opencv", "w2c-opencv", _ALL_LENSES, True),
    "opencv-xml": Kind(file_storage("xml"), "opencv", "w2c-opencv", _ALL_LENSES, True),
    "opencv-json": Kind(file_storage("json"), "opencv", "w2c-opencv", _ALL_LENSES, True),
    "by-hand": Kind(by_hand, "opencv", None, _ALL_LENSES, True),
    "anipose": Kind(anipose, "toml", "w2c-opencv", _ALL_LENSES, True),
    "caliscope": Kind(caliscope, "toml", "w2c-opencv", _ALL_LENSES, True),
    "x-wc": Kind(x_wc, "pusht-embodied", "c2w-opengl", ("none",), True),
    "ours-w2c": Kind(ours("w2c-opencv"), "calibration", "w2c-opencv", _ALL_LENSES, True),
    "ours-c2w": Kind(ours("c2w-opengl"), "calibration", "c2w-opengl", _ALL_LENSES, True),
}
"""Every way of writing that is known here."""
