"""The table of jobs: how a job comes into being, changes hands and ends, every change with its event."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from api.database import Database
from api.errors import Problem
from api.ids import fresh
from api.settings import Settings
from api.tables import Job, JobEvent
from api.wire import page

ENDED = ("succeeded", "failed", "cancelled")


class LeaseLost(Exception):
    """The job is somebody else's by now, or has ended: whoever hears this must stop at once and write nothing."""


@dataclass(frozen=True)
class Jobs:
    """What clients may do with jobs, and how workers take them."""

    database: Database
    settings: Settings

    def folder(self, job_id: str) -> Path:
        """Where a job's log, pictures and work lie."""
        return self.settings.data_dir / "jobs" / job_id

    def submit(
        self, kind: str, subject: str, request: dict[str, Any], *, name: str = "", continues: str | None = None
    ) -> Job:
        """A new job at the end of the queue. The request must have been looked at already.

        Raises:
            Problem: 429, as many are waiting as may.
        """
        job = Job(
            id=fresh("job"), kind=kind, subject=subject, request=request, name=name, continues=continues, state="queued"
        )
        with self.database.writing() as session:
            waiting = session.scalar(select(func.count()).select_from(Job).where(Job.state == "queued")) or 0
            if waiting >= self.settings.max_queued_jobs:
                detail, hint = f"{waiting} jobs are waiting already", "try again later, or cancel some"
                raise Problem(429, "queue-full", detail, hint=hint, headers={"Retry-After": "60"})
            session.add(job)
            session.flush()
            _say(session, job.id, {"event": "state", "state": "queued"})
        return job

    def get(self, job_id: str, kind: str | None = None) -> Job:
        """A job.

        Raises:
            Problem: 404 when there is none of that id and kind.
        """
        with self.database.reading() as session:
            return _found(session, job_id, kind)

    def page(
        self, *, kind: str | None, state: str | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[Job], str | None]:
        """Jobs, newest first, and the cursor of the page after them.

        Raises:
            Problem: 422, the cursor is none.
        """
        chosen = select(Job)
        if kind is not None:
            chosen = chosen.where(Job.kind == kind)
        if state is not None:
            chosen = chosen.where(Job.state == state)
        with self.database.reading() as session:
            return page(session, chosen, (Job.created_at, Job.id), limit, cursor)

    def events(self, job_id: str, after: int, limit: int) -> tuple[JobEvent, ...]:
        """What a job has said since event ``after``, in order, without gaps."""
        chosen = select(JobEvent).where(JobEvent.job_id == job_id, JobEvent.seq > after)
        with self.database.reading() as session:
            return tuple(session.scalars(chosen.order_by(JobEvent.seq).limit(limit)))

    def is_cancelled(self, job_id: str) -> bool:
        """Whether somebody has asked a job to end."""
        with self.database.reading() as session:
            return bool(session.scalar(select(Job.cancel_requested).where(Job.id == job_id)))

    def cancel(self, job_id: str, kind: str | None = None) -> Job:
        """Asks a job to end. One that is queued ends here; one that runs stops at its next step; an ended one stays.

        Raises:
            Problem: 404.
        """
        with self.database.writing() as session:
            job = _found(session, job_id, kind)
            if job.state == "queued":
                _end(session, job, "cancelled")
            elif job.state == "running" and not job.cancel_requested:
                job.cancel_requested = True
                _say(session, job.id, {"event": "state", "state": "cancelling"})
            return job

    def delete(self, job_id: str, kind: str | None = None) -> None:
        """Forgets an ended job, its events and its folder. What it made stays.

        Raises:
            Problem: 404; 409 when it has not ended, or another job is to go on from it.
        """
        with self.database.writing() as session:
            job = _found(session, job_id, kind)
            if job.state not in ENDED:
                raise Problem(409, "conflict", f"job {job.id} is {job.state}", hint="Cancel it first, and wait.")
            heirs = select(Job.id).where(Job.continues == job.id, Job.state.not_in(ENDED))
            if heir := session.scalar(heirs):
                raise Problem(409, "conflict", f"job {heir} goes on from job {job.id}", hint="Wait until it has ended.")
            session.delete(job)
        shutil.rmtree(self.folder(job_id), ignore_errors=True)

    def sweep(self) -> int:
        """Removes folders of jobs that were forgotten by somebody who was killed meanwhile. Returns how many."""
        with self.database.reading() as session:
            known = set(session.scalars(select(Job.id)))
        lost = [path for path in self.folder("").glob("job_*") if path.name not in known]
        for folder in lost:
            shutil.rmtree(folder, ignore_errors=True)
        return len(lost)

    def claim(self, kinds: Sequence[str], slot: str) -> Job | None:
        """Takes the oldest queued job that may run on a slot; None when there is none.

        The caller holds it under ``job.owner`` for ``settings.lease_s`` seconds, and longer with :meth:`renew`.
        """
        waiting = select(Job).where(Job.state == "queued", Job.kind.in_(kinds)).order_by(Job.created_at, Job.id)
        with self.database.reading() as session:  # Most times there is nothing: the writers' lock is not needed for it.
            if session.scalar(waiting.limit(1)) is None:
                return None
        with self.database.writing() as session:
            for job in session.scalars(waiting):
                if job.request.get("slot") in (None, slot):
                    job.state, job.owner, job.slot = "running", fresh("own"), slot
                    job.attempt += 1
                    job.started_at = job.started_at or time.time()
                    job.lease_until = time.time() + self.settings.lease_s
                    job.stage, job.fraction, job.eta_s = "", 0.0, None
                    _say(session, job.id, {"event": "state", "state": "running", "attempt": job.attempt, "slot": slot})
                    return job
        return None

    def bury(self) -> list[str]:
        """Takes back jobs whose lease has run out: whoever held them is dead or stuck. Returns their ids."""
        late = select(Job).where(Job.state == "running", Job.lease_until < time.time())
        with self.database.reading() as session:
            if session.scalar(late.limit(1)) is None:
                return []
        with self.database.writing() as session:
            jobs = list(session.scalars(late))
            for job in jobs:
                _died(session, job, "its worker was not heard of any more", self.settings.max_attempts)
            return [job.id for job in jobs]


