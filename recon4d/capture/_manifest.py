"""The capture folder: ``capture.json``, version 1.

A capture is a folder with one video per camera and a file ``capture.json`` that says how to read them::

    {
      "version": 1,
      "name": "bench",                          optional, default: the folder's name
      "notes": "first take",                    optional
      "bench_plane": [0, 0, 1, 0],              optional, a x + b y + c z + d = 0 in the world
      "heldout": {                              optional, what training never sees; each field is optional
        "cameras": ["left"],                    default none
        "grid_s": 0.1, "every": 8, "first": 4,  of the instants k * grid_s, every 8th from the 4th on
        "guard_s": 0.09                         no training frame within this distance of such an instant
      },
      "cameras": [
        {
          "name": "left",
          "video": "left.mp4",                  path inside the folder; anything that FFmpeg decodes
          "timestamps": "left.json",            optional; see below
          "time_offset_s": 0.0,                 optional, added to this camera's times
          "time_scale": 1.0,                    optional, a factor on this camera's times, before the offset is added
          "width": 640, "height": 480,          pixels, as the calibration means them
          "K": [[fx, 0, cx], [0, fy, cy], [0, 0, 1]],
          "distortion": {                       optional, default none
            "model": "opencv",                  or "fisheye" (Kannala-Brandt, 4 coefficients)
            "coefficients": [k1, k2, p1, p2, k3]   4, 5, 8, 12 or 14 in OpenCV's order
          },
          "pose": {
            "convention": "T_cam_world",        world to camera; or "T_world_cam", camera to world
            "axes": "opencv",                   x right, y down, z forward; or "opengl", y up, z back
            "matrix": [[...], [...], [...], [0, 0, 0, 1]]   metres
          },
          "pixel_center": "integer"             where the first pixel's centre lies: "integer" at 0 (OpenCV,
        }                                       ROS, RealSense), "half" at 0.5 (COLMAP, OpenGL)
      ]
    }

World: right-handed, metres, +Z up. All cameras' times share one clock; its zero is free.

A timestamp file holds one time in seconds for every frame that the video decodes to, strictly increasing: a JSON
list, a JSON object with such a list under ``timestamps``, or text with one number a line. Without one, the
presentation times in the video are used. The frame rate that a container claims is never used. Where a camera's clock
starts elsewhere or runs at another rate, t = time of the file * time_scale + time_offset_s; `recon4d sync` finds both.

A field that is not listed here is not an error, but a warning names it and what was probably meant.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recon4d.capture._fields import Fields
from recon4d.capture._findings import Inspection
from recon4d.capture._rig import Distortion
from recon4d.errors import CalibrationError
from recon4d.geometry import OPENGL_TO_OPENCV
from recon4d.types import Camera, SplitRule

MANIFEST = "capture.json"
VERSION = 1

_TOP = ("version", "name", "notes", "bench_plane", "heldout", "cameras")
_HELDOUT = ("cameras", "grid_s", "every", "first", "guard_s")
_CAMERA = (
    "name", "video", "timestamps", "time_offset_s", "time_scale", "width", "height", "K", "distortion", "pose",
    "pixel_center",
)  # fmt: skip
_DISTORTION = ("model", "coefficients")
_POSE = ("convention", "axes", "matrix")
_NAME_BYTES, _PATH_BYTES = 255, 1024
"""What common file systems allow for a name, and what is enough for a path."""
_OPENCV_COUNTS = (4, 5, 8, 12, 14)


@dataclass(frozen=True, kw_only=True)
class CameraEntry:
    """One camera of the manifest, converted to the package's conventions."""

    camera: Camera
    distortion: Distortion | None
    video: str
    """Path relative to the capture folder; empty where none was asked for."""
    timestamps: str | None
    time_offset_s: float
    time_scale: float

    @property
    def name(self) -> str:
        return self.camera.name

    def on_the_clock(self, times: np.ndarray) -> np.ndarray:
        """Times of the file, in seconds, as times on the clock that all cameras share."""
        return times * self.time_scale + self.time_offset_s


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What ``capture.json`` says, converted to the package's conventions."""

    folder: Path
    name: str
    notes: str
    plane: np.ndarray | None
    split: SplitRule
    entries: tuple[CameraEntry, ...]
    """The cameras that could be read; fewer than ``declared`` when an inspection goes on after an error."""
    declared: int
    text: bytes
    """The file as it was read."""


def read_manifest(folder: Path, inspection: Inspection) -> Manifest:
    """Reads and checks ``capture.json``."""
    text, data = _load(folder, inspection)
    return parse_manifest(folder, text, data, inspection)


