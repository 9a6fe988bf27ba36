"""Looking through all videos, and finding out why a board is not found."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np

from recon4d.calibrate._board import Board
from recon4d.calibrate._detect import Detector, other_dictionary
from recon4d.calibrate._sightings import Shelf, Sightings, Watcher
from recon4d.capture import Finding
from recon4d.errors import CalibrationError
from recon4d.events import Finished, OnEvent, ShouldStop, Started

_FEW = 3
"""With fewer frames of a board it is looked for as what it may have been mistaken for, too."""
_CLEARLY = 2.0
"""Another reading of the board must be found in so many times more pictures to be taken."""
_LOOKS = 12
"""Pictures in which markers of any dictionary are looked for."""
_STRANGE = 0.1
"""Share of the pictures with markers in which a marker that the board has not may be a false one."""


def survey(
    videos: Mapping[str, Path],
    board: Board,
    shelf: Shelf,
    *,
    every: int,
    findings: list[Finding],
    on_event: OnEvent,
    should_stop: ShouldStop,
) -> tuple[Board, list[Sightings]]:
    """The board as it was found, and what each video shows of it.

    Raises:
        CaptureError: a video cannot be read.
        CalibrationError: no video shows the board, or it is another board.
        OutputError: what was found cannot be kept.
        Stopped: ``should_stop`` said so.
    """
    began = time.monotonic()
    on_event(Started(stage="detect", detail=f"{len(videos)} videos, {board}"))
    watch = Watcher(every, on_event, should_stop, findings)
    probes: dict[str, tuple[np.ndarray, ...]] = {}

    def look(board: Board) -> list[Sightings]:
        found = []
        for name, path in videos.items():
            key = shelf.key(path, board)
            known = shelf.get(key)
            if known is None:
                watched = watch(name, path, board)
                known, probes[name] = watched.sightings, watched.probes
                shelf.put(key, known)
            found.append(known)
        return found

    found = look(board)
    if max(len(one.seen) for one in found) < _FEW:
        for name, path in videos.items():
            if name not in probes:
                probes[name] = watch(name, path, board).probes
        board = _another(board, probes, findings)
        found = look(board)
    _compare_markers(board, dict(zip(videos, found, strict=True)))
    for name, one in zip(videos, found, strict=True):
        findings.append(_what_was_found(name, board, one))
    on_event(Finished(stage="detect", seconds=time.monotonic() - began))
    return board, found


def _another(board: Board, probes: Mapping[str, tuple[np.ndarray, ...]], findings: list[Finding]) -> Board:
    """The board as it must have been meant, or an error that says what the pictures show."""
    greys = [grey for own in probes.values() for grey in own]
    given = _hits(board, greys)
    trials = {words: (_hits(other, greys), other) for words, other in board.alternatives().items()}
    words, (hits, other) = max(trials.items(), key=lambda item: item[1][0])
    if hits > _CLEARLY * given + 1:
        findings.append(
            Finding(
                severity="warning",
                message=f"the board is not seen as {board}, but {words} it is",
                advice=f"it is taken as {other}; give that as the board",
            )
        )
        return other
    _refuse_unseen(board, greys, trials)


def _hits(board: Board, greys: list[np.ndarray]) -> int:
    detector = Detector(board)
    return sum(len(detector(grey).points) > 0 for grey in greys)


def _refuse_unseen(board: Board, greys: list[np.ndarray], trials: Mapping[str, object]) -> NoReturn:
    if _hits(board, [np.ascontiguousarray(grey[:, ::-1]) for grey in greys]) > 1:
        raise CalibrationError(
            f"the board {board} is seen only when the pictures are mirrored: the videos are mirror images, of which no"
            " right geometry can be made. Turn off the mirror in the recording program and film again"
        )
    markers = sum(len(Detector(board)(grey).markers) > 1 for grey in greys)
    if markers > 1:
        said = f"its markers are seen, in {markers} of {len(greys)} pictures tried, but not lying as on this board"
        raise CalibrationError(
            f"the board {board} was not found: {said}. Check columns x rows (squares of a ChArUco board, tags of a tag"
            " grid) and, of a ChArUco board, that its first corner is as on the print"
        )
    other = other_dictionary(greys[:: -(-len(greys) // _LOOKS)])
    seen = f"; markers of another dictionary are seen: {other}" if other else "; no marker of any dictionary is seen"
    raise CalibrationError(
        f"the board {board} was never seen, in {len(greys)} pictures tried from all videos{seen}. Tried too:"
        f" {', '.join(trials)}. Check the dictionary, that the board is lit and sharp, and that its squares are 15"
        " pixels wide or more"
    )


def _compare_markers(board: Board, found: Mapping[str, Sightings]) -> None:
    """A board with other markers than the one described is another board, and its squares lie elsewhere."""
    width = max(len(one.markers) for one in found.values())
    counts = np.sum([np.pad(one.markers, (0, width - len(one.markers))) for one in found.values()], axis=0)
    if counts.sum() == 0:
        return
    often = np.flatnonzero(counts > _STRANGE * counts.max())
    first, last = board.first, board.first + board.markers - 1
    strange = (often < first) | (often > last)  # A few may be tags of the bench or of the robot.
    if strange.sum() >= max(3, board.markers // 4):
        raise CalibrationError(
            f"markers with numbers {often.min()} to {often.max()} are seen often, but the board {board} has {first} to"
            f" {last}: it is another board, or one with more squares. Give its true columns x rows"
        )
    never = [number for number in range(first, last + 1) if number >= width or counts[number] == 0]
    if len(never) > board.markers // 4:
        raise CalibrationError(
            f"{len(never)} of the {board.markers} markers of {board} are never seen in any video (numbers"
            f" {never[0]} to {never[-1]}): the board has fewer squares, or a part of it is always covered. Give its"
            " true columns x rows"
        )


def _what_was_found(name: str, board: Board, one: Sightings) -> Finding:
    seen, frames = len(one.seen), len(one.times_s)
    if seen == 0:
        return Finding(severity="note", message=f"the board was seen in none of {frames} frames", camera=name)
    points = len(one.frame) / seen
    return Finding(
        severity="note",
        message=f"the board was seen in {seen} of {frames} frames, with {points:.1f} of {len(board.points_m)} points",
        camera=name,
    )
