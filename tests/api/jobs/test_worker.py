"""Workers as real processes: what they do, and what is left when they are killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from api.jobs import preview
from api.jobs._attempt import LOST
from api.jobs._worker import _Lane
from api.storage import add_scene
from api.tables import Artifact, BundleRow, Job, Scene
from recon4d.scene import load, save
from simbridge import bundle as bundles
from tests.api.jobs.house import House, is_alive, kill
from tests.simbridge.bundle import small


@dataclass(frozen=True)
class Recovered:
    """A reconstruction whose worker was killed in the joint fit, and what another worker made of it."""

    house: House
    job: Job
    killed: int
    """The process of the first attempt."""
    heard: list[dict[str, Any]]
    """Events that there were when the worker was killed."""

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.house.events(self.job.id)


@pytest.fixture(scope="module")
def recovered(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recovered]:
    with House(tmp_path_factory.mktemp("recovered") / "data") as house:
        capture = house.capture(tiny)
        job = house.reconstruct(capture, fit__joint__steps=1000)
        worker = house.worker()

        def has_checkpoint(job: Job) -> bool:
            events = house.jobs.events(job.id, 0, 10_000)
            return any(event.data["event"] == "saved" for event in events)

        house.until(job.id, has_checkpoint)
        attempt = house.attempt_process(job.id)
        kill(worker.pid)
        worker.wait()
        house.worker()
        house.until(job.id, lambda job: job.attempt == 2)
        heard = house.events(job.id)
        yield Recovered(house=house, job=house.ended(job.id, "succeeded"), killed=attempt, heard=heard)


def test_a_killed_worker_takes_its_attempt_along(recovered: Recovered) -> None:
    assert not is_alive(recovered.killed)


def test_another_worker_goes_on_from_the_checkpoint(recovered: Recovered) -> None:
    states = recovered.house.states(recovered.job.id)
    assert states == ["queued", "running", "queued", "running", "succeeded"]
    assert (recovered.job.attempt, recovered.job.deaths) == (2, 1)
    again = [i for i, event in enumerate(recovered.events) if event.get("attempt") == 2]
    later = recovered.events[again[0] :]
    reused = {event["stage"] for event in later if event["event"] == "finished" and event["reused"]}
    assert reused >= {"ingest", "static", "seeds"}
    (joint,) = [event for event in later if event["event"] == "started" and event["stage"] == "joint"]
    assert "resumed at step" in joint["detail"]


def test_what_was_said_stays_said(recovered: Recovered) -> None:
    assert recovered.events[: len(recovered.heard)] == recovered.heard
    assert sum(event.get("state") == "succeeded" for event in recovered.events) == 1
    assert recovered.events[-1]["state"] == "succeeded"


def test_the_scene_is_there_once_and_whole(recovered: Recovered) -> None:
    house, job = recovered.house, recovered.job
    with house.database.reading() as session:
        (scene,) = session.scalars(select(Scene))
        names = {row.name for row in session.scalars(select(Artifact))}
    assert job.result == {"scene": scene.id}
    assert (scene.job_id, scene.capture_id, scene.name) == (job.id, job.subject, "tiny")
    folder = house.settings.data_dir / "scenes" / scene.id
    assert names == {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"scene.json", "report.html", "scores.json", "view/view.json"} <= names
    assert load(folder).splats == scene.facts["splats"]
    assert [path.name for path in folder.parent.iterdir()] == [scene.id]


def test_the_fit_was_to_be_seen_while_it_ran(recovered: Recovered) -> None:
    assert preview(recovered.house.jobs.folder(recovered.job.id)).read_bytes()[:2] == b"\xff\xd8"


def test_clients_are_not_told_where_the_service_keeps_its_files(recovered: Recovered) -> None:
    folder = str(recovered.house.settings.data_dir)
    assert all(folder not in str(event) for event in recovered.events)
    log = (recovered.house.jobs.folder(recovered.job.id) / "log.txt").read_text()
    assert "attempt 2 at reconstruct" in log
    assert folder not in log


@pytest.mark.slow
def test_an_attempt_that_hangs_is_ended_by_the_next_one(house: House, tiny: Path) -> None:
    job_id = house.reconstruct(house.capture(tiny), fit__joint__steps=5_000).id
    first = house.attempt(job_id)
    house.until(job_id, lambda job: job.stage == "joint")
    os.kill(first.pid, signal.SIGSTOP)
    with house.database.writing() as session:
        session.get_one(Job, job_id).lease_until = 0.0
    assert house.jobs.bury() == [job_id]
    second = house.attempt(job_id)
    job = house.ended(job_id, "succeeded")
    assert (job.attempt, job.deaths) == (2, 1)
    assert first.wait(60) == -signal.SIGKILL
    assert second.wait(60) == 0
    with house.database.reading() as session:
        assert len(list(session.scalars(select(Scene)))) == 1


@pytest.mark.slow
def test_an_attempt_that_has_lost_its_lease_ends_and_writes_no_more(house: House, tiny: Path) -> None:
    job_id = house.reconstruct(house.capture(tiny), fit__joint__steps=100_000).id
    first = house.attempt(job_id)
    house.until(job_id, lambda job: job.stage == "joint")
    with house.database.writing() as session:
        session.get_one(Job, job_id).lease_until = 0.0
    assert house.jobs.bury() == [job_id]
    assert first.wait(60) == LOST
    assert house.events(job_id)[-1]["state"] == "queued"


@pytest.mark.slow
def test_a_cancelled_job_keeps_what_it_has_come_to_and_a_restart_goes_on_from_there(house: House, tiny: Path) -> None:
    capture = house.capture(tiny)
    job = house.reconstruct(capture, fit__joint__steps=100_000)
    house.worker()
    house.until(job.id, lambda job: job.stage == "joint" and job.fraction > 0.25)
    house.jobs.cancel(job.id)
    house.ended(job.id, "cancelled")
    events = house.events(job.id)
    told = next(i for i, event in enumerate(events) if event.get("state") == "cancelling")
    # The step that was under way when it was told, and those made until the worker looked.
    steps = [event["step"] for event in events if event["event"] == "progress" and event["stage"] == "joint"]
    assert len(events) - told < 40
    assert events[-1] == {"event": "state", "state": "cancelled"}
    assert (house.jobs.folder(job.id) / "out" / "work" / "joint.safetensors").is_file()

    again = house.reconstruct(capture, continues=job.id, fit__joint__steps=100_000)
    house.until(again.id, lambda job: job.stage == "joint")
    (joint,) = [e for e in house.events(again.id) if e["event"] == "started" and e["stage"] == "joint"]
    assert f"resumed at step {steps[-1]}" in joint["detail"]
    house.jobs.cancel(again.id)
    house.ended(again.id, "cancelled")

    # With another length the fit is another one; what comes before it is not.
    changed = house.reconstruct(capture, continues=again.id, fit__joint__steps=100)
    house.ended(changed.id, "succeeded")
    finished = [e for e in house.events(changed.id) if e["event"] == "finished"]
    assert {e["stage"] for e in finished if e["reused"]} == {"static", "seeds"}


def test_bad_input_fails_at_once_and_names_where(recovered: Recovered, odd: Path, broken: Path) -> None:
    house = recovered.house
    wrong = house.reconstruct(house.capture(odd))
    looked = house.jobs.submit("check", house.capture(broken), {})
    job = house.ended(wrong.id, "failed")
    assert job.error is not None
    assert job.error["type"] == "urn:recon4d:problem:calibration"
    assert (job.error["status"], job.error["camera"], job.error["file"]) == (422, "c2", "c2.mp4")
    assert (job.attempt, job.deaths) == (1, 0)
    assert house.states(job.id) == ["queued", "running", "failed"]

    # What checking finds is no failure: it is what was asked for.
    result = house.ended(looked.id, "succeeded").result
    assert result is not None
    assert (result["usable"], result["errors"]) == (False, 1)
    assert result["findings"][0]["camera"] == "c1"
    assert sorted(result["pictures"]) == ["c0", "c2", "c3"]
    pictures = house.jobs.folder(looked.id) / "files"
    names = {*result["pictures"].values(), result["contact"]}
    assert names == {path.name for path in pictures.iterdir()}


def test_a_bundle_is_built_from_a_scene_and_its_files(recovered: Recovered, tmp_path: Path) -> None:
    house = recovered.house
    save(small.scene(), tmp_path / "scene")
    scene = add_scene(house.database, house.settings, tmp_path / "scene", name="bench")
    config = json.loads(small.config_file(tmp_path).read_text())
    request = {"config": config, "files": {"arm.xml": small.ARM}}
    made = house.jobs.submit("bundle", scene, request, name="arm on bench")
    wrong = house.jobs.submit("bundle", scene, request | {"config": config | {"scale": -1}})
    job = house.ended(made.id, "succeeded")
    with house.database.reading() as session:
        (row,) = session.scalars(select(BundleRow))
    assert job.result == {"bundle": row.id}
    assert (row.name, row.scene_id, row.job_id) == ("arm on bench", scene, job.id)
    assert "reach" in row.facts["tasks"]
    assert bundles.load(house.settings.data_dir / "bundles" / row.id).robot is not None
    assert any(event["event"] == "warned" and "capture" in event["message"] for event in house.events(job.id))
    job = house.ended(wrong.id, "failed")
    assert job.error is not None
    assert "scale must be positive" in job.error["detail"]


def test_two_workers_share_no_slot(tmp_path: Path) -> None:
    first, second = (_Lane(slot="cpu", lock=tmp_path / "slots" / "0-cpu.lock") for _ in range(2))
    assert (first.hold(), second.hold()) == (True, False)
    assert first.held is not None
    first.held.close()
    assert second.hold()
    assert second.held is not None
    second.held.close()


@pytest.mark.slow
def test_a_worker_that_is_asked_to_end_gives_its_job_back(house: House, tiny: Path) -> None:
    job = house.reconstruct(house.capture(tiny), fit__joint__steps=100_000)
    worker = house.worker()
    house.until(job.id, lambda job: job.stage == "joint")
    attempt = house.attempt_process(job.id)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert not is_alive(attempt)
    given = house.jobs.get(job.id)
    assert (given.state, given.deaths, given.owner) == ("queued", 0, None)
    assert (house.jobs.folder(job.id) / "out" / "work" / "joint.safetensors").is_file()
