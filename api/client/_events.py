"""What a job says, as a stream that goes on where it broke off."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import httpx

from api.client._errors import ServiceError
from api.client._http import Connection, cause, is_passing
from api.client._records import Job, JobEvent
from recon4d.events import Event, Finished, Started, from_json


def follow(connection: Connection, job: str, after: int = 0) -> Iterator[JobEvent]:
    """Every event of a job once, in order, until it ends.

    Args:
        connection: to the service.
        job: its id.
        after: number of the last event that is known already.

    Raises:
        ServiceError: there is no such job, or the service is gone.
    """
    patience = connection.patience()
    while True:
        before = after
        reason = "the stream of events ended early"
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        try:
            with connection.stream(f"/v1/jobs/{job}/events", headers) as answer:
                for event in parse(answer.iter_lines()):
                    if event.seq <= after:
                        continue
                    after = event.seq
                    patience.renew()
                    yield event
                    if event.last:
                        return
            if after == before and Job.of(connection.ask("GET", f"/v1/jobs/{job}").json()).over:
                return  # Everything it ever said was known already.
        except httpx.TransportError as error:
            reason = cause(error)
        except ServiceError as error:
            if not is_passing(error):
                raise
            reason = str(error)
        patience.wait(reason)


def parse(lines: Iterable[str]) -> Iterator[JobEvent]:
    """The events of a ``text/event-stream``; one that is cut short by the stream's end is left out."""
    number, data = "", []
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            number = value
        elif name == "data":
            data.append(value)
        elif not line and data:
            members = json.loads("\n".join(data))
            yield JobEvent(seq=int(number), at=members["at"], data=members["data"])
            data = []


def engine_event(told: JobEvent) -> Event | None:
    """What the engine said; the wait for a slot looks like a stage of it. None for what it has no word for."""
    if told.data.get("event") != "state":
        return from_json(told.data)
    if told.data.get("state") == "queued":
        return Started(stage="queue", detail=str(told.data.get("reason") or "waiting for its turn"))
    if told.data.get("state") == "running":
        return Finished(stage="queue", seconds=0.0, detail=f"attempt {told.data.get('attempt', 1)}")
    return None
