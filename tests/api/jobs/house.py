"""The service's data folder, its tables, and processes that work on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from api.database import Database
from api.ids import fresh
from api.jobs import ENDED, KINDS, Jobs
from api.settings import Settings
from api.tables import Capture, CaptureFile, Job

OPTIONS: dict[str, Any] = {
    "fit.static.count": 800,
    "fit.static.steps": 60,
    "fit.seeds.count": 400,
    "fit.joint.steps": 220,
    "fit.joint.checkpoint_every": 100,
    "videos": False,
}
"""A reconstruction of a second or two."""
PATIENCE_S = 240.0
"""Nothing here takes so long; a test that waits longer has failed."""


class House:
    """A data folder and its workers, which end with it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.settings = Settings(data_dir=folder, lease_s=4.0, **settings)
        self.database = Database(self.settings.database)
        self.jobs = Jobs(self.database, self.settings)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> House:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self.database.close()

    def worker(self, environ: Mapping[str, str] = os.environ) -> subprocess.Popen[bytes]:
        """Starts a worker process."""
        environ = {**environ, **self.settings.variables()}
        command = [sys.executable, "-m", "api.jobs", "--parent", str(os.getpid())]
        worker = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL)
        self._processes.append(worker)
        return worker

    def attempt(self, job_id: str) -> subprocess.Popen[bytes]:
        """Takes a job, which must be the next one, and starts the process that a worker would start."""
        job = self.jobs.claim(tuple(KINDS), self.settings.slots[0])
        assert job is not None
        assert job.id == job_id
        process = subprocess.Popen(
            [sys.executable, "-m", "api.jobs", "attempt", job.id, str(job.owner)],
            env=os.environ | self.settings.variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def capture(self, source: Path) -> str:
        """Takes a capture folder up, as uploads and a calibration would."""
        manifest = json.loads((source / "capture.json").read_text("utf-8"))
        cameras = {camera.pop("name"): camera for camera in manifest.pop("cameras")}
        row = Capture(id=fresh("cap"), name="tiny", rig=cameras, extras={"heldout": manifest["heldout"]})
        row.extras["bench_plane"] = manifest["bench_plane"]
        files = []
        for name, camera in cameras.items():
            path = source / camera.pop("video")
            stored = Path("captures") / row.id / f"{fresh('fil')}.mp4"
            (self.settings.data_dir / stored).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.settings.data_dir / stored)
            files.append(
                CaptureFile(
                    id=stored.stem,
                    capture_id=row.id,
                    camera=name,
                    kind="video",
                    filename=path.name,
                    stored=stored.as_posix(),
                    size=path.stat().st_size,
                    sha256="",
                )
            )
        with self.database.writing() as session:
            session.add(row)
            session.flush()
            session.add_all(files)
        return row.id

    def reconstruct(
        self, capture: str, *, continues: str | None = None, slot: str | None = None, **options: Any
    ) -> Job:
        """Queues a tiny reconstruction; options have ``__`` for their dots."""
        changed = {name.replace("__", "."): value for name, value in options.items()}
        request = {"preset": "fast", "options": OPTIONS | changed, "slot": slot, "heldout_cameras": None}
        return self.jobs.submit("reconstruct", capture, request, name="tiny", continues=continues)

    def until(self, job_id: str, is_so: Callable[[Job], bool]) -> Job:
        """Waits until something is so of a job, which must not end otherwise."""
        limit = time.monotonic() + PATIENCE_S
        while not is_so(job := self.jobs.get(job_id)):
            log = self.jobs.folder(job_id) / "log.txt"
            said = log.read_text() if log.exists() else ""
            assert job.state not in ENDED, f"{job.state}: {job.error}\n{said}"
            assert time.monotonic() < limit, f"{job.state}, {job.stage}\n{said}"
            time.sleep(0.02)
        return job

    def ended(self, job_id: str, state: str) -> Job:
        """Waits until a job has ended so."""
        return self.until(job_id, lambda job: job.state == state)

    def events(self, job_id: str) -> list[dict[str, Any]]:
        """What a job has said, whose numbers have no gaps."""
        rows = self.jobs.events(job_id, 0, 100_000)
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        return [row.data for row in rows]

    def states(self, job_id: str) -> list[str]:
        """The states that a job went through."""
        return [event["state"] for event in self.events(job_id) if event["event"] == "state"]

    def attempt_process(self, job_id: str) -> int:
        """The process of a job's attempt."""
        text = (self.jobs.folder(job_id) / ".lock").read_text()
        return int(text)


def kill(process: int) -> None:
    """Ends a process without asking it."""
    os.kill(process, signal.SIGKILL)


def is_alive(process: int) -> bool:
    """Whether a process runs; one that only waits to be asked for its exit code does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
