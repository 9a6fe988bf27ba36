"""The contact sheet: a look at every camera at three times, from which a person sees whether poses are right."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from recon4d.capture._examine import Examination
from recon4d.capture.poses import AXES, GRID, GROUND, OTHERS, WHITE, Colour, View, World, write
from recon4d.types import Camera

_WIDTH_PX = 480
"""Of a picture; smaller ones are made as wide."""
_GAP_PX = 6
_HEAD_PX = 64
_WORDS_PX = 120
"""Height of what stands in the place of pictures that cannot be read."""
_MOMENTS = ("start", "middle", "end")
_MANY = 5
"""With so many cameras there are two to a row."""
_DARK: Colour = (24, 24, 24)
_WRONG: Colour = (255, 40, 40)
_INEXACT: Colour = (255, 170, 40)


def contact_sheet(examination: Examination) -> np.ndarray | None:
    """Draws all cameras' pictures with the bench's grid, the world's axes and the other cameras in them.

    Where poses are right, the grid lies on the bench in every picture, and each camera stands where others mark it.
    Cameras that look wrong have a red frame, those that do not fit exactly an orange one; a camera whose video cannot
    be read has words instead of pictures.

    Returns:
        uint8 [H, W, 3] RGB; None when no camera was found at all.
    """
    if not examination.views:
        return None
    cameras = [_enlarged(view.camera) for view in examination.views]
    plane = GROUND if examination.plane is None else examination.plane
    world = World(cameras, plane)
    problems = {f.camera: f.message for f in reversed(examination.findings) if f.severity == "error" and f.camera}
    strips = [
        _strip(view, camera, world, _frame(view.name, examination), problems)
        for view, camera in zip(examination.views, cameras, strict=True)
    ]
    body = _stacked(strips, columns=2 if len(strips) >= _MANY else 1)
    return np.concatenate([_head(body.shape[1], world, examination.plane is not None), body])


def _enlarged(camera: Camera) -> Camera:
    """The camera at the width of the sheet's pictures."""
    return camera.resized(_WIDTH_PX, max(1, round(camera.height * _WIDTH_PX / camera.width)))


def _frame(name: str, examination: Examination) -> Colour | None:
    if name in examination.wrong:
        return _WRONG
    return _INEXACT if name in examination.inexact else None


def _strip(view: View, camera: Camera, world: World, frame: Colour | None, problems: Mapping[str, str]) -> np.ndarray:
    """One camera's pictures side by side."""
    if view.pictures:
        shown = zip(_moments(view), view.times_s, view.pictures, strict=True)
        tiles = [
            _tile(f"{view.name}  {moment} {time:.3f} s", picture, camera, world) for moment, time, picture in shown
        ]
    else:
        tiles = [_words(view.name, problems.get(view.name, "no picture could be read"), camera)]
    empty = np.full_like(tiles[0], _DARK)
    tiles += [empty] * (len(_MOMENTS) - len(tiles))
    strip = np.concatenate([_padded(tile) for tile in tiles], axis=1)
    if frame is not None:
        half = _GAP_PX // 2
        cv2.rectangle(strip, (half, half), (strip.shape[1] - half - 1, strip.shape[0] - half - 1), frame, _GAP_PX)
    return strip


def _moments(view: View) -> Sequence[str]:
    return _MOMENTS if len(view.pictures) == len(_MOMENTS) else [""] * len(view.pictures)


def _tile(title: str, picture: np.ndarray, camera: Camera, world: World) -> np.ndarray:
    larger = camera.width > picture.shape[1]
    method = cv2.INTER_CUBIC if larger else cv2.INTER_AREA
    tile = world.draw(cv2.resize(picture, (camera.width, camera.height), interpolation=method), camera)
    write(tile, title, (6, 20), 16, WHITE)
    return tile


def _words(name: str, problem: str, camera: Camera) -> np.ndarray:
    tile = np.full((_WORDS_PX, camera.width, 3), 45, np.uint8)
    write(tile, name, (6, 20), 16, WHITE)
    for line, text in enumerate(textwrap.wrap(problem, 58)[: (_WORDS_PX - 40) // 20]):
        write(tile, text, (6, 50 + 20 * line), 14, (255, 150, 150))
    return tile


def _padded(tile: np.ndarray) -> np.ndarray:
    return cv2.copyMakeBorder(tile, _GAP_PX, _GAP_PX, _GAP_PX, _GAP_PX, cv2.BORDER_CONSTANT, value=_DARK)


def _stacked(strips: Sequence[np.ndarray], columns: int) -> np.ndarray:
    """Strips below each other, in as many columns; each row as high as the highest in it."""
    rows: list[np.ndarray] = []
    for first in range(0, len(strips), columns):
        row = strips[first : first + columns]
        height = max(len(strip) for strip in row)
        canvas = np.full((height, columns * row[0].shape[1], 3), _DARK, np.uint8)
        for column, strip in enumerate(row):
            canvas[: len(strip), column * strip.shape[1] : (column + 1) * strip.shape[1]] = strip
        rows.append(canvas)
    return np.concatenate(rows)


def _head(width: int, world: World, plane_is_known: bool) -> np.ndarray:
    """What the marks mean."""
    head = np.full((_HEAD_PX, width, 3), _DARK, np.uint8)
    what = "bench_plane" if plane_is_known else "z = 0 (capture.json names no bench_plane)"
    at = "the world's origin" if not world.axes_at.any() else f"{world.axes_at.round(3).tolist()} m"
    write(head, f"grid on {what}, squares of {world.square_m:g} m", (8, 24), 16, GRID)
    write(
        head,
        "it lies on the bench where poses are right; frames: red looks wrong, orange not exact",
        (width // 2, 24),
        16,
        WHITE,
    )
    x = 8
    for axis, colour in zip("xyz", AXES, strict=True):
        write(head, axis, (x, 52), 16, colour)
        x += 18
    write(head, f"axes at {at}, a dot every {world.square_m:g} m", (x + 6, 52), 16, WHITE)
    write(head, "yellow dots: the other cameras", (width // 2, 52), 16, OTHERS)
    return head
