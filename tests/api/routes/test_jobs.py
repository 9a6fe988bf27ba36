"""Jobs over HTTP, on a real service that does no work: what a job says is written here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.jobs._store import Lease
from api.tables import Scene
from tests.api.jobs.house import OPTIONS, House
from tests.api.service import Service, running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("jobs") / "data", worker=False) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


@pytest.fixture(scope="module")
def house(service: Service) -> Iterator[House]:
    """The service's own tables, for writing what workers write."""
    with House(service.data_dir) as house:
        yield house


@pytest.fixture(scope="module")
def capture(house: House, tiny: Path) -> str:
    return house.capture(tiny)


def working(house: House, capture: str) -> Lease:
    """A job that runs, as far as the tables know."""
    job = house.jobs.submit("reconstruct", capture, {"preset": "fast", "options": {}}, name="n")
    for _ in range(100):
        taken = house.jobs.claim(("reconstruct", "check"), "cpu")
        assert taken is not None
        assert taken.owner is not None
        if taken.id == job.id:
            return Lease(house.database, job.id, taken.owner)
    raise AssertionError("the job was never taken")


def step(number: int) -> dict[str, Any]:
    return {"event": "progress", "stage": "joint", "step": number, "total": 10}


def read_stream(answer: httpx.Response) -> list[tuple[int, dict[str, Any]]]:
    """Ids and data of a stream's events until it ends."""
    found, number = [], 0
    for line in answer.iter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            data = json.loads(line[6:])
        elif not line and number:
            assert data["seq"] == number
            found.append((number, data["data"]))
            number = 0
    return found


def test_a_reconstruction_is_queued_and_told_about(client: httpx.Client, capture: str) -> None:
    body = {"capture": capture, "preset": "fast", "options": OPTIONS, "heldout_cameras": ["c1"]}
    answer = client.post("/v1/reconstructions", json=body)
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert answer.headers["Location"] == f"/v1/reconstructions/{job['id']}" == job["links"]["self"]
    assert (job["kind"], job["state"], job["subject"], job["name"]) == ("reconstruct", "queued", capture, "tiny")
    assert job["request"] == {"preset": "fast", "options": OPTIONS, "slot": None, "heldout_cameras": ["c1"]}
    for address in (f"/v1/reconstructions/{job['id']}", f"/v1/jobs/{job['id']}"):
        assert client.get(address).json() == job
    for link in ("events", "logs", "subject"):
        assert client.get(job["links"][link], params={"after": 0} if link == "events" else None).status_code == 200
    assert client.post(job["links"]["cancel"]).json()["state"] == "cancelled"


def test_lists_are_paged_and_filtered(client: httpx.Client, capture: str) -> None:
    checks = [client.post(f"/v1/captures/{capture}/check").json()["id"] for _ in range(3)]
    found, cursor = [], None
    for _ in range(10):
        page = client.get("/v1/jobs", params={"kind": "check", "limit": 2, **({"cursor": cursor} if cursor else {})})
        found += [job["id"] for job in page.json()["items"]]
        cursor = page.json()["next"]
        if cursor is None:
            break
    assert found == checks[::-1]
    kinds = {job["kind"] for job in client.get("/v1/reconstructions").json()["items"]}
    assert kinds == {"reconstruct"}
    for id in checks:
        assert client.get(f"/v1/reconstructions/{id}").status_code == 404
        client.post(f"/v1/jobs/{id}/cancel")
    states = {job["state"] for job in client.get("/v1/jobs", params={"state": "cancelled"}).json()["items"]}
    assert states == {"cancelled"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"options": {"fit.joint.stepz": 5}}, "stepz"),
        ({"options": {"fit.joint.steps": 0}}, "joint.steps is 0"),
        ({"options": {"fit.joint.steps": "many"}}, "many"),
        ({"options": {"fit": 1}}, "group"),
        ({"slot": "nvidia:7"}, "there are cpu"),
        ({"preset": "best"}, "preset"),
        ({"heldout_cameras": ["nobody"]}, "nobody"),
    ],
)
def test_what_the_engine_would_not_take_is_refused_at_once(
    client: httpx.Client, capture: str, change: dict[str, Any], word: str
) -> None:
    answer = client.post("/v1/reconstructions", json={"capture": capture, "preset": "fast"} | change)
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert word in answer.json()["detail"]