def parse_manifest(folder: Path, text: bytes, data: Any, inspection: Inspection, *, bare: bool = False) -> Manifest:
    """Checks what ``capture.json`` holds; with ``bare``, cameras need no video."""
    top = Fields(data, "", _TOP, inspection, file=MANIFEST)
    if top.integer("version") != VERSION:
        top.refuse("version", f"must be {VERSION}; it is {data['version']}", "update recon4d, or convert the capture")
    cameras = top.items("cameras")
    if len(cameras) < 2:
        top.refuse("cameras", f"names {len(cameras)} cameras; at least 2 are needed to place anything in space")
    entries: list[CameraEntry] = []
    for index, item in enumerate(cameras):
        with inspection.part():
            entries.append(_read_camera(item, index, folder, inspection, bare))
    names = [str(item.get("name")) for item in cameras if isinstance(item, dict)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        with inspection.part():
            inspection.error(
                f"{names.count(name)} cameras have this name", "give each its own", camera=name, file=MANIFEST
            )
    plane, split = None, SplitRule()
    with inspection.part():
        plane = _read_plane(top, inspection)
    with inspection.part():
        split = _read_heldout(top, names)
    return Manifest(
        folder=folder,
        name=top.text("name", folder.resolve().name),
        notes=top.text("notes", ""),
        plane=plane,
        split=split,
        entries=tuple(entries),
        declared=len(cameras),
        text=text,
    )


def _load(folder: Path, inspection: Inspection) -> tuple[bytes, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        inspection.error(f"there is no folder '{folder}'", "give the folder that holds the videos and capture.json")
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        found = sorted(p.name for p in folder.iterdir())
        inspection.error(
            f"the folder '{folder}' has no {MANIFEST}; it holds {found[:8] or 'nothing'}",
            "write one, or convert a known layout with `recon4d import`",
            file=MANIFEST,
        )
    except OSError as error:
        inspection.error(f"cannot be read: {error.strerror}", "check its permissions", file=MANIFEST)
    try:
        return text, json.loads(text.decode("utf-8-sig"))
    except RecursionError:
        inspection.error("is nested too deeply", "write it as the README shows", file=MANIFEST)
    except UnicodeDecodeError as error:
        inspection.error(f"is not UTF-8: byte {error.start} cannot be decoded", "save it as UTF-8", file=MANIFEST)
    except json.JSONDecodeError as error:
        inspection.error(
            f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}", "correct it there", file=MANIFEST
        )


def _read_camera(item: Any, index: int, folder: Path, inspection: Inspection, bare: bool) -> CameraEntry:
    where = f"cameras[{index}]"
    name = item.get("name") if isinstance(item, dict) and isinstance(item.get("name"), str) else None
    fields = Fields(item, where, _CAMERA, inspection, file=MANIFEST, camera=name)
    name = fields.text("name")
    if not name.strip() or name in (".", "..") or not _is_text(name) or any(c in "/\\" or ord(c) < 32 for c in name):
        fields.refuse("name", f"must be a non-empty name without slashes; it is {name!r}")
    K = fields.matrix("K", (3, 3)).copy()
    if K[1, 0] or K[2, 0] or K[2, 1] or K[2, 2] != 1:
        fields.refuse("K", f"must be [[fx, s, cx], [0, fy, cy], [0, 0, 1]]; it is {K.tolist()}", calibration=True)
    if fields.choice("pixel_center", ("integer", "half")) == "integer":
        K[:2, 2] += 0.5
    try:
        camera = Camera(
            name=name,
            width=fields.integer("width", minimum=1),
            height=fields.integer("height", minimum=1),
            K=K,
            T_cam_world=_read_pose(fields),
        )
    except CalibrationError as error:
        inspection.error(error.reason, camera=name, file=MANIFEST, calibration=True)
    return CameraEntry(
        camera=camera,
        distortion=_read_distortion(fields, camera),
        video=_inside(folder, fields, "video", fields.text("video")) if "video" in fields or not bare else "",
        timestamps=_inside(folder, fields, "timestamps", fields.text("timestamps")) if "timestamps" in fields else None,
        time_offset_s=fields.number("time_offset_s", 0.0),
        time_scale=_read_time_scale(fields),
    )


def _read_time_scale(fields: Fields) -> float:
    scale = fields.number("time_scale", 1.0)
    if scale <= 0:
        fields.refuse("time_scale", f"must be positive; it is {scale:g}")
    return scale


def _read_pose(fields: Fields) -> np.ndarray:
    pose = fields.object("pose", _POSE)
    T = pose.matrix("matrix", (4, 4))
    if np.abs(T[3] - [0, 0, 0, 1]).max() > 1e-9:
        pose.refuse(
            "matrix",
            f"must end in the row [0, 0, 0, 1]; it ends in {T[3].tolist()}",
            "a transposed matrix looks like this",
            calibration=True,
        )
    if pose.choice("convention", ("T_cam_world", "T_world_cam")) == "T_world_cam":
        # The rigid inverse: where the 3x3 part is no rotation, it stays none, and Camera says so.
        inverse = np.eye(4)
        inverse[:3, :3] = T[:3, :3].T
        inverse[:3, 3] = -T[:3, :3].T @ T[:3, 3]
        T = inverse
    return OPENGL_TO_OPENCV @ T if pose.choice("axes", ("opencv", "opengl")) == "opengl" else T


def _read_distortion(fields: Fields, camera: Camera) -> Distortion | None:
    if "distortion" not in fields:
        return None
    distortion = fields.object("distortion", _DISTORTION)
    model = distortion.choice("model", ("opencv", "fisheye"))
    coefficients = distortion.numbers("coefficients")
    counts = _OPENCV_COUNTS if model == "opencv" else (4,)
    if len(coefficients) not in counts:
        distortion.refuse(
            "coefficients",
            f"of the model '{model}' must number one of {counts}; there are {len(coefficients)}",
            calibration=True,
        )
    if not coefficients.any() and model == "opencv":
        return None
    if camera.K[0, 1] != 0:
        fields.refuse("K", f"has skew {camera.K[0, 1]:g}; with a distortion it must be 0", calibration=True)
    return Distortion(model="fisheye" if model == "fisheye" else "opencv", coefficients=coefficients)


def _inside(folder: Path, fields: Fields, key: str, value: str) -> str:
    """The path, refused unless it stays inside the capture folder: captures are uploaded by strangers too."""
    path = Path(value)
    short = _is_text(value) and len(value.encode()) <= _PATH_BYTES
    short = short and all(len(part.encode()) <= _NAME_BYTES for part in path.parts)
    if not short or not value or path.is_absolute() or ".." in path.parts or "\0" in value or (folder / path).is_dir():
        fields.refuse(key, f"must be the path of a file inside the capture folder; it is {value[:300]!r}")
    return _as_on_disk(folder, path)


def _is_text(value: str) -> bool:
    """JSON can hold halves of characters, which are no text and name no file."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _as_on_disk(folder: Path, path: Path) -> str:
    """The path with its file's name as the folder has it: accents may be characters of their own (NFD) or not (NFC)."""
    place = (folder / path).parent
    if place.is_dir() and not (folder / path).exists():
        wanted = unicodedata.normalize("NFC", path.name)
        for other in sorted(place.iterdir()):
            if unicodedata.normalize("NFC", other.name) == wanted:
                return path.with_name(other.name).as_posix()
    return str(path)


def _read_plane(top: Fields, inspection: Inspection) -> np.ndarray | None:
    if "bench_plane" not in top:
        return None
    plane = top.numbers("bench_plane")
    norm = float(np.linalg.norm(plane[:3]))
    if len(plane) != 4 or norm < 1e-9:
        top.refuse("bench_plane", f"must be four numbers a, b, c, d with (a, b, c) not 0; it is {plane.tolist()}")
    plane = plane / (norm if plane[2] >= 0 else -norm)
    if plane[2] < 0.5:
        inspection.warn(
            f"bench_plane's normal is {plane[:3].round(3).tolist()}, far from the world's +Z",
            "check that the world is z-up",
            file=MANIFEST,
        )
    return plane


def _read_heldout(top: Fields, names: list[str]) -> SplitRule:
    if "heldout" not in top:
        return SplitRule()
    fields, default = top.object("heldout", _HELDOUT), SplitRule()
    heldout = fields.texts("cameras", ())
    for name in heldout:
        if name not in names:
            fields.refuse("cameras", f"names '{name}'; there are {names}")
    grid_s = fields.number("grid_s", default.grid_s)
    if grid_s <= 0:
        fields.refuse("grid_s", f"must be positive; it is {grid_s:g}")
    return SplitRule(
        heldout_cameras=heldout,
        grid_s=grid_s,
        every=fields.integer("every", default.every, minimum=0),
        first=fields.integer("first", default.first, minimum=0),
        guard_s=fields.number("guard_s", default.guard_s, minimum=0.0),
    )
