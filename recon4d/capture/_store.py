"""Decoded frames on disk: written while decoding, read as a memory map, kept for the next run.

A frame cache is a folder ``frames/`` with one raw file of uint8 [F, H, W, 3] per camera and ``index.json``. It is
written beside its final place and moved there as the last step, so a cache that exists is complete.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from recon4d.capture._findings import Finding
from recon4d.capture._watch import Looks
from recon4d.errors import OutputError

_FOLDER = "frames"
_INDEX = "index.json"
_VERSION = 2
"""To be raised whenever the same capture would decode to other frames."""


@dataclass(frozen=True, kw_only=True)
class StoredClip:
    """One camera's decoded frames."""

    camera: str
    file: str
    shape: tuple[int, int, int, int]
    times: np.ndarray
    """[F] float64, seconds on the original clock."""
    looks: Looks


@dataclass(frozen=True, kw_only=True)
class Stored:
    """All cameras' decoded frames, and what was found while decoding them."""

    folder: Path
    clips: tuple[StoredClip, ...]
    findings: tuple[Finding, ...]

    @property
    def bytes(self) -> int:
        return sum(int(np.prod(clip.shape)) for clip in self.clips)

    def frames(self, clip: StoredClip, *, in_memory: bool) -> np.ndarray:
        """uint8 [F, H, W, 3], read-only: a copy in memory, or a view of the file."""
        path = self.folder / clip.file
        if in_memory:
            array = np.fromfile(path, np.uint8).reshape(clip.shape)
            array.flags.writeable = False
            return array
        return np.asarray(np.memmap(path, np.uint8, mode="r", shape=clip.shape))


class Spool:
    """Takes frames while they are decoded; memory stays constant. Left early, it removes what it wrote.

    A work folder belongs to one run at a time: what a run that was killed left there is cleared away.

    Raises:
        OutputError: the folder cannot be written, or the disk is full.
    """

    def __init__(self, workdir: Path | None) -> None:
        self._workdir = workdir
        self._file: IO[bytes] | None = None
        self._done = False
        try:
            if workdir is not None:
                self.folder = workdir / f"{_FOLDER}.partial"
                if self.folder.exists():
                    shutil.rmtree(self.folder)
                self.folder.mkdir(parents=True)
            else:
                self.folder = Path(tempfile.mkdtemp(prefix="recon4d-frames-"))
        except OSError as error:
            raise OutputError(
                f"decoded frames cannot be written to '{workdir or tempfile.gettempdir()}': {error.strerror};"
                " give a folder that can be written"
            ) from error

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if not self._done:
            shutil.rmtree(self.folder, ignore_errors=True)

    def begin(self, file: str) -> None:
        """Starts the next camera's file."""
        self._close()
        self._file = (self.folder / file).open("wb")

    def write(self, frame: np.ndarray) -> None:
        assert self._file is not None
        try:
            self._file.write(frame.data if frame.flags.c_contiguous else np.ascontiguousarray(frame).data)
        except OSError as error:
            raise self._full(error) from error

    def finish(self, input_hash: str, clips: Iterable[StoredClip], findings: Iterable[Finding]) -> Stored:
        """Closes the files and, in a work folder, puts the cache in its place."""
        try:
            self._close()
            stored = Stored(folder=self.folder, clips=tuple(clips), findings=tuple(findings))
            if self._workdir is not None:
                (self.folder / _INDEX).write_text(json.dumps(_index(stored, input_hash)), "utf-8")
                final = self._workdir / _FOLDER
                if final.exists():
                    shutil.rmtree(final)
                os.replace(self.folder, final)
                stored = Stored(folder=final, clips=stored.clips, findings=stored.findings)
        except OSError as error:
            raise self._full(error) from error
        self._done = True
        return stored

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _full(self, error: OSError) -> OutputError:
        return OutputError(
            f"decoded frames cannot be written to '{self.folder}': {error.strerror or error}; raw video is large:"
            " make room, or give a work folder on a larger disk"
        )


def open_stored(workdir: Path, input_hash: str) -> Stored | None:
    """The finished cache of an earlier run with the same input, or None."""
    folder = workdir / _FOLDER
    try:
        index = json.loads((folder / _INDEX).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise OutputError(f"the frame cache '{folder}' is damaged ({error}); remove that folder") from error
    if (index.get("version"), index.get("input_hash")) != (_VERSION, input_hash):
        return None
    clips = tuple(
        StoredClip(
            camera=c["camera"],
            file=c["file"],
            shape=tuple(c["shape"]),
            times=np.array(c["times"], np.float64),
            looks=Looks(**{**c["looks"], "bench": np.array(c["looks"]["bench"], np.float64).reshape(-1, 3)}),
        )
        for c in index["clips"]
    )
    for clip in clips:
        path = folder / clip.file
        if not path.exists() or path.stat().st_size != np.prod(clip.shape):
            raise OutputError(f"the frame cache '{folder}' is damaged ({clip.file} is not whole); remove that folder")
    return Stored(folder=folder, clips=clips, findings=tuple(Finding(**f) for f in index["findings"]))


def _index(stored: Stored, input_hash: str) -> dict:
    return {
        "version": _VERSION,
        "input_hash": input_hash,
        "clips": [
            {**vars(c), "times": c.times.tolist(), "looks": {**vars(c.looks), "bench": c.looks.bench.tolist()}}
            for c in stored.clips
        ],
        "findings": [asdict(f) for f in stored.findings],
    }
