"""The files of a COLMAP model, text and binary (https://colmap.github.io/format.html), read without trusting them.

Counts in a binary file are believed only as far as the file is long, and of what images see a sample is kept: memory
stays small however large the model is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from recon4d.capture.calibrations import reading
from recon4d.errors import CaptureError

MODELS = {
    0: ("SIMPLE_PINHOLE", 3), 1: ("PINHOLE", 4), 2: ("SIMPLE_RADIAL", 4), 3: ("RADIAL", 5), 4: ("OPENCV", 8),
    5: ("OPENCV_FISHEYE", 8), 6: ("FULL_OPENCV", 12), 7: ("FOV", 5), 8: ("SIMPLE_RADIAL_FISHEYE", 4),
    9: ("RADIAL_FISHEYE", 5), 10: ("THIN_PRISM_FISHEYE", 12), 11: ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
    12: ("SIMPLE_DIVISION", 4), 13: ("DIVISION", 5), 14: ("SIMPLE_FISHEYE", 3), 15: ("FISHEYE", 4), 16: ("EUCM", 6),
    17: ("EQUIRECTANGULAR", 2),
}  # fmt: skip
"""By number: name and how many parameters."""
_SAMPLE = 400
"""Observations that are kept of an image."""
_MOST_IMAGES = 100_000
_LONGEST_NAME = 1024
_LONGEST_LINE = 64 * 2**20
_POINT2D = np.dtype([("xy", "<f8", 2), ("point", "<i8")])


@dataclass(frozen=True)
class Lens:
    """A line of cameras.txt."""

    model: str
    width: int
    height: int
    params: np.ndarray


@dataclass(frozen=True)
class Picture:
    """An image with a sample of what it sees."""

    name: str
    camera: int
    quat: np.ndarray
    """[4] wxyz, world to camera."""
    translation: np.ndarray
    pixels: np.ndarray
    """[N, 2]."""
    points: np.ndarray
    """[N] int64, ids."""


@dataclass(frozen=True)
class Model:
    """What of a model says how its cameras stand."""

    lenses: dict[int, Lens]
    pictures: list[Picture]
    points: dict[int, np.ndarray]
    """By id: [3], those that pictures' samples see."""
    sensors: int
    """The most cameras of any rig in rigs.bin or rigs.txt; 1 without."""


def read_model(folder: Path) -> Model:
    """Reads the model in a folder; binary files come first.

    Raises:
        CaptureError: a file is damaged, or not what its name says.
    """
    binary = (folder / "images.bin").is_file()
    suffix = "bin" if binary else "txt"
    read = _BINARY if binary else _TEXT
    lenses = _call(read["cameras"], folder / f"cameras.{suffix}")
    pictures = _call(read["images"], folder / f"images.{suffix}")
    wanted = {int(point) for picture in pictures for point in picture.points}
    points, sensors = {}, 1
    if wanted and (folder / f"points3D.{suffix}").is_file():
        points = _call(lambda file: read["points3D"](file, wanted), folder / f"points3D.{suffix}")
    if (folder / f"rigs.{suffix}").is_file():
        sensors = _call(read["rigs"], folder / f"rigs.{suffix}")
    return Model(lenses=lenses, pictures=pictures, points=points, sensors=sensors)


def _call(read: Callable, path: Path):
    with reading(path) as file:
        try:
            return read(file)
        except (ValueError, OverflowError, IndexError) as error:
            raise CaptureError(f"is no file of a COLMAP model: {str(error)[:200]}", file=path.name) from error


class _Bytes:
    """A binary file, little-endian; what it promises and does not hold is an error before memory is taken."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._left = file.seek(0, 2)
        file.seek(0)

    def take(self, size: int) -> bytes:
        if size > self._left:
            self.cut_off(size)
        self._left -= size
        return self._file.read(size)

    def skip(self, size: int) -> None:
        if size > self._left:
            self.cut_off(size)
        self._left -= size
        self._file.seek(size, 1)

    def numbers(self, layout: str) -> tuple:
        return struct.unpack(f"<{layout}", self.take(struct.calcsize(f"<{layout}")))

    def count(self, least: int) -> int:
        """A count of records of at least so many bytes each."""
        (count,) = self.numbers("Q")
        if count * least > self._left:
            self.cut_off(count * least)
        return count

    def name(self) -> str:
        """Text up to a zero byte."""
        text = bytearray()
        while (byte := self.take(1)) != b"\0":
            text += byte
            if len(text) > _LONGEST_NAME:
                raise ValueError(f"a name is longer than {_LONGEST_NAME} bytes")
        return text.decode("utf-8")

    def cut_off(self, size: int) -> NoReturn:
        raise ValueError(f"it promises {size} more bytes than the {self._left} that are left; it is cut off or damaged")


def _binary_cameras(file: IO[bytes]) -> dict[int, Lens]:
    data = _Bytes(file)
    lenses = {}
    for _ in range(_limited(data.count(24 + 8 * 2))):
        number, model, width, height = data.numbers("IiQQ")
        if model not in MODELS:
            raise ValueError(f"camera {number} has the model number {model}; 0 to {max(MODELS)} are known")
        name, count = MODELS[model]
        lenses[number] = Lens(name, width, height, np.array(data.numbers(f"{count}d")))
    return lenses


def _binary_images(file: IO[bytes]) -> list[Picture]:
    data = _Bytes(file)
    pictures = []
    for _ in range(_limited(data.count(64 + 1 + 8))):
        _, *pose, camera = data.numbers("I7dI")
        name = data.name()
        count = data.count(_POINT2D.itemsize)
        pixels, points = _sample(data, count)
        pictures.append(Picture(name, camera, np.array(pose[:4]), np.array(pose[4:]), pixels, points))
    return pictures


def _sample(data: _Bytes, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first observations of an image that are of a known point."""
    pixels, points, kept = [np.zeros((0, 2))], [np.zeros(0, np.int64)], 0
    while count and kept < _SAMPLE:
        block = min(count, 4096)
        records = np.frombuffer(data.take(block * _POINT2D.itemsize), _POINT2D)
        known = records[records["point"] != -1][: _SAMPLE - kept]
        pixels.append(known["xy"])
        points.append(known["point"])
        kept, count = kept + len(known), count - block
    data.skip(count * _POINT2D.itemsize)
    return np.concatenate(pixels), np.concatenate(points)


