"""The output folder of one reconstruction: its lock, its stages' results, its log of events."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import resource
import sys
from io import FileIO
from pathlib import Path
from typing import Any, TextIO

from recon4d import __version__
from recon4d.errors import OutputError
from recon4d.events import Event, OnEvent, to_json

_MARK = "run.json"
_KNOWN = {_MARK, "scene.json", "events.jsonl", "work", ".lock"}


class RunFolder:
    """An output folder, held by this process while used as a context.

    Raises (on entering):
        OutputError: another run holds it, it cannot be written, or it holds something else.
    """

    def __init__(self, path: Path, on_event: OnEvent) -> None:
        self.path = path
        self.work = path / "work"
        self.peak_anonymous_mib = 0.0
        self._on_event = on_event
        self._lock: TextIO | None = None
        self._log: FileIO | None = None

    def __enter__(self) -> RunFolder:
        try:
            self._claim()
        except OSError as error:
            self._close()
            raise OutputError(
                f"cannot write to the output folder {self.path}: {error.strerror or error}; choose another with --out"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        for file in (self._log, self._lock):
            if file is not None:
                file.close()

    @property
    def has_run(self) -> bool:
        return (self.path / _MARK).exists()

    def emit(self, event: Event) -> None:
        """Appends the event to ``events.jsonl`` and passes it on."""
        assert self._log is not None
        try:
            self._log.write((json.dumps(to_json(event)) + "\n").encode())
        except OSError as error:
            raise OutputError(f"cannot write {self.path / 'events.jsonl'}: {error.strerror or error}") from error
        self.peak_anonymous_mib = max(self.peak_anonymous_mib, anonymous_mib())
        self._on_event(event)

    def events(self) -> list[dict[str, Any]]:
        """All events of all runs in this folder; a line that a crash cut short is left out."""
        events = []
        for line in (self.path / "events.jsonl").read_text().splitlines():
            try:
                events.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return events

    def _claim(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        strangers = [entry.name for entry in self.path.iterdir() if not entry.name.startswith(".")]
        if strangers and not self.has_run:
            raise OutputError(
                f"the output folder {self.path} holds other files ({', '.join(sorted(strangers)[:3])}…) and no earlier"
                " run; nothing was changed. Choose an empty or new folder with --out"
            )
        self._lock = open(self.path / ".lock", "w")  # noqa: SIM115 - held until __exit__.
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise OutputError(
                f"another run is using the output folder {self.path}; wait for it, or choose another with --out"
            ) from None
        # First of all files: without it, what a run that was killed here left would be taken for somebody else's.
        (self.path / _MARK).write_text(json.dumps({"format": "recon4d-run", "software": __version__}))
        self.work.mkdir(exist_ok=True)
        # Unbuffered: a line that finds the disk full must not be tried again on closing.
        self._log = open(self.path / "events.jsonl", "ab", buffering=0)  # noqa: SIM115 - held until __exit__.


def digest(*parts: Any) -> str:
    """A hash of JSON-able values: the key of what depends on them."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def anonymous_mib() -> float:
    """Anonymous memory of this process now, MiB: what cannot be dropped or read back from a file."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) / 1024
    except FileNotFoundError:  # Not Linux: the resident set is an upper bound.
        pass
    return peak_resident_mib()


def peak_resident_mib() -> float:
    """Largest resident set of this process so far, MiB, file pages included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def free_bytes(path: Path) -> int:
    """Free space of the disk that holds a folder."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize
