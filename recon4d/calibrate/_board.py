"""Boards: a chessboard with markers (ChArUco), or a grid of AprilTags or ArUco markers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import cv2
import numpy as np

from recon4d.errors import ConfigError

FORM = "charuco:COLUMNSxROWS:SQUARE or apriltag:COLUMNSxROWS:TAG, then fields such as :marker=0.75 or :dict=4X4_1000"
"""How a board is written in one word."""

_UNITS_M = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "in": 0.0254}
_DEFAULT_DICTIONARY = {"charuco": "4X4_50", "apriltag": "APRILTAG_36h11"}
_DEFAULT_RATIO = {"charuco": 0.75, "apriltag": 0.3}
_FIELDS = {
    "charuco": ("marker", "dict", "legacy", "inverted"),
    "apriltag": ("gap", "dict", "first", "order", "inverted"),
}


@dataclass(frozen=True, kw_only=True)
class Board:
    """A flat board whose points are known by number.

    Its frame: origin at the outer corner of the first square (or tag), x along the columns, y along the rows, z away
    from who looks at the print; metres.

    Raises:
        ConfigError: sizes, counts or the dictionary are not those of a board.
    """

    kind: Literal["charuco", "apriltag"]
    columns: int
    """Squares (charuco) or tags (apriltag) side by side."""
    rows: int
    square_m: float
    """Side of a square, or of a tag's black frame."""
    ratio: float
    """charuco: side of a marker over side of a square. apriltag: gap between tags over side of a tag."""
    dictionary: str
    """As OpenCV names it, without ``DICT_``."""
    legacy: bool = False
    """charuco: the layout that OpenCV wrote before 4.6, which begins with a white square where rows are even."""
    inverted: bool = False
    """Black and white are exchanged."""
    first: int = 0
    """apriltag: number of the first tag."""
    order: Literal["top", "bottom"] = "top"
    """apriltag: whether numbers begin in the top or (Kalibr's boards) in the bottom row."""

    def __post_init__(self) -> None:
        least = 3 if self.kind == "charuco" else 1
        if not (least <= self.columns <= 100 and least <= self.rows <= 100):
            raise ConfigError(
                f"a {self.kind} board of {self.columns}x{self.rows} is not possible; {least} to 100 a side"
            )
        if not (np.isfinite(self.square_m) and 1e-4 <= self.square_m <= 10):
            raise ConfigError(f"a square of {self.square_m:g} m is not possible; 0.1 mm to 10 m. Give it as 54mm")
        upper = 1.0 if self.kind == "charuco" else 10.0
        if not 0 < self.ratio < upper:
            name = "marker" if self.kind == "charuco" else "gap"
            raise ConfigError(f"{name}={self.ratio:g} must lie between 0 and {upper:g}: it is a share of the side")
        if f"DICT_{self.dictionary}" not in dictionaries():
            known = ", ".join(name.removeprefix("DICT_") for name in dictionaries())
            raise ConfigError(f"there is no dictionary '{self.dictionary}'; known are {known}")
        size = len(self.marker_dictionary.bytesList)
        if self.first < 0 or self.first + self.markers > size:
            raise ConfigError(
                f"the board needs {self.markers} markers from {self.first} on, but the dictionary {self.dictionary} has"
                f" {size}"
            )

    @classmethod
    def parse(cls, text: str) -> Board:
        """Reads the form that ``FORM`` describes; ``str`` of a board gives it back.

        Raises:
            ConfigError: it is not of that form.
        """
        kind, *parts = text.strip().split(":")
        if kind not in _FIELDS or len(parts) < 2:
            raise ConfigError(f"'{text}' is no board; write {FORM}")
        size = re.fullmatch(r"(\d+)x(\d+)", parts[0])
        length = re.fullmatch(r"([0-9.]+)(mm|cm|m|in)", parts[1])
        if size is None or length is None:
            raise ConfigError(f"'{text}' must give columns x rows and a length with its unit, as in {kind}:4x5:54mm")
        given = {name: value for name, _, value in (part.partition("=") for part in parts[2:])}
        strange = sorted(given.keys() - set(_FIELDS[kind]))
        if strange:
            raise ConfigError(f"'{text}' has the field '{strange[0]}'; a {kind} board knows {', '.join(_FIELDS[kind])}")
        try:
            return cls(
                kind="charuco" if kind == "charuco" else "apriltag",
                columns=int(size[1]),
                rows=int(size[2]),
                square_m=float(length[1]) * _UNITS_M[length[2]],
                ratio=float(given.get("marker", given.get("gap", _DEFAULT_RATIO[kind]))),
                dictionary=_dictionary_name(given.get("dict", _DEFAULT_DICTIONARY[kind])),
                legacy="legacy" in given,
                inverted="inverted" in given,
                first=int(given.get("first", 0)),
                order="bottom" if given.get("order", "top") == "bottom" else "top",
            )
        except ValueError as error:
            raise ConfigError(f"'{text}' is no board: {error}; write {FORM}") from error

    def __str__(self) -> str:
        parts = [self.kind, f"{self.columns}x{self.rows}", f"{self.square_m * 1e3:.10g}mm"]
        if self.kind == "charuco":
            parts += [f"marker={self.ratio:g}", f"dict={self.dictionary}", *(["legacy"] if self.legacy else [])]
        else:
            parts += [f"gap={self.ratio:g}", f"dict={self.dictionary}", f"first={self.first}", f"order={self.order}"]
        return ":".join([*parts, *(["inverted"] if self.inverted else [])])

    @property
    def markers(self) -> int:
        """How many markers are printed on it."""
        return self.columns * self.rows // 2 if self.kind == "charuco" else self.columns * self.rows

    @property
    def size_m(self) -> tuple[float, float]:
        """Width and height of the pattern."""
        if self.kind == "charuco":
            return self.columns * self.square_m, self.rows * self.square_m
        step = 1 + self.ratio
        return ((self.columns - 1) * step + 1) * self.square_m, ((self.rows - 1) * step + 1) * self.square_m

    @cached_property
    def points_m(self) -> np.ndarray:
        """[P, 3] float64: inner corners row by row (charuco), or four corners a tag, tag by tag (apriltag)."""
        if self.kind == "charuco":
            x, y = np.meshgrid(np.arange(1, self.columns), np.arange(1, self.rows))
            flat = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], -1)
        else:
            x, y = np.meshgrid(np.arange(self.columns), np.arange(self.rows))
            y = y if self.order == "top" else y[::-1]
            origin = (1 + self.ratio) * np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], -1)
            flat = (origin[:, None] + [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]).reshape(-1, 3)
        return flat * self.square_m

    @cached_property
    def neighbours(self) -> np.ndarray:
        """[E, 2] pairs of points that lie one square (or tag) side apart: what a ruler would measure."""
        distance = np.linalg.norm(self.points_m[:, None] - self.points_m[None], axis=-1)
        first, second = np.nonzero(np.abs(distance - self.square_m) < 1e-6 * self.square_m)
        return np.stack([first, second], -1)[first < second]

    @property
    def marker_dictionary(self) -> cv2.aruco.Dictionary:
        """OpenCV's table of its markers."""
        return cv2.aruco.getPredefinedDictionary(dictionaries()[f"DICT_{self.dictionary}"])

    def to_opencv(self) -> cv2.aruco.Board:
        """The same board for OpenCV, in units of a square; colours and order of rows are not in it."""
        size = (self.columns, self.rows)
        if self.kind == "charuco":
            board = cv2.aruco.CharucoBoard(size, 1.0, self.ratio, self.marker_dictionary)
            board.setLegacyPattern(self.legacy)
            return board
        ids = self.first + np.arange(self.markers, dtype=np.int32).reshape(self.rows, self.columns)
        ids = ids if self.order == "top" else ids[::-1]
        return cv2.aruco.GridBoard(size, 1.0, self.ratio, self.marker_dictionary, ids.ravel())

    def picture(self, pixels_per_square: int = 100, margin_px: int = 0) -> np.ndarray:
        """uint8 [H, W], the board ready to be printed, with a margin of its ground colour."""
        width, height = (round(side / self.square_m * pixels_per_square) for side in self.size_m)
        size = (width + 2 * margin_px, height + 2 * margin_px)
        picture = self.to_opencv().generateImage(size, marginSize=margin_px)
        return 255 - picture if self.inverted else picture

    def alternatives(self) -> dict[str, Board]:
        """What a board is most often mistaken for, by what would have to be said of it."""
        found: dict[str, Board] = {"with inverted colours": replace(self, inverted=not self.inverted)}
        if self.kind == "charuco":
            found["with the other layout (legacy)"] = replace(self, legacy=not self.legacy)
            found["inverted and with the other layout (legacy)"] = replace(
                self, legacy=not self.legacy, inverted=not self.inverted
            )
        else:
            other = "bottom" if self.order == "top" else "top"
            found[f"with order={other}"] = replace(self, order=other)
            found[f"inverted and with order={other}"] = replace(self, order=other, inverted=not self.inverted)
        if self.columns != self.rows:
            turned = replace(self, columns=self.rows, rows=self.columns)
            words = f"with columns and rows exchanged ({turned.columns}x{turned.rows})"
            found[words] = turned
            found[f"inverted and {words}"] = replace(turned, inverted=not self.inverted)
            if self.kind == "charuco":
                found[f"legacy and {words}"] = replace(turned, legacy=not self.legacy)
        return found


def dictionaries() -> dict[str, int]:
    """OpenCV's marker dictionaries by name."""
    names = (name for name in dir(cv2.aruco) if name.startswith("DICT_") and not re.search(r"\d+H\d+$", name))
    return {name: getattr(cv2.aruco, name) for name in names}


def _dictionary_name(text: str) -> str:
    """The dictionary's own spelling, whatever the case and with or without prefixes."""
    plain = text.upper().removeprefix("DICT_")
    for name in dictionaries():
        own = name.removeprefix("DICT_")
        if plain in (own.upper(), own.upper().removeprefix("APRILTAG_"), own.upper().removeprefix("ARUCO_")):
            return own
    return text
