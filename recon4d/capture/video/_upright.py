"""Stored pictures to pictures as they are meant to be seen: turned, mirrored, and of the calibration's size."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import cv2
import numpy as np

from recon4d.capture._findings import Subject
from recon4d.types import Camera

Linear = tuple[int, int, int, int]
"""a, b, c, d of a display matrix: x' = a x + c y and y' = b x + d y (ISO/IEC 14496-12, 6.2.2)."""

_WORDS: dict[Linear, str] = {
    (1, 0, 0, -1): "mirrored upside down",
    (-1, 0, 0, 1): "mirrored left to right",
    (-1, 0, 0, -1): "turned by 180 degrees",
    (0, 1, -1, 0): "turned by 90 degrees clockwise",
    (0, -1, 1, 0): "turned by 90 degrees counter-clockwise",
    (0, 1, 1, 0): "mirrored along the diagonal",
    (0, -1, -1, 0): "mirrored along the other diagonal",
}
"""The eight orientations but the plain one."""
_PLAIN: Linear = (1, 0, 0, 1)
_ASPECT_TOLERANCE = 0.03


class Upright:
    """Brings every picture of one video to the size and orientation that its calibration means.

    Turning and mirroring are told by the file's metadata, and undone here once. Pixels that are not square stay as
    they are stored: so they were when the camera was calibrated from such pictures, and then K's two focal lengths
    differ. Only when the calibration's size is that of the picture with square pixels are they resampled to it.
    """

    def __init__(self, pixel: Fraction, camera: Camera | None, video: Subject) -> None:
        """
        Args:
            pixel: Width of a stored pixel over its height.
            camera: As calibrated; None when any size will do.
            video: Where findings go to.
        """
        self._pixel = pixel
        self._camera = camera
        self._video = video
        self._told: _Look | None = None
        self._count = 0

    def __call__(self, rgb: np.ndarray, matrix: bytes | None) -> np.ndarray:
        """uint8 [H, W, 3] as stored, and the display matrix of this frame where it has one."""
        look = _Look(stored=(rgb.shape[1], rgb.shape[0]), linear=self._linear(matrix), pixel=self._pixel)
        size = self._size(look)
        if look != self._told:
            self._told = look
            self._tell(look, size)
        self._count += 1
        picture = turned(rgb, look.linear)
        if size == look.size:
            return picture
        shrinks = size[0] * size[1] < look.size[0] * look.size[1]
        return cv2.resize(picture, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)

    def _linear(self, matrix: bytes | None) -> Linear:
        if matrix is None:
            return _PLAIN
        # Nine 32-bit numbers, the first two columns with 16 fractional bits; the picture's axes map by a, b, c, d.
        numbers = np.frombuffer(matrix, np.int32)[[0, 1, 3, 4]] / 65536
        for linear in (_PLAIN, *_WORDS):
            if np.abs(numbers - linear).max() < 1e-3:
                return linear
        self._video.error(
            f"is to be shown turned at an angle or scaled (display matrix {numbers.round(4).tolist()})",
            "only quarter turns and mirrors are undone; write the video again without it",
        )

    def _size(self, look: _Look) -> tuple[int, int]:
        """The size to bring a stored picture to."""
        if self._camera is None:
            return look.size
        meant = (self._camera.width, self._camera.height)
        if meant == look.size or (look.aspect != 1 and meant in look.square_sizes):
            return meant
        self._video.error(
            f"frame {self._count} is {look.size[0]}x{look.size[1]}, the calibration is for {meant[0]}x{meant[1]}",
            _way_out(look, meant),
            calibration=True,
        )

    def _tell(self, look: _Look, size: tuple[int, int]) -> None:
        """Says what is done, once for each kind of picture."""
        if look.linear != _PLAIN:
            self._video.note(
                f"is shown {_WORDS[look.linear]}, as its metadata says", "calibrate on pictures turned this way"
            )
        if look.aspect == 1:
            return
        shape = f"its pixels are not square ({look.aspect.numerator}:{look.aspect.denominator})"
        if size != look.size:
            self._video.note(f"{shape}; it is resampled to the calibration's {size[0]}x{size[1]}")
            return
        self._video.note(f"{shape}; they are used as stored, {size[0]}x{size[1]}", "calibrate on such pictures")
        if self._camera is None:
            return
        focal, expected = self._camera.K[0, 0] / self._camera.K[1, 1], float(1 / look.aspect)
        if abs(focal / expected - 1) > _ASPECT_TOLERANCE:
            self._video.warn(
                f"{shape}, so fx / fy should be about {expected:.3f}; K has {focal:.3f}",
                "check that the camera was calibrated on pictures as they are stored",
            )


@dataclass(frozen=True)
class _Look:
    """How one stored picture is to be looked at."""

    stored: tuple[int, int]
    """Width and height."""
    linear: Linear
    pixel: Fraction
    """Width of a stored pixel over its height."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height once turned."""
        width, height = self.stored
        return (width, height) if self.linear[0] else (height, width)

    @property
    def aspect(self) -> Fraction:
        """Width of a pixel over its height once turned."""
        return self.pixel if self.linear[0] else 1 / self.pixel

    @property
    def square_sizes(self) -> tuple[tuple[int, int], ...]:
        """Sizes with square pixels: most players make a picture wider or narrower, some lower or higher."""
        width, height = self.size
        return (round(width * self.aspect), height), (width, round(height / self.aspect))


def turned(rgb: np.ndarray, linear: Linear) -> np.ndarray:
    """[H, W, 3] under one of the eight orientations."""
    a, b, c, d = linear
    if linear == _PLAIN:
        return rgb
    if not a:
        rgb = rgb.transpose(1, 0, 2)
    return np.ascontiguousarray(rgb[:: -1 if b + d < 0 else 1, :: -1 if a + c < 0 else 1])


def _way_out(look: _Look, meant: tuple[int, int]) -> str:
    """What to do about a size that is not the calibration's, by what most likely happened."""
    if meant == look.stored:
        return (
            "that is the picture as stored, before it is turned upright as the file's metadata says; calibrate on"
            " upright pictures, or take the metadata away: ffmpeg -display_rotation 0 -i IN -c copy OUT"
        )
    if meant == look.size[::-1]:
        return "width and height are swapped; calibrate on the pictures as players show them"
    across, down = look.size[0] / meant[0], look.size[1] / meant[1]
    if abs(across / down - 1) < 0.01:
        return (
            f"calibrate at the video's size; if the calibrated picture was the same one scaled by {1 / across:.6g},"
            f" multiply K's first two rows by {across:.6g}, and set width and height"
        )
    return "the shapes differ, so it was cropped, or is another video; calibrate at the video's size"