def test_an_incomplete_capture_is_refused_with_what_is_missing(client: httpx.Client) -> None:
    empty = client.post("/v1/captures", json={"name": "empty"}).json()
    for answer in (
        client.post("/v1/reconstructions", json={"capture": empty["id"]}),
        client.post(f"/v1/captures/{empty['id']}/check"),
    ):
        assert (answer.status_code, answer.json()["missing"]) == (409, empty["missing"])
    assert client.post("/v1/reconstructions", json={"capture": "cap_nothing"}).status_code == 404


def test_a_stream_ends_with_the_job_and_goes_on_where_it_broke_off(
    client: httpx.Client, house: House, capture: str
) -> None:
    lease = working(house, capture)
    url = f"/v1/reconstructions/{lease.job_id}/events"

    def write() -> None:
        for number in range(10):
            lease.say(step(number), "joint", 0.5, None)
        lease.succeed(lambda session: {"scene": "scn_x"})

    with client.stream("GET", url, headers={"Accept": "text/event-stream"}) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["X-Accel-Buffering"] == "no"
        writer = threading.Thread(target=write)
        writer.start()
        heard = read_stream(answer)
        writer.join()
    assert [number for number, _ in heard] == list(range(1, 14))
    assert [data for _, data in heard] == house.events(lease.job_id)
    for last in (0, 1, 7, 12):
        with client.stream("GET", url, headers={"Last-Event-ID": str(last)}) as answer:
            assert read_stream(answer) == heard[last:]
    assert client.get(url, headers={"Last-Event-ID": "13"}).status_code == 204
    with client.stream("GET", url, params={"after": 7}, headers={"Accept": "text/event-stream"}) as answer:
        assert read_stream(answer) == heard[7:]


def test_polling_waits_for_the_next_event(client: httpx.Client, house: House, capture: str) -> None:
    lease = working(house, capture)
    url = f"/v1/jobs/{lease.job_id}/events"
    page = client.get(url, params={"after": 0}).json()
    assert [item["seq"] for item in page["items"]] == [1, 2]
    assert (page["next"], page["ended"]) == (2, False)
    assert client.get(url, params={"after": 2}).json() == {"items": [], "next": 2, "ended": False}
    later = threading.Timer(0.5, lease.say, (step(1), "joint", 0.5, None))
    later.start()
    page = client.get(url, params={"after": 2, "wait": 30}).json()
    later.join()
    assert [item["data"] for item in page["items"]] == [step(1)]
    lease.succeed(lambda session: {})
    page = client.get(url, params={"after": 3, "wait": 30}).json()
    assert (page["next"], page["ended"]) == (4, True)
    assert client.get(url, params={"after": 4, "wait": 30}).json() == {"items": [], "next": 4, "ended": True}
    for bad in ({"after": -1}, {"after": 0, "wait": 31}):
        assert client.get(url, params=bad).status_code == 422


def test_logs_are_read_a_part_at_a_time(client: httpx.Client, house: House, capture: str) -> None:
    lease = working(house, capture)
    url = f"/v1/jobs/{lease.job_id}/logs"
    assert client.get(url).headers["X-Next-Offset"] == "0"
    folder = house.jobs.folder(lease.job_id)
    folder.mkdir(parents=True)
    (folder / "log.txt").write_text("first\n")
    answer = client.get(url)
    assert (answer.text, answer.headers["X-Next-Offset"]) == ("first\n", "6")
    with (folder / "log.txt").open("a") as log:
        log.write("wärme\n")
    answer = client.get(url, params={"offset": 6})
    assert (answer.text, answer.headers["X-Next-Offset"]) == ("wärme\n", "13")
    lease.succeed(lambda session: {})