def _binary_points(file: IO[bytes], wanted: set[int]) -> dict[int, np.ndarray]:
    data = _Bytes(file)
    points = {}
    for _ in range(data.count(8 + 24 + 3 + 8 + 8)):
        number, *xyz = data.numbers("q3d3x8x")
        if number in wanted:
            points[number] = np.array(xyz)
        data.skip(8 * data.count(8))
    return points


def _binary_rigs(file: IO[bytes]) -> int:
    data = _Bytes(file)
    most = 1
    for _ in range(_limited(data.count(8))):
        _, sensors = data.numbers("II")
        most = max(most, sensors)
        if sensors:
            data.skip(8)
        for _ in range(sensors - 1):
            _, _, posed = data.numbers("iIB")
            data.skip(56 if posed else 0)
    return most


def _limited(count: int) -> int:
    if count > _MOST_IMAGES:
        raise ValueError(f"it holds {count} records; at most {_MOST_IMAGES} are read")
    return count


def _lines(file: IO[bytes]) -> Iterator[list[bytes]]:
    """The words of each line, comments left out; empty lines come too, as they mean something in images.txt."""
    for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
        if len(line) == _LONGEST_LINE:
            raise ValueError("a line is too long")
        if not line.startswith(b"#"):
            yield line.split()


def _text_cameras(file: IO[bytes]) -> dict[int, Lens]:
    lenses = {}
    counts = dict(MODELS.values())
    for words in filter(None, _lines(file)):
        if len(words) < 5:
            raise ValueError(f"a camera's line has {len(words)} words; CAMERA_ID MODEL WIDTH HEIGHT PARAMS are needed")
        model, params = words[1].decode("ascii", "replace"), np.array([float(word) for word in words[4:]])
        if model not in counts:
            raise ValueError(f"the camera model '{model[:40]}' is unknown; there are {', '.join(counts)}")
        if len(params) != counts[model]:
            raise ValueError(f"a camera of the model {model} needs {counts[model]} parameters; it has {len(params)}")
        lenses[int(words[0])] = Lens(model, int(words[2]), int(words[3]), params)
        _limited(len(lenses))
    return lenses


def _text_images(file: IO[bytes]) -> list[Picture]:
    pictures = []
    lines = _lines(file)
    for words in lines:
        if not words:
            continue
        if len(words) < 10:
            raise ValueError(f"an image's line has {len(words)} words; IMAGE_ID, pose (7), CAMERA_ID, NAME are needed")
        pose = [float(word) for word in words[1:8]]
        name = b" ".join(words[9:]).decode("utf-8")
        # One read for all: a line of points is many words, of which a sample is turned to numbers.
        seen = next(lines, [])
        if len(seen) % 3:
            raise ValueError(
                f"the line after the image '{name}' lists no points (X Y POINT3D_ID …); without any it must be empty"
            )
        known = [k for k in range(2, len(seen), 3) if seen[k] != b"-1"][:_SAMPLE]
        pixels = np.array([[float(seen[k - 2]), float(seen[k - 1])] for k in known]).reshape(-1, 2)
        points = np.array([int(seen[k]) for k in known], np.int64)
        pictures.append(Picture(name, int(words[8]), np.array(pose[:4]), np.array(pose[4:]), pixels, points))
        _limited(len(pictures))
    return pictures


def _text_points(file: IO[bytes], wanted: set[int]) -> dict[int, np.ndarray]:
    points = {}
    for words in filter(None, _lines(file)):
        if int(words[0]) in wanted:
            points[int(words[0])] = np.array([float(word) for word in words[1:4]])
            if len(points[int(words[0])]) != 3:
                raise ValueError(f"the point {words[0].decode()} has no three coordinates")
    return points


def _text_rigs(file: IO[bytes]) -> int:
    return max([1, *(int(words[1]) for words in filter(None, _lines(file)))])


_BINARY = {"cameras": _binary_cameras, "images": _binary_images, "points3D": _binary_points, "rigs": _binary_rigs}
_TEXT = {"cameras": _text_cameras, "images": _text_images, "points3D": _text_points, "rigs": _text_rigs}
