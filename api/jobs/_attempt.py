"""The process of one attempt: does a job's work, says what happens, and leaves no trace of itself when killed.

It holds the lock of the job's folder, so that two attempts never write into it at once, and ends when its worker
does: the worker holds the other end of its standard input.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy.exc import SQLAlchemyError

from api.database import Database
from api.errors import Problem, problem_of
from api.jobs._kinds import HOST, KINDS, Task
from api.jobs._progress import Progress
from api.jobs._store import Jobs, Lease, LeaseLost
from api.settings import Settings
from recon4d import events
from recon4d.errors import MissingExtraError, Recon4DError, Stopped
from recon4d.events import Event, to_json

LOST, UNRECORDED = 75, 74
"""Exit codes: the lease went to another attempt; the end could not be written into the database."""
_ISOLATED = "RECON4D_ISOLATED"
"""Variable that names the accelerator of which an attempt sees its own device alone."""
_NICE = 5
"""Requests are answered first."""
_EVERY = 0.1
"""Share of a stage between two lines of the log."""


def attempt(settings: Settings, job_id: str, owner: str) -> int:
    """Does a job's work as the attempt that holds its lease. Returns the process's exit code."""
    _end_with_the_worker()
    os.setpriority(os.PRIO_PROCESS, 0, max(_NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    database = Database(settings.database)
    jobs = Jobs(database, settings)
    lease = Lease(database, job_id, owner)
    try:
        with _alone_in(jobs.folder(job_id)):
            _work(jobs, lease)
    except LeaseLost as error:
        _log(f"ends: {error}")
        return LOST
    except SQLAlchemyError:
        traceback.print_exc()
        return UNRECORDED
    return 0


def _work(jobs: Jobs, lease: Lease) -> None:
    job = jobs.get(lease.job_id)
    kind = KINDS[job.kind]
    folder = jobs.folder(job.id)
    voice = _Voice(lease, Progress(kind.stages), folder)
    _log(f"attempt {job.attempt} at {job.kind} {job.id} on {job.slot}, process {os.getpid()}")
    asked = threading.Event()
    try:
        work = kind.function()
        task = Task(
            job=job,
            settings=jobs.settings,
            database=jobs.database,
            folder=folder,
            device=_device(job.slot or HOST),
            on_event=voice,
            should_stop=asked.is_set,
            finish=lease.succeed,
        )
        if kind.stops:
            signal.signal(signal.SIGTERM, lambda *_: asked.set())
        work(task)
        _log("succeeded")
    except Stopped as error:
        _log(f"stopped: {error}")
        lease.give_back()
    except Recon4DError as error:
        problem = problem_of(error)
        problem.detail = _without(folder, problem.detail)
        _log(f"failed: {problem.detail}")
        lease.fail(problem)
    except Problem as problem:
        _log(f"failed: {problem.detail}")
        lease.fail(problem)
    except ModuleNotFoundError as error:
        traceback.print_exc()
        lease.fail(problem_of(MissingExtraError(str(error.name), "sim", f"a job of the kind '{job.kind}'")))
    except (LeaseLost, SQLAlchemyError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever the work may raise, the job has to end with it.
        traceback.print_exc()
        detail = f"the work ended with an error of the program, {type(error).__name__}"
        lease.fail(Problem(500, "internal", detail, hint="The job's log has the details."))


class _Voice:
    """Writes every event of the work into the database, and the ones worth reading into the log."""

    def __init__(self, lease: Lease, progress: Progress, folder: Path) -> None:
        self._lease = lease
        self._progress = progress
        self._folder = folder
        self._logged = ("", 0.0)

    def __call__(self, event: Event) -> None:
        self._progress.hear(event)
        data = {name: _without(self._folder, value) for name, value in to_json(event).items()}
        self._lease.say(data, self._progress.stage, self._progress.fraction, self._progress.eta_s)
        if isinstance(event, events.Progress):
            stage, share = self._logged
            now = event.step / max(event.total, 1)
            if stage == event.stage and now < share + _EVERY:
                return
            self._logged = (event.stage, now)
        _log(_line(data))


def _without(folder: Path, value: Any) -> Any:
    """A value of an event; where the service keeps its files is nobody's business."""
    return value.replace(f"{folder}/", "").replace(str(folder), ".") if isinstance(value, str) else value


def _line(data: dict[str, Any]) -> str:
    """An event in words."""
    known = {name: value for name, value in data.items() if name not in ("wall_time_s", "scores") and value != ""}
    stage, event = known.pop("stage"), known.pop("event")
    facts = (f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in known.items())
    return f"{stage}: {event} " + ", ".join(facts)


def _log(text: str) -> None:
    """A line in the job's log, which is this process's output."""
    print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text.rstrip()}", flush=True)  # noqa: T201


def _device(slot: str) -> str:
    """The torch device of a slot, tried out. Where a variable can hide the other chips of its vendor, this process
    begins anew with that variable, since a library may have looked at them already."""
    if slot == HOST:
        return "cpu"
    from recon4d.accelerators import resolve
    from recon4d.commands import usable

    alone = os.environ.get(_ISOLATED)
    if alone is not None:
        return usable(alone)
    found = resolve(slot)
    shown = found.accelerator.isolation([found.index])
    if shown:
        environ = os.environ | shown | {_ISOLATED: found.accelerator.name}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)
    return usable(slot)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Holds a job's folder. An earlier attempt that still holds it has lost its lease, and is ended."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a+") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                _end_holder(lock)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _end_holder(lock: Any) -> None:
    """Ends the process group that wrote its id into the lock it holds, and waits a little."""
    lock.seek(0)
    holder = lock.read()
    if holder.isdigit():
        _log(f"ends process {holder} of an attempt before")
        with suppress(ProcessLookupError, PermissionError):  # It may just have ended.
            os.killpg(int(holder), signal.SIGKILL)
    time.sleep(0.1)


def _end_with_the_worker() -> None:
    """From now on this process, and all that it starts, end at once when the worker is gone."""

    def wait() -> NoReturn:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.killpg(0, signal.SIGKILL)
        raise AssertionError("unreachable")

    threading.Thread(target=wait, daemon=True, name="lifeline").start()