def test_restarting_changes_what_is_said_and_keeps_the_rest(client: httpx.Client, house: House, capture: str) -> None:
    body = {"capture": capture, "preset": "fast", "options": OPTIONS}
    job = client.post("/v1/reconstructions", json=body).json()
    assert client.post(f"/v1/reconstructions/{job['id']}/restart").status_code == 409
    client.post(f"/v1/jobs/{job['id']}/cancel")
    changes = {"options": {"fit.joint.steps": 300}, "preset": "quality"}
    again = client.post(f"/v1/reconstructions/{job['id']}/restart", json=changes).json()
    assert again["continues"] == job["id"]
    assert again["request"] == job["request"] | {"preset": "quality", "options": OPTIONS | changes["options"]}
    bad = client.post(f"/v1/reconstructions/{job['id']}/restart", json={"options": {"fit.joint.steps": -1}})
    assert bad.status_code == 422
    assert client.delete(f"/v1/jobs/{job['id']}").status_code == 409
    client.post(f"/v1/jobs/{again['id']}/cancel")
    assert client.delete(f"/v1/jobs/{job['id']}").status_code == 204
    assert client.get(f"/v1/jobs/{job['id']}").status_code == 404


def test_files_are_named_not_pathed(client: httpx.Client, house: House, capture: str) -> None:
    job = client.post(f"/v1/captures/{capture}/check").json()
    files = house.jobs.folder(job["id"]) / "files"
    files.mkdir(parents=True)
    (files / "camera-0.jpg").write_bytes(b"picture")
    home = f"/v1/jobs/{job['id']}/files"
    answer = client.get(f"{home}/camera-0.jpg")
    assert (answer.content, answer.headers["Content-Type"]) == (b"picture", "image/jpeg")
    for name in ("..%2Flog.txt", "%2e%2e", ".lock", "preview.jpg", "camera-0.jpg%00", "%2Fetc%2Fpasswd"):
        answer = client.get(f"{home}/{name}")
        assert answer.status_code == 404, name
        assert answer.headers["Content-Type"] == "application/problem+json"
    client.post(f"/v1/jobs/{job['id']}/cancel")


def test_a_bundle_is_queued_with_its_own_files_alone(client: httpx.Client, house: House) -> None:
    with house.database.writing() as session:
        session.add(Scene(id="scn_bench", name="bench", facts={}))
    body = {"scene": "scn_bench", "config": {"licence": "CC0-1.0", "robot": {"mjcf": "arm.xml", "site": "tip"}}}
    answer = client.post("/v1/bundles", json=body | {"files": {"arm.xml": "<mujoco/>"}})
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert (job["kind"], job["subject"], job["name"]) == ("bundle", "scn_bench", "bench")
    assert job["request"] == {"config": body["config"], "files": ["arm.xml"]}
    assert client.get(answer.headers["Location"]).json() == job
    for change, status, word in (
        ({}, 422, "arm.xml"),
        ({"files": {"arm.xml": "<mujoco><include file='/etc/passwd'/></mujoco>"}}, 422, "leads out"),
        ({"scene": "scn_nothing"}, 404, "scn_nothing"),
    ):
        answer = client.post("/v1/bundles", json=body | change)
        assert answer.status_code == status
        assert word in answer.json()["detail"]
    client.post(f"/v1/jobs/{job['id']}/cancel")


def test_a_service_that_ends_ends_its_streams(tiny: Path, tmp_path: Path) -> None:
    with running(tmp_path / "data", worker=False) as service, House(service.data_dir) as house:
        lease = working(house, house.capture(tiny))
        url = f"{service.url}/v1/jobs/{lease.job_id}/events"
        with httpx.stream("GET", url, headers={"Accept": "text/event-stream"}, timeout=60) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            assert service.stop() == 0
            assert [line for line in lines if line.startswith("id: ")] == ["id: 1", "id: 2"]
