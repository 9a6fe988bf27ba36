"""Numbers out of foreign files, each refusal naming file, camera and field."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from typing import Any, NoReturn

import cv2
import numpy as np

from recon4d.capture._rig import Distortion
from recon4d.errors import CalibrationError

OPENCV_COUNTS = (4, 5, 8, 12, 14)
_LARGEST_SIDE = 65535
_MOST_NUMBERS = 4096
LARGEST = 1e9
"""Of any number of a camera: what is squared and multiplied stays finite."""


class Values:
    """Reads values of one camera in one file. Numbers may come as text, as YAML and XML hand them out."""

    def __init__(self, file: str, camera: str | None = None) -> None:
        self.file = file
        self.camera = camera

    def refuse(self, message: str) -> NoReturn:
        raise CalibrationError(message, camera=self.camera, file=self.file)

    def number(self, value: Any, what: str) -> float:
        """A float within reason."""
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise ValueError
            number = float(value)
        except (ValueError, OverflowError):
            self.refuse(f"'{what}' must be a number; it is {show(value)}")
        if not abs(number) < LARGEST:
            self.refuse(f"'{what}' must be finite and below {LARGEST:g}; it is {show(value)}")
        return number

    def side(self, value: Any, what: str) -> int:
        """A picture's width or height in pixels."""
        number = self.number(value, what)
        if number != int(number) or not 1 <= number <= _LARGEST_SIDE:
            self.refuse(f"'{what}' must be a whole number of pixels, at most {_LARGEST_SIDE}; it is {show(value)}")
        return int(number)

    def array(self, value: Any, what: str) -> np.ndarray:
        """float64, finite, of the shape it is written in: nested lists, or one of OpenCV's matrices."""
        if is_matrix(value):
            sides = value["sizes"] if "sizes" in value else [value["rows"], value["cols"]]
            sides = sides if isinstance(sides, list) else [sides]
            shape = tuple(self.side(side, f"{what}'s size") for side in sides[:4])
            flat = self.array(value["data"], f"{what}.data").reshape(-1)
            if len(flat) != math.prod(shape):
                self.refuse(f"'{what}' must hold {' x '.join(map(str, shape))} numbers; it holds {len(flat)}")
            return flat.reshape(shape)
        if not isinstance(value, list):
            return np.array([self.number(value, what)])
        if len(value) > _MOST_NUMBERS:
            self.refuse(f"'{what}' holds {len(value)} values; no calibration does")
        if not any(isinstance(item, list) for item in value):
            return np.array([self.number(item, what) for item in value])
        rows = [self.array(item, what) for item in value]
        if len({row.shape for row in rows}) != 1:
            self.refuse(f"the rows of '{what}' differ in length: {show(value)}")
        return np.stack(rows)

    def matrix(self, value: Any, what: str, *shapes: tuple[int, ...]) -> np.ndarray:
        """float64 of one of the shapes; a flat list of as many numbers is taken row by row."""
        array = self.array(value, what)
        for shape in shapes:
            if array.shape == shape or array.size == np.prod(shape):
                return array.reshape(shape)
        expected = " or ".join("x".join(map(str, shape)) for shape in shapes)
        self.refuse(f"'{what}' must hold {expected} numbers; it holds {'x'.join(map(str, array.shape))}")

    def intrinsics(self, value: Any, what: str, *, shift: float = 0.5) -> np.ndarray:
        """K [3, 3] with its pixel centres moved by ``shift`` to lie at 0.5."""
        K = self.matrix(value, what, (3, 3)).copy()
        if K[1, 0] or K[2, 0] or K[2, 1] or K[2, 2] != 1 or min(K[0, 0], K[1, 1]) <= 0:
            self.refuse(f"'{what}' must be [[fx, s, cx], [0, fy, cy], [0, 0, 1]]; it is {K.tolist()}")
        K[:2, 2] += shift
        return K

    def distortion(self, value: Any, what: str, *, fisheye: bool = False) -> Distortion | None:
        """A lens in OpenCV's order of coefficients; None where all are zero and it is no fisheye."""
        coefficients = self.array(value, what).reshape(-1)
        counts = (4,) if fisheye else OPENCV_COUNTS
        if fisheye and len(coefficients) == 5 and coefficients[4] == 0:
            coefficients = coefficients[:4]
        if not fisheye and 0 < len(coefficients) < 4:
            coefficients = np.pad(coefficients, (0, 4 - len(coefficients)))
        if len(coefficients) not in counts:
            model = "a fisheye lens" if fisheye else "OpenCV's lens model"
            self.refuse(f"'{what}' of {model} must hold one of {counts} numbers; it holds {len(coefficients)}")
        return lens(coefficients, fisheye=fisheye)

    def rotation(self, value: Any, what: str) -> np.ndarray:
        """[3, 3] of a matrix, or of a rotation vector (Rodrigues) of three numbers."""
        array = self.matrix(value, what, (3, 3), (3,))
        return array if array.ndim == 2 else cv2.Rodrigues(array)[0]

    def pose(self, rotation: np.ndarray, translation: Any, what: str) -> np.ndarray:
        """[4, 4] of a rotation and a translation."""
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = rotation, self.matrix(translation, what, (3,))
        return matrix

    def pose_matrix(self, value: Any, what: str) -> tuple[np.ndarray, bool]:
        """[4, 4] of a 4x4 or 3x4, and whether it had to be turned: its translation stood in the last row."""
        matrix = self.matrix(value, what, (4, 4), (3, 4))
        if matrix.shape == (3, 4):
            matrix = np.vstack([matrix, [0.0, 0, 0, 1]])
        last_row, last_column = np.abs(matrix[3] - [0, 0, 0, 1]).max(), np.abs(matrix[:, 3] - [0, 0, 0, 1]).max()
        if last_row < 1e-6:
            return matrix, False
        if last_column < 1e-6:
            return matrix.T.copy(), True
        self.refuse(f"'{what}' must end in the row [0, 0, 0, 1]; it is {matrix.round(6).tolist()}")


def is_matrix(value: Any) -> bool:
    """Whether an object is a matrix as OpenCV's FileStorage writes it."""
    return isinstance(value, dict) and "data" in value and ({"rows", "cols"} <= value.keys() or "sizes" in value)


def lens(coefficients: Sequence[float] | np.ndarray, *, fisheye: bool = False) -> Distortion | None:
    """The lens of these coefficients in OpenCV's order; None where it changes nothing."""
    array = np.asarray(coefficients, np.float64)
    if fisheye:
        return Distortion(model="fisheye", coefficients=array)
    return Distortion(model="opencv", coefficients=array) if array.any() else None


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 80, 80


def show(value: Any) -> str:
    """The value for a message, kept short however large and deep it is."""
    return _SHORT.repr(value)[:160]
