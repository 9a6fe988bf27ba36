"""Finding a board's points in pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from recon4d.calibrate._board import Board, dictionaries

LEAST_POINTS = 6
"""A view with fewer points of the board is not used: a pose from four is exact, and exactly wrong when one is."""

_GROSS = 0.05
"""A point further than this share of the board's extent from the best homography is no point of the board. Strong
distortion stays well below."""
_MOST = 0.7
"""Where fewer of the points lie as they should, it is another board that happens to share a row with this one."""
_PATCH_PX = 6
"""Half the side of the neighbourhood in which an edge's width is measured."""
_FAMILIES = (
    *("4X4_1000", "5X5_1000", "6X6_1000", "7X7_1000", "ARUCO_ORIGINAL", "ARUCO_MIP_36h12"),
    *("APRILTAG_16h5", "APRILTAG_25h9", "APRILTAG_36h10", "APRILTAG_36h11"),
)
"""Dictionaries of which all others are the beginning."""


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What one picture shows of the board."""

    points: np.ndarray
    """[n] int, numbers of the board's points."""
    pixels: np.ndarray
    """[n, 2] float64, pixel centres at 0.5."""
    sharpness: float
    """Steepness of edges, 1 / px: about 0.4 for a crisp picture, 0.1 for edges that are 10 px wide."""
    markers: np.ndarray
    """[m] int, numbers of all markers of the dictionary that were seen."""


class TagFinder:
    """Finds single markers of a dictionary, with corners where the edges of their frames meet.

    A corner of a black square on white has nothing on its other side for a usual refinement to balance: it is drawn
    inwards by 0.2 to 0.5 px. Lines through the edges are not (Olson 2011, "AprilTag"), but take longer to fit, so only
    the part of the picture is looked at in which markers were found.
    """

    def __init__(self, dictionary: cv2.aruco.Dictionary) -> None:
        self._quick = cv2.aruco.ArucoDetector(dictionary)
        parameters = cv2.aruco.DetectorParameters()
        parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_APRILTAG
        self._exact = cv2.aruco.ArucoDetector(dictionary, parameters)

    def __call__(self, grey: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers [m] and corners [m, 4, 2], clockwise from the top left of the print, pixel centres at 0.5."""
        nothing = np.zeros(0, int), np.zeros((0, 4, 2))
        corners, ids, _ = self._quick.detectMarkers(grey)
        if ids is None:
            return nothing
        around = np.concatenate([corner.reshape(4, 2) for corner in corners])
        margin = 0.1 * float(np.ptp(around, axis=0).max()) + 20
        x0, y0 = np.maximum(np.floor(around.min(0) - margin), 0).astype(int)
        x1, y1 = np.ceil(around.max(0) + margin).astype(int)
        corners, ids, _ = self._exact.detectMarkers(np.ascontiguousarray(grey[y0:y1, x0:x1]))
        if ids is None:
            return nothing
        # This method alone has pixel centres at 0.5 by itself.
        return ids.ravel().astype(int), np.stack([corner.reshape(4, 2) for corner in corners]) + np.array(
            [x0, y0], float
        )


class Detector:
    """Finds one board in grey pictures."""

    def __init__(self, board: Board) -> None:
        self._board = board
        opencv = board.to_opencv()
        self._charuco = cv2.aruco.CharucoDetector(opencv) if isinstance(opencv, cv2.aruco.CharucoBoard) else None
        self._markers = cv2.aruco.ArucoDetector(board.marker_dictionary)
        self._tags = TagFinder(board.marker_dictionary)

    def __call__(self, grey: np.ndarray) -> Sight:
        """uint8 [H, W] to what it shows; no points when the board is not there."""
        picture = 255 - grey if self._board.inverted else grey
        markers, points, pixels = self._corners(picture) if self._charuco else self._tag_corners(picture)
        points, pixels = self._agreeing(points, pixels)
        return Sight(points=points, pixels=pixels, sharpness=_sharpness(grey, pixels), markers=markers)

    def _corners(self, picture: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Markers, and corners of a ChArUco board, which lie between them."""
        assert self._charuco is not None
        corners, ids, _ = self._markers.detectMarkers(picture)
        markers = np.zeros(0, int) if ids is None else ids.ravel().astype(int)
        nothing = markers, np.zeros(0, int), np.zeros((0, 2))
        if ids is None:
            return nothing
        try:
            found, numbers, _, _ = self._charuco.detectBoard(picture, None, None, corners, ids)
        except cv2.error:  # Markers that lie as no picture of the board can have them make it divide by zero.
            return nothing
        if found is None or numbers is None:
            return nothing
        return markers, numbers.ravel().astype(int), found.reshape(-1, 2).astype(np.float64) + 0.5

    def _tag_corners(self, picture: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Markers, and the corners of those that the board has once."""
        markers, corners = self._tags(picture)
        number = markers - self._board.first
        own = np.array([0 <= n < self._board.markers and (number == n).sum() == 1 for n in number], bool)
        points = (4 * number[own][:, None] + np.arange(4)).ravel()
        return markers, points, corners[own].reshape(-1, 2)

    def _agreeing(self, points: np.ndarray, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The points that lie as points of one flat board do; none when these are too few or on one line."""
        nothing = np.zeros(0, int), np.zeros((0, 2))
        if len(points) < LEAST_POINTS:
            return nothing
        flat = self._board.points_m[points, :2]
        if np.linalg.svd(flat - flat.mean(0), compute_uv=False)[1] < 0.5 * self._board.square_m:
            return nothing
        extent = float(np.ptp(pixels, axis=0).max())
        H, good = cv2.findHomography(flat, pixels, cv2.RANSAC, max(3.0, _GROSS * extent))
        if H is None:
            return nothing
        keep = good.ravel().astype(bool)
        enough = keep.sum() >= LEAST_POINTS and keep.mean() >= _MOST
        return (points[keep], pixels[keep]) if enough else nothing


def _sharpness(grey: np.ndarray, pixels: np.ndarray) -> float:
    """Median over the points of the steepest slope nearby over the range of grey there, 1 / px."""
    values = []
    for x, y in np.floor(pixels).astype(int):
        patch = grey[max(y - _PATCH_PX, 0) : y + _PATCH_PX + 1, max(x - _PATCH_PX, 0) : x + _PATCH_PX + 1]
        if min(patch.shape) < 3:
            continue
        fine = patch.astype(np.float32)
        slope = np.hypot(fine[1:-1, 2:] - fine[1:-1, :-2], fine[2:, 1:-1] - fine[:-2, 1:-1]) / 2
        dark, bright = np.percentile(fine, (5, 95))
        values.append(float(slope.max() / max(bright - dark, 1.0)))
    return float(np.median(values)) if values else 0.0


def other_dictionary(greys: Sequence[np.ndarray]) -> str:
    """Which markers the pictures show, over all dictionaries and both colourings, in words; empty when none."""
    best: tuple[int, str] = (0, "")
    for name in _FAMILIES:
        detector = cv2.aruco.ArucoDetector(cv2.aruco.getPredefinedDictionary(dictionaries()[f"DICT_{name}"]))
        for inverted in (False, True):
            seen: Counter[int] = Counter()
            for grey in greys:
                _, ids, _ = detector.detectMarkers(255 - grey if inverted else grey)
                seen.update([] if ids is None else [int(number) for number in ids.ravel()])
            often = [marker for marker, count in seen.items() if count > 1]
            score = sum(seen[marker] for marker in often)
            if len(often) > 1 and score > best[0]:
                colours = ", inverted" if inverted else ""
                best = (score, f"{name}{colours} (numbers {min(often)} to {max(often)})")
    return best[1]
