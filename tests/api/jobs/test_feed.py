"""Many listeners: everything, in order, with few looks at the database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from sqlalchemy import event

from api.jobs import Feed
from api.jobs._store import Lease
from tests.api.jobs.house import House

EVENTS = 300


def running(house: House) -> Lease:
    house.jobs.submit("reconstruct", "cap_x", {})
    job = house.jobs.claim(("reconstruct",), "cpu")
    assert job is not None
    assert job.owner is not None
    return Lease(house.database, job.id, job.owner)


async def hear(feed: Feed, job_id: str, after: int) -> list[int]:
    """Numbers of all events after one, until the job has ended."""
    heard: list[int] = []
    async for rows in feed.stream(job_id, after, 30):
        heard += [row.seq for row in rows]
        if any(row.data.get("state") == "succeeded" for row in rows):
            return heard
    return heard


def test_every_listener_hears_everything_in_order_whenever_it_came(house: House) -> None:
    lease = running(house)
    reads = 0

    def count(connection: object, cursor: object, statement: str, *rest: object) -> None:
        nonlocal reads
        reads += "FROM job_events" in statement and "max(" not in statement

    def write() -> None:
        for number in range(EVENTS):
            lease.say({"event": "progress", "number": number}, "joint", 0.5, None)
        lease.succeed(lambda session: {})

    async def scene() -> list[Sequence[int]]:
        feed = Feed(house.jobs)
        early = [asyncio.create_task(hear(feed, lease.job_id, 0)) for _ in range(100)]
        writer = threading.Thread(target=write)
        writer.start()
        await asyncio.sleep(0.3)
        late = [asyncio.create_task(hear(feed, lease.job_id, after)) for after in range(100)]
        heard = await asyncio.gather(*early, *late)
        await asyncio.to_thread(writer.join)
        feed.close()
        return heard

    event.listen(house.database.engine, "before_cursor_execute", count)
    heard = asyncio.run(asyncio.wait_for(scene(), 120))
    last = EVENTS + 3
    assert heard == [[*range(1, last + 1)]] * 100 + [[*range(after + 1, last + 1)] for after in range(100)]
    # Without sharing, every listener would ask for every event that it hears singly.
    assert reads < 200 * EVENTS / 20


def test_a_listener_that_goes_away_takes_nothing_from_the_others(house: House) -> None:
    lease = running(house)

    async def scene() -> list[int]:
        feed = Feed(house.jobs)
        leaves = asyncio.create_task(hear(feed, lease.job_id, 0))
        stays = asyncio.create_task(hear(feed, lease.job_id, 0))
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.sleep(0.05)
        await asyncio.to_thread(lease.succeed, lambda session: {})
        heard = await stays
        feed.close()
        return heard

    assert asyncio.run(asyncio.wait_for(scene(), 60)) == [1, 2, 3]


def test_waiting_ends_without_an_event_too(house: House) -> None:
    lease = running(house)

    async def scene() -> int:
        feed = Feed(house.jobs)
        found = await feed.after(lease.job_id, 2, 0.3)
        feed.close()
        return len(found)

    assert asyncio.run(asyncio.wait_for(scene(), 60)) == 0


def test_closing_sends_listeners_home(house: House) -> None:
    lease = running(house)

    async def scene() -> list[int]:
        feed = Feed(house.jobs)
        listener = asyncio.create_task(hear(feed, lease.job_id, 2))
        await asyncio.sleep(0.1)
        feed.close()
        return await listener

    assert asyncio.run(asyncio.wait_for(scene(), 60)) == []
