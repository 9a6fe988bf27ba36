"""Where each video shows the board, frame by frame; kept in a file so that a second look is quick."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path

import cv2
import numpy as np

from recon4d.calibrate._board import Board
from recon4d.calibrate._detect import Detector, Sight
from recon4d.capture import Finding, frames
from recon4d.errors import Stopped
from recon4d.events import OnEvent, Progress, ShouldStop
from recon4d.files import replacing

_STAGE = "detect"
_VERSION = 1
"""Of what is kept: raised when a detector finds other points than before."""
_PROBES = 16
"""How many pictures of a video are kept, spread over it, for a look with other eyes."""


@dataclass(frozen=True, kw_only=True)
class Sightings:
    """All that one camera saw of the board: flat arrays over points, and arrays over frames."""

    width: int
    height: int
    times_s: np.ndarray
    """[F] float64, presentation times; NaN where the container has none."""
    sharpness: np.ndarray
    """[F] float64, 1 / px; 0 where the board was not seen."""
    frame: np.ndarray
    """[n] int, ascending."""
    point: np.ndarray
    """[n] int, numbers of the board's points."""
    pixel: np.ndarray
    """[n, 2] float64, pixel centres at 0.5."""
    markers: np.ndarray
    """[M] int, by number of a marker how many frames show it, whether the board has it or not."""

    @property
    def seen(self) -> np.ndarray:
        """Frames in which the board was seen, ascending."""
        return np.unique(self.frame)

    def at(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """Points and pixels of one frame."""
        first, last = np.searchsorted(self.frame, (frame, frame + 1))
        return self.point[first:last], self.pixel[first:last]


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A video looked through: what it shows, and a few of its pictures where it was decoded just now."""

    sightings: Sightings
    probes: tuple[np.ndarray, ...]
    """Grey pictures spread over the video."""


class Watcher:
    """Looks through videos for one board and says how far it is.

    Args:
        every: Only each so many frames are searched.
        on_event: Gets ``Progress`` of the stage "detect".
        should_stop: Asked between frames.
        findings: What decoding had to say is added here.
    """

    def __init__(self, every: int, on_event: OnEvent, should_stop: ShouldStop, findings: list[Finding]) -> None:
        self._every = every
        self._on_event = on_event
        self._should_stop = should_stop
        self._findings = findings
        self._step = 0

    def __call__(self, camera: str, video: Path, board: Board) -> Watched:
        """Every frame of a video, to its end.

        Raises:
            CaptureError: the video cannot be read to its end.
            Stopped: ``should_stop`` said so.
        """
        detector, probes = Detector(board), _Probes()
        times: list[float] = []
        sights: dict[int, Sight] = {}
        size = (0, 0)
        with closing(frames(video, camera=camera, on_finding=self._findings.append)) as decoded:
            for index, (time_s, picture) in enumerate(decoded):
                if self._should_stop():
                    raise Stopped("stopped while looking for the board; nothing is kept of this video")
                times.append(np.nan if time_s is None else time_s)
                size = (picture.shape[1], picture.shape[0])
                if index % self._every == 0:
                    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
                    probes.offer(grey)
                    sights[index] = detector(grey)
                self._tick(camera)
        return Watched(sightings=_gather(sights, times, size), probes=tuple(probes.kept))

    def _tick(self, camera: str) -> None:
        self._step += 1
        if self._step % 50 == 0:
            self._on_event(Progress(stage=_STAGE, step=self._step, total=self._step))


class _Probes:
    """Keeps up to so many pictures, evenly spread over a video whose length is not known."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []
        self._stride = 1
        self._offered = 0

    def offer(self, grey: np.ndarray) -> None:
        if self._offered % self._stride == 0:
            self.kept.append(grey)
            if len(self.kept) > 2 * _PROBES:
                self.kept = self.kept[::2]
                self._stride *= 2
        self._offered += 1


def _gather(sights: Mapping[int, Sight], times: list[float], size: tuple[int, int]) -> Sightings:
    shown = {index: sight for index, sight in sights.items() if len(sight.points)}
    sharpness = np.zeros(len(times))
    sharpness[list(shown)] = [sight.sharpness for sight in shown.values()]
    markers = [np.unique(sight.markers) for sight in sights.values()]
    return Sightings(
        width=size[0],
        height=size[1],
        times_s=np.array(times, np.float64),
        sharpness=sharpness,
        frame=np.repeat(np.array(list(shown), int), [len(sight.points) for sight in shown.values()]),
        point=np.concatenate([np.zeros(0, int), *(sight.points for sight in shown.values())]),
        pixel=np.concatenate([np.zeros((0, 2)), *(sight.pixels for sight in shown.values())]),
        markers=np.bincount(np.concatenate([np.zeros(0, int), *markers])),
    )


class Shelf:
    """Sightings of earlier runs, in one file, by content of the video and by board.

    A file that is damaged or of another version counts as empty: what it held is computed again.
    """

    def __init__(self, path: Path | None, every: int) -> None:
        self._path = path
        self._every = every
        self._known: dict[str, Sightings] = {}
        if path is not None and path.is_file():
            self._known = _read(path)

    def key(self, video: Path, board: Board) -> str:
        with video.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return f"{_VERSION}|{digest}|{board}|{self._every}"

    def get(self, key: str) -> Sightings | None:
        return self._known.get(key)

    def put(self, key: str, sightings: Sightings) -> None:
        """Adds one and writes the file.

        Raises:
            OutputError: it cannot be written.
        """
        self._known[key] = sightings
        if self._path is None:
            return
        arrays: dict[str, np.ndarray] = {}
        for number, one in enumerate(self._known.values()):
            arrays |= {f"{number}.{field.name}": np.asarray(getattr(one, field.name)) for field in fields(one)}
        arrays["keys"] = np.array(json.dumps(list(self._known)))
        with replacing(self._path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)


def _read(path: Path) -> dict[str, Sightings]:
    try:
        with path.open("rb") as archive, np.load(archive, allow_pickle=False) as file:
            known = {}
            for number, key in enumerate(json.loads(str(file["keys"]))):
                values = {field.name: file[f"{number}.{field.name}"] for field in fields(Sightings)}
                values |= {"width": int(values["width"]), "height": int(values["height"])}
                known[str(key)] = Sightings(**values)
            return known
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}