@dataclass(frozen=True)
class Lease:
    """The right of one attempt to write about its job. Every method raises LeaseLost once it is another's."""

    database: Database
    job_id: str
    owner: str

    @contextmanager
    def holding(self) -> Iterator[tuple[Session, Job]]:
        """A transaction in which the job is certainly still this attempt's."""
        with self.database.writing() as session:
            job = session.get(Job, self.job_id)
            if job is None or job.owner != self.owner or job.state != "running":
                raise LeaseLost(f"job {self.job_id} is no longer that of attempt {self.owner}")
            yield session, job

    def renew(self, seconds: float) -> bool:
        """Holds the job for some more seconds. Returns whether it is to be cancelled."""
        with self.holding() as (_, job):
            job.lease_until = time.time() + seconds
            return job.cancel_requested

    def say(self, data: dict[str, Any], stage: str, fraction: float, eta_s: float | None) -> None:
        """Appends an event, and what it means for the job."""
        with self.holding() as (session, job):
            job.stage, job.fraction, job.eta_s = stage, fraction, eta_s
            _say(session, job.id, data)

    def succeed(self, insert: Callable[[Session], dict[str, Any]]) -> None:
        """Ends the job, once and together with the rows of what it made.

        Args:
            insert: writes those rows within the transaction, and returns the job's result.
        """
        with self.holding() as (session, job):
            job.result = insert(session)
            job.fraction = 1.0
            _end(session, job, "succeeded", result=job.result)

    def fail(self, problem: Problem) -> None:
        """Ends the job for good: trying again would give the same."""
        with self.holding() as (session, job):
            job.error = problem.to_json()
            _end(session, job, "failed", error=job.error)

    def give_back(self) -> None:
        """The work stopped on request: the job ends when that was a client's, and else waits for another worker."""
        with self.holding() as (session, job):
            if job.cancel_requested:
                _end(session, job, "cancelled")
            else:
                _queue(session, job, "its worker is shutting down")

    def died(self, how: str, max_deaths: int) -> None:
        """The process that did the work is gone without a word."""
        with self.holding() as (session, job):
            _died(session, job, how, max_deaths)


def _found(session: Session, job_id: str, kind: str | None) -> Job:
    job = session.get(Job, job_id)
    if job is None or kind not in (None, job.kind):
        what = {"reconstruct": "reconstruction"}.get(kind or "", "job")
        raise Problem(404, "not-found", f"there is no {what} '{job_id}'", hint="The lists name those that there are.")
    return job


def _say(session: Session, job_id: str, data: dict[str, Any]) -> None:
    """Adds an event; the transaction holds the writers' lock, so numbers have neither gaps nor doubles."""
    last = session.scalar(select(func.max(JobEvent.seq)).where(JobEvent.job_id == job_id)) or 0
    session.add(JobEvent(job_id=job_id, seq=last + 1, data=data))
    session.flush()


def _end(session: Session, job: Job, state: str, **facts: Any) -> None:
    job.state, job.finished_at = state, time.time()
    job.owner = job.lease_until = job.eta_s = None
    _say(session, job.id, {"event": "state", "state": state, **facts})


def _queue(session: Session, job: Job, reason: str) -> None:
    job.state = "queued"
    job.owner = job.lease_until = job.eta_s = job.slot = None
    _say(session, job.id, {"event": "state", "state": "queued", "reason": reason})


def _died(session: Session, job: Job, how: str, max_deaths: int) -> None:
    job.deaths += 1
    if job.cancel_requested:
        _end(session, job, "cancelled")
    elif job.deaths < max_deaths:
        _queue(session, job, how)
    else:
        detail = f"its process died {job.deaths} times, at last because {how}; the last stage was '{job.stage}'"
        hint = "Look at the job's log, and for memory that ran out; then restart it, perhaps with a smaller preset."
        job.error = Problem(500, "died", detail, hint=hint).to_json()
        _end(session, job, "failed", error=job.error)
