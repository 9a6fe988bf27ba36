"""Tells many listeners at once what jobs say, with one look at the database for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from sqlalchemy import Connection

from api.jobs._store import Jobs
from api.tables import JobEvent

POLL_S = 0.2
PAGE = 500
"""Events read at a time."""


class Feed:
    """Events of jobs for the listeners in this process's event loop.

    SQLite counts the commits of other connections; while somebody waits, one task looks at that number. Listeners that
    have heard the same wait for the same, and one query serves them all.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._reads: dict[tuple[str, int, asyncio.Event], asyncio.Task[tuple[JobEvent, ...]]] = {}
        self._waiting = 0
        self._changed = asyncio.Event()
        """Set at the next change, and then replaced: also the name of the time between two changes."""
        self._watcher: asyncio.Task[None] | None = None
        self._closed = False

    async def after(self, job_id: str, seq: int, wait_s: float) -> tuple[JobEvent, ...]:
        """Events of a job after ``seq``, in order, at most ``PAGE``; empty when there is none within ``wait_s``."""
        limit = asyncio.get_running_loop().time() + wait_s
        while True:
            changed = self._changed  # Before reading: what is said meanwhile sets it.
            found = await self._read(job_id, seq, changed)
            left = limit - asyncio.get_running_loop().time()
            if found or left <= 0 or self._closed:
                return found
            await self._wait(changed, left)

    async def stream(self, job_id: str, seq: int, quiet_s: float) -> AsyncIterator[tuple[JobEvent, ...]]:
        """Events after ``seq`` as they come, without end; nothing whenever nothing came for ``quiet_s``."""
        while not self._closed:
            found = await self.after(job_id, seq, quiet_s)
            yield found
            seq = found[-1].seq if found else seq

    def close(self) -> None:
        """Sends every listener home."""
        self._closed = True
        self._changed.set()
        if self._watcher is not None:
            self._watcher.cancel()

    async def _read(self, job_id: str, seq: int, changed: asyncio.Event) -> tuple[JobEvent, ...]:
        # An answer that was asked for before the last change may lack it, and is no answer to those who ask after.
        key = (job_id, seq, changed)
        if key not in self._reads:
            read = asyncio.to_thread(self._jobs.events, job_id, seq, PAGE)
            self._reads[key] = asyncio.create_task(read)
            self._reads[key].add_done_callback(lambda _: self._reads.pop(key, None))
        # One listener that goes away must not take the answer from the others.
        return await asyncio.shield(self._reads[key])

    async def _wait(self, changed: asyncio.Event, seconds: float) -> None:
        self._waiting += 1
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())
        try:
            await asyncio.wait_for(changed.wait(), seconds)
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1

    async def _watch(self) -> None:
        """Wakes listeners whenever anybody has written, while there are listeners."""
        with self._jobs.database.engine.connect() as connection:
            known = -1
            while self._waiting:
                version = await asyncio.to_thread(_version, connection)
                if version != known:
                    known = version
                    self._changed.set()
                    self._changed = asyncio.Event()
                await asyncio.sleep(POLL_S)


def _version(connection: Connection) -> int:
    cursor = connection.connection.cursor()  # Past SQLAlchemy, which would open a transaction and see one state only.
    try:
        cursor.execute("PRAGMA data_version")
        (version,) = cursor.fetchone() or (0,)
        return version
    finally:
        cursor.close()
