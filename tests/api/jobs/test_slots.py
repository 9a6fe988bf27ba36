"""A job on a chip sees that chip alone, by the variable of its vendor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import vendors
from tests.api.jobs.house import House

pytestmark = pytest.mark.slow

VISIBLE = "IMAGINARY_VISIBLE_DEVICES"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The imaginary vendor's package, installed; it drives two chips."""
    return vendors.install(tmp_path_factory.mktemp("vendor"))


def variables(process: int) -> dict[str, str]:
    """The environment that a process was given."""
    parts = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    return dict(part.split("=", 1) for part in parts if part)


def test_each_slot_has_a_job_that_sees_its_own_chip_alone(site: Path, tiny: Path, tmp_path: Path) -> None:
    slots = ("imaginary:0", "imaginary:1")
    with House(tmp_path / "data", slots=slots) as house:
        capture = house.capture(tiny)
        jobs = {slot: house.reconstruct(capture, slot=slot, fit__joint__steps=100_000).id for slot in slots}
        third = house.reconstruct(capture).id
        # The worker itself is shown the chips the other way round.
        house.worker(vendors.environment(site, **{VISIBLE: "1,0"}))
        for slot, chip in (("imaginary:0", "1"), ("imaginary:1", "0")):
            job = house.until(jobs[slot], lambda job: job.stage == "ingest" or job.stage == "static")
            assert job.slot == slot
            assert variables(house.attempt_process(job.id))[VISIBLE] == chip
            (run,) = [event for event in house.events(job.id) if event.get("stage") == "run"]
            assert run["detail"].endswith("device imaginary:0"), "to its process the only chip is the first"
        assert house.jobs.get(third).state == "queued"


def test_a_slot_that_is_not_there_says_what_is(site: Path, tiny: Path, tmp_path: Path) -> None:
    with House(tmp_path / "data", slots=("imaginary:1",)) as house:
        job = house.reconstruct(house.capture(tiny))
        house.worker(vendors.environment(site, **{VISIBLE: "1"}))
        job = house.ended(job.id, "failed")
        assert job.error is not None
        assert job.error["type"] == "urn:recon4d:problem:accelerator"
        assert "1 device, 0" in job.error["detail"]
        assert VISIBLE in job.error["detail"]
