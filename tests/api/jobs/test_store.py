"""The table of jobs: who may write, what is written, and that nothing is written twice."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from api.errors import Problem
from api.jobs._kinds import HOST
from api.jobs._store import Jobs, Lease, LeaseLost
from api.tables import Job, Scene
from tests.api.jobs.house import House

ALL = ("check", "reconstruct")


def claimed(house: House, slot: str = "cpu") -> tuple[Job, Lease]:
    job = house.jobs.claim(ALL, slot)
    assert job is not None
    assert job.owner is not None
    return job, Lease(house.database, job.id, job.owner)


def submit(house: House, **request: object) -> Job:
    return house.jobs.submit("reconstruct", "cap_x", dict(request))


def test_jobs_are_taken_in_the_order_in_which_they_came_and_once(house: House) -> None:
    queued = [submit(house).id for _ in range(12)]
    taken: list[tuple[str, str]] = []

    def take() -> None:
        jobs = Jobs(house.database, house.settings)
        while (job := jobs.claim(ALL, "cpu")) is not None:
            taken.append((job.id, str(job.owner)))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(job for job, _ in taken) == sorted(queued)
    assert len({owner for _, owner in taken}) == len(queued)
    assert house.jobs.claim(ALL, "cpu") is None


def test_only_so_many_may_wait(tmp_path: Path) -> None:
    with House(tmp_path, max_queued_jobs=2) as house:
        first, second = submit(house), submit(house)
        with pytest.raises(Problem, match="2 jobs are waiting") as refused:
            submit(house)
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "60")
        claimed(house)
        third = submit(house)  # One that runs no longer waits.
        house.jobs.cancel(second.id)
        last = submit(house)
        waiting, _ = house.jobs.page(kind=None, state="queued", limit=50, cursor=None)
        assert {job.id for job in waiting} == {third.id, last.id}
        assert house.jobs.get(first.id).state == "running"


def test_a_slot_takes_what_may_run_on_it(house: House) -> None:
    wants, any_slot = submit(house, slot="nvidia:1"), submit(house)
    check = house.jobs.submit("check", "cap_x", {})
    assert claimed(house, "cpu")[0].id == any_slot.id
    assert house.jobs.claim(("reconstruct",), "cpu") is None
    assert claimed(house, "nvidia:1")[0].id == wants.id
    job = house.jobs.claim(("check",), HOST)
    assert job is not None
    assert (job.id, job.slot) == (check.id, HOST)


def test_events_have_no_gaps_whoever_writes_them(house: House) -> None:
    job_id = submit(house).id
    _, lease = claimed(house)

    def say(writer: int) -> None:
        for number in range(25):
            lease.say({"event": "progress", "writer": writer, "number": number}, "joint", 0.5, None)

    threads = [threading.Thread(target=say, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = house.events(job_id)
    assert len(events) == 2 + 100
    for writer in range(4):
        assert [event["number"] for event in events if event.get("writer") == writer] == list(range(25))


def test_a_lease_that_was_lost_writes_nothing(house: House) -> None:
    job_id = submit(house).id
    _, first = claimed(house)
    with first.holding() as (_, job):
        job.lease_until = time.time() - 1
    assert house.jobs.bury() == [job_id]
    _, second = claimed(house)
    before = house.events(job_id)
    for write in (
        lambda: first.say({"event": "x"}, "joint", 0.1, None),
        lambda: first.succeed(lambda session: {"scene": "scn_first"}),
        lambda: first.fail(Problem(422, "capture", "no")),
        lambda: first.died("it ended", 1),
        first.give_back,
        lambda: first.renew(60),
    ):
        with pytest.raises(LeaseLost):
            write()
    assert house.events(job_id) == before
    second.succeed(lambda session: {"scene": "scn_second"})
    assert house.jobs.get(job_id).result == {"scene": "scn_second"}
    with pytest.raises(LeaseLost):
        second.succeed(lambda session: {"scene": "scn_again"})
    assert house.states(job_id) == ["queued", "running", "queued", "running", "succeeded"]


def test_an_end_and_what_it_made_stand_or_fall_together(house: House) -> None:
    job_id = submit(house).id
    _, lease = claimed(house)

    def insert(session: Session) -> dict[str, Any]:
        session.add(Scene(id="scn_a", name="a", job_id=job_id, facts={}))
        session.flush()
        raise RuntimeError("the power fails")

    with pytest.raises(RuntimeError, match="power"):
        lease.succeed(insert)
    with house.database.reading() as session:
        assert session.get(Scene, "scn_a") is None
    assert house.jobs.get(job_id).state == "running"
    assert house.states(job_id) == ["queued", "running"]


def test_a_job_whose_process_dies_too_often_fails(house: House) -> None:
    job_id = submit(house).id
    most = house.settings.max_attempts
    for _ in range(most):
        _, lease = claimed(house)
        lease.say({"event": "started", "stage": "joint"}, "joint", 0.3, None)
        lease.died("it was ended by SIGKILL", most)
    job = house.jobs.get(job_id)
    assert (job.state, job.attempt, job.deaths) == ("failed", most, most)
    assert job.error is not None
    assert "SIGKILL" in job.error["detail"]
    assert "'joint'" in job.error["detail"]
    assert house.events(job_id)[-1] == {"event": "state", "state": "failed", "error": job.error}
    assert house.jobs.claim(ALL, "cpu") is None


def test_a_job_that_was_given_back_has_not_died(house: House) -> None:
    job_id = submit(house).id
    for _ in range(house.settings.max_attempts + 1):
        claimed(house)[1].give_back()
    job = house.jobs.get(job_id)
    assert (job.state, job.deaths, job.slot) == ("queued", 0, None)


def test_a_lease_is_kept_by_renewing_it(house: House) -> None:
    submit(house)
    _, lease = claimed(house)
    with lease.holding() as (_, job):
        job.lease_until = time.time() - 1
    assert lease.renew(60) is False
    assert house.jobs.bury() == []


def test_cancelling(house: House) -> None:
    queued, running, ended = submit(house).id, submit(house).id, submit(house).id
    assert house.jobs.cancel(queued).state == "cancelled"
    assert house.states(queued) == ["queued", "cancelled"]
    _, lease = claimed(house)
    house.jobs.cancel(running)
    house.jobs.cancel(running)
    assert lease.renew(60) is True
    lease.give_back()
    assert house.states(running) == ["queued", "running", "cancelling", "cancelled"]
    claimed(house)[1].fail(Problem(422, "capture", "no"))
    assert house.jobs.cancel(ended).state == "failed"
    assert house.states(ended) == ["queued", "running", "failed"]


def test_a_cancelled_job_whose_process_dies_does_not_come_back(house: House) -> None:
    job_id = submit(house).id
    _, lease = claimed(house)
    house.jobs.cancel(job_id)
    lease.died("it was ended by SIGTERM", 5)
    assert house.jobs.get(job_id).state == "cancelled"


def test_folders_of_no_job_are_swept_away(house: House) -> None:
    job_id = submit(house).id
    for name in (job_id, "job_forgotten"):
        (house.jobs.folder(name) / "out").mkdir(parents=True)
    assert house.jobs.sweep() == 1
    assert house.jobs.folder(job_id).is_dir()
    assert not house.jobs.folder("job_forgotten").exists()
    assert house.jobs.sweep() == 0


def test_deleting(house: House) -> None:
    job_id = submit(house).id
    with pytest.raises(Problem) as refused:
        house.jobs.delete(job_id)
    assert refused.value.status == 409
    house.jobs.cancel(job_id)
    heir = house.jobs.submit("reconstruct", "cap_x", {}, continues=job_id)
    with pytest.raises(Problem, match=heir.id):
        house.jobs.delete(job_id)
    house.jobs.cancel(heir.id)
    (house.jobs.folder(job_id) / "out").mkdir(parents=True)
    house.jobs.delete(job_id)
    assert not house.jobs.folder(job_id).exists()
    assert house.jobs.events(job_id, 0, 10) == ()
    with pytest.raises(Problem) as gone:
        house.jobs.get(job_id)
    assert gone.value.status == 404
