"""SIGKILL of the worker, of the web process and of both, in every stage: no job is lost and none ends twice."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest
import torch
from sqlalchemy import select

from api.jobs._requests import config_of
from api.storage import materialise
from api.tables import Artifact, Job, Scene
from recon4d.reconstruct import reconstruct
from recon4d.scene import load
from recon4d.types import Scene4D
from tests import worlds
from tests.api.jobs.house import PATIENCE_S, House, is_alive, kill
from tests.api.service import Service, running, wait_until

pytestmark = pytest.mark.slow

LEASE_S = 4.0
STAGES = ("ingest", "static", "seeds", "joint", "score", "report", "finishing")
OPTIONS = {"fit__static__steps": 300, "fit__joint__steps": 600}


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture whose decoding takes long enough to be met."""
    return worlds.write_capture(worlds.capture(seconds=3.0), tmp_path_factory.mktemp("captures") / "longer")


@pytest.fixture(scope="module")
def undisturbed(longer: Path, tmp_path_factory: pytest.TempPathFactory) -> Scene4D:
    """What comes out when nobody is killed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with House(folder / "data") as house:
        job = house.reconstruct(house.capture(longer), **OPTIONS)
        source = materialise(house.database, house.settings, job.subject, folder / "capture")
        reconstruct(source, folder / "out", config_of(job.request))
    return load(folder / "out")


def victims(service: Service, who: str) -> list[int]:
    """Processes to kill, the web process last."""
    workers = wait_until(lambda: service.worker_pids, PATIENCE_S, "another worker")
    assert len(workers) == 1
    web = [service.web_pid]
    return {"worker": workers, "web": web, "both": workers + web}[who]


def kill_in(house: House, job_id: str, stage: str, attempt: int, processes: list[int]) -> None:
    """Kills processes while a job's attempt is in a stage, for certain: with the writers' lock held it cannot leave."""
    limit = time.monotonic() + PATIENCE_S
    while time.monotonic() < limit:
        with house.database.writing() as session:
            job = session.get_one(Job, job_id)
            assert job.state in ("queued", "running"), f"it ended before '{stage}' was seen: {job.state}, {job.error}"
            if (job.stage, job.attempt, job.state) == (stage, attempt, "running"):
                if stage == "finishing":
                    wait_for_folder(house)
                for process in processes:
                    kill(process)
                for process in processes:
                    wait_for_death(process)
                return
        time.sleep(0.003)
    raise AssertionError(f"attempt {attempt} never came to '{stage}'")


def wait_for_folder(house: House) -> None:
    """Until the scene's folder is in its place: what is left to do is the transaction."""
    limit = time.monotonic() + PATIENCE_S
    scenes = house.settings.data_dir / "scenes"
    while not scenes.exists() or any(path.suffix == ".tmp" for path in scenes.iterdir()) or not any(scenes.iterdir()):
        assert time.monotonic() < limit
        time.sleep(0.01)


def wait_for_death(process: int) -> None:
    limit = time.monotonic() + PATIENCE_S
    while is_alive(process):
        assert time.monotonic() < limit
        time.sleep(0.005)


def revive(service: Service, who: str) -> None:
    """Starts what nobody else does: the web process looks after its worker, but nobody after it."""
    if who in ("web", "both"):
        assert service.process is not None
        service.process.wait(30)
        service._close()
        service.start()


@pytest.mark.parametrize("stage", STAGES)
def test_whatever_is_killed_the_scene_appears_once(
    stage: str, longer: Path, undisturbed: Scene4D, tmp_path: Path
) -> None:
    with (
        running(tmp_path / "data", lease_s=LEASE_S) as service,
        House(service.data_dir) as house,
    ):
        job_id = house.reconstruct(house.capture(longer), **OPTIONS).id
        # The last one may be too late: a worker that has lost its service ends what it cannot interrupt.
        for attempt, who in enumerate(("worker", "both", "web"), start=1):
            heard = house.events(job_id)
            kill_in(house, job_id, stage, attempt, victims(service, who))
            revive(service, who)
            assert house.events(job_id)[: len(heard)] == heard
        job = house.ended(job_id, "succeeded")
        states = house.states(job_id)
        assert states.count("succeeded") == 1
        assert states[-1] == "succeeded"
        assert states.count("running") == job.attempt
        assert job.deaths == 2
        check_scene(house, job, undisturbed)


def check_scene(house: House, job: Job, undisturbed: Scene4D) -> None:
    """One scene, whole, and the same as without any kill."""
    with house.database.reading() as session:
        (scene,) = session.scalars(select(Scene))
        artifacts = list(session.scalars(select(Artifact)))
    assert job.result == {"scene": scene.id}
    folder = house.settings.data_dir / "scenes" / scene.id
    assert {row.name for row in artifacts} >= {"scene.json", "scene.safetensors", "report.html", "view/view.json"}
    for row in artifacts:
        data = (folder / row.name).read_bytes()
        assert (row.size, row.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    found = load(folder)
    for pool in ("static", "dynamic"):
        for name, value in vars(getattr(undisturbed, pool)).items():
            assert torch.equal(getattr(getattr(found, pool), name), value), (pool, name)


def test_a_job_that_kills_its_process_every_time_fails_in_the_end(longer: Path, tmp_path: Path) -> None:
    with running(tmp_path / "data", max_attempts=2) as service, House(service.data_dir) as house:
        job_id = house.reconstruct(house.capture(longer), fit__joint__steps=100_000).id
        for attempt in (1, 2):
            house.until(job_id, lambda job, attempt=attempt: job.attempt == attempt and job.stage == "joint")
            os.kill(house.attempt_process(job_id), 9)
        job = house.ended(job_id, "failed")
        assert job.error is not None
        assert "SIGKILL" in job.error["detail"]
        assert service.worker_pids, "the worker outlives its attempts"
