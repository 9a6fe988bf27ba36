"""The worker: takes jobs off the queue, one for each slot, and gives every attempt a process of its own."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from sqlalchemy.exc import SQLAlchemyError

from api.database import Database
from api.jobs._kinds import HOST, KINDS, kinds_on
from api.jobs._store import Jobs, Lease, LeaseLost
from api.settings import Settings

POLL_S = 0.2
"""Between two looks at the queue and at running jobs."""
STOP_S = 10.0
"""An attempt that was asked to stop and has not after so long is killed."""

_log = logging.getLogger("api.jobs")


def worker_main(settings: Settings, parent: int | None = None) -> int:
    """Does jobs until SIGTERM or SIGINT, and returns the process's exit code.

    Jobs that run when the end comes stop at their next step and go back into the queue. A worker that is killed takes
    its attempts' processes with it; their jobs are taken up by another worker once their leases have run out.

    Args:
        parent: id of the process that started this one; when it is gone, the worker ends too.
    """
    worker = _Worker(settings, parent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    worker.run()
    return 0


@dataclass
class _Running:
    """An attempt's process."""

    lease: Lease
    process: subprocess.Popen[bytes]
    stops: bool
    renew_at: float
    kill_at: float | None = None
    """When patience ends with a process that was asked to stop."""
    for_shutdown: bool = False

    def ask_to_stop(self) -> None:
        if self.kill_at is None:
            self.kill_at = time.monotonic() + (STOP_S if self.stops else 0.0)
            self.process.terminate()

    def kill(self) -> None:
        """Ends the process and whatever it started."""
        with suppress(ProcessLookupError, PermissionError):  # Nobody may be left.
            os.killpg(self.process.pid, signal.SIGKILL)


@dataclass
class _Lane:
    """A slot, which one worker at a time may use, and the attempt that runs on it."""

    slot: str
    lock: Path
    held: IO[str] | None = None
    running: _Running | None = None

    def hold(self) -> bool:
        """Whether the slot is this worker's."""
        if self.held is None:
            self.lock.parent.mkdir(parents=True, exist_ok=True)
            file = open(self.lock, "w")  # noqa: SIM115 - held as long as the worker lives.
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return False
            self.held = file
        return True


@dataclass
class _Worker:
    settings: Settings
    parent: int | None
    _stopping: bool = False
    _bury_at: float = 0.0
    _lanes: list[_Lane] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._jobs = Jobs(Database(self.settings.database), self.settings)
        folder = self.settings.data_dir / "slots"
        for number, slot in enumerate((*self.settings.slots, HOST)):
            self._lanes.append(_Lane(slot=slot, lock=folder / f"{number}-{slot.replace(':', '-')}.lock"))

    def stop(self) -> None:
        """Takes no more jobs, and asks those that run to stop."""
        self._stopping = True

    def run(self) -> None:
        _log.info("worker ready", extra={"slots": list(self.settings.slots), "swept": self._jobs.sweep()})
        while not self._stopping or any(lane.running for lane in self._lanes):
            if self.parent is not None and os.getppid() != self.parent:
                self._stopping = True
            try:
                self._turn()
            except SQLAlchemyError:
                _log.exception("the database cannot be used at the moment")
            time.sleep(POLL_S)

    def _turn(self) -> None:
        if time.monotonic() >= self._bury_at and not self._stopping:
            self._bury_at = time.monotonic() + self.settings.lease_s / 4
            for job_id in self._jobs.bury():
                _log.warning("job %s was left behind by its worker", job_id)
        for lane in self._lanes:
            if lane.running is not None:
                self._watch(lane, lane.running)
            if lane.running is None and not self._stopping and lane.hold():
                self._start(lane)

    def _start(self, lane: _Lane) -> None:
        job = self._jobs.claim(kinds_on(lane.slot), lane.slot)
        if job is None:
            return
        assert job.owner is not None
        folder = self._jobs.folder(job.id)
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "log.txt", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "api.jobs", "attempt", job.id, job.owner],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | self.settings.variables(),
            )
        lane.running = _Running(
            lease=Lease(self._jobs.database, job.id, job.owner),
            process=process,
            stops=KINDS[job.kind].stops,
            renew_at=time.monotonic() + self.settings.lease_s / 4,
        )
        _log.info("job %s begins", job.id, extra={"kind": job.kind, "attempt": job.attempt, "slot": lane.slot})

    def _watch(self, lane: _Lane, running: _Running) -> None:
        """Looks after an attempt: its end, its lease, its cancellation."""
        if running.process.poll() is not None:
            self._bury_one(running)
            lane.running = None
            return
        try:
            self._keep(running)
        except LeaseLost:  # It has just written the job's end, or will be told at its next event.
            running.kill_at = running.kill_at or time.monotonic() + STOP_S
        if self._stopping and not running.for_shutdown:
            running.for_shutdown = True
            running.ask_to_stop()
        if running.kill_at is not None and time.monotonic() >= running.kill_at:
            running.kill()

    def _keep(self, running: _Running) -> None:
        if self._jobs.is_cancelled(running.lease.job_id):
            running.ask_to_stop()
        if time.monotonic() >= running.renew_at:
            running.renew_at = time.monotonic() + self.settings.lease_s / 4
            running.lease.renew(self.settings.lease_s)

    def _bury_one(self, running: _Running) -> None:
        """After an attempt's process: nothing, when it has written the job's end itself."""
        running.kill()
        code = running.process.wait()
        if running.process.stdin is not None:
            running.process.stdin.close()
        try:
            if running.for_shutdown:
                running.lease.give_back()
            else:
                running.lease.died(_how(code), self.settings.max_attempts)
                _log.error("the process of job %s died: %s", running.lease.job_id, _how(code))
        except LeaseLost:
            _log.info("job %s: its attempt has ended", running.lease.job_id)


def _how(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"
