"""A real service for tests: ``recon4d serve`` in a process of its own, on a free port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

START_S = 60.0
END_S = 60.0


@dataclass(kw_only=True)
class Service:
    """A service on a data folder, which outlives it: ``start`` it again after it ended or was killed."""

    data_dir: Path
    worker: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    """By the names of ``api.Settings``; values as their variables of the environment hold them."""
    url: str = ""
    """Such as ``http://127.0.0.1:43121``."""
    process: subprocess.Popen[str] | None = None

    @property
    def log(self) -> Path:
        """What it wrote to stderr, over all its starts: JSON lines."""
        return self.data_dir.with_name(f"{self.data_dir.name}.log")

    @property
    def web_pid(self) -> int:
        assert self.process is not None, "the service does not run"
        return self.process.pid

    @property
    def worker_pids(self) -> list[int]:
        """The web process's children that do jobs."""
        return [pid for pid in children(self.web_pid) if "api.jobs" in command(pid)]

    def start(self) -> None:
        """Starts it and waits until it listens."""
        names = {f"RECON4D_{key.upper()}": str(value) for key, value in self.settings.items()}
        arguments = ["serve", "--data-dir", str(self.data_dir), "--port", "0"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "recon4d", *arguments, *([] if self.worker else ["--no-worker"])],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **names},
                start_new_session=True,
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url, f"the service did not start:\n{self.log.read_text()[-4000:]}"

    def stop(self) -> int:
        """Asks it to end, and returns its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(END_S)
        self._close()
        return code

    def kill_web(self) -> None:
        """SIGKILL to the web process alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(END_S)
        self._close()

    def kill_worker(self) -> None:
        """SIGKILL to the worker processes alone."""
        for pid in self.worker_pids:
            kill(pid)

    def kill_all(self) -> None:
        """SIGKILL to the web process and everything below it."""
        for pid in descendants(self.web_pid):
            kill(pid)
        self.kill_web()

    def client(self, **arguments: Any) -> httpx.Client:
        """A client on its address; close it."""
        return httpx.Client(base_url=self.url, timeout=60.0, **arguments)

    def _close(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None


@contextmanager
def running(data_dir: Path, *, worker: bool = True, **settings: Any) -> Iterator[Service]:
    """A started service; whatever is left of it at the end is killed.

    Args:
        data_dir: folder to make, or of an earlier service.
        worker: whether it does jobs.
        settings: fields of ``api.Settings``.
    """
    service = Service(data_dir=data_dir, worker=worker, settings=settings)
    below: dict[int, str] = {}
    try:
        service.start()
        yield service
    finally:
        if service.process is not None:
            below = {pid: command(pid) for pid in descendants(service.web_pid)}
            try:
                service.stop()
            except subprocess.TimeoutExpired:
                service.kill_web()
                raise AssertionError(f"the service did not end:\n{service.log.read_text()[-4000:]}") from None
            finally:
                for pid, line in below.items():
                    if command(pid) == line:  # Else its number may be another process's by now.
                        kill(pid)


def wait_until(condition: Any, seconds: float, what: str) -> Any:
    """Asks ``condition`` until it is true, and returns that; fails after so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come about within {seconds:g} s")


def children(pid: int) -> list[int]:
    """Processes that a process started and that live."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # It has ended meanwhile.
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(folder.name))
    return found


def descendants(pid: int) -> list[int]:
    """The same over all generations."""
    found = children(pid)
    return found + [below for child in found for below in descendants(child)]


def command(pid: int) -> str:
    """A process's command line; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def kill(pid: int) -> None:
    """SIGKILL, whether it still lives or not."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
