"""The client at a real service, over roads that break and through restarts."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from api.client import Client, JobFailed, ServiceError
from recon4d import events
from recon4d.errors import CaptureError
from recon4d.scene import load
from recon4d.types import SplitRule
from tests import worlds
from tests.api.client.relay import relay
from tests.api.service import Service, running

TINY = {
    "fit.static.count": 400,
    "fit.static.steps": 20,
    "fit.seeds.count": 200,
    "fit.joint.steps": 60,
    "videos": False,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service")) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture folder."""
    world = worlds.capture(seconds=1.3, split=SplitRule(heldout_cameras=("c3",)))
    return worlds.write_capture(world, tmp_path_factory.mktemp("captures") / "bench")


@pytest.fixture(scope="module")
def done(server: Service, folder: Path) -> tuple[str, list[events.Event], str]:
    """A capture, what its reconstruction said, and the job."""
    heard: list[events.Event] = []
    with Client(server.url) as client:
        capture = client.send_folder(folder, on_event=heard.append)
        job = client.reconstruct(capture.id, "fast", TINY, name="first")
        client.wait(job.id, on_event=heard.append)
    return capture.id, heard, job.id


@pytest.fixture
def client(server: Service) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_folder_becomes_a_scene(
    done: tuple[str, list[events.Event], str], client: Client, folder: Path, tmp_path: Path
) -> None:
    capture, heard, job = done
    there = client.capture(capture)
    assert there.ready
    assert there.cameras == ("c0", "c1", "c2", "c3")
    assert {f.filename: f.sha256 for f in there.files}.items() <= hashes(folder).items()
    stages = [event.stage for event in heard if isinstance(event, events.Finished)]
    assert stages[:2] == ["upload", "queue"]
    assert [stage for stage in stages if stage in ("static", "joint", "score")] == ["static", "joint", "score"]
    (scene,) = [s for s in client.scenes() if s.job == job]
    assert client.job(job).result == {"scene": scene.id}
    out = client.download(scene.id, tmp_path / "scene", on_event=heard.append)
    assert load(out).duration_s == pytest.approx(scene.duration_s)
    found = {p.relative_to(out).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in out.rglob("*.*")}
    assert found == {artifact.name: artifact.sha256 for artifact in client.scene(scene.id).artifacts}
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    client.download(scene.id, out)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_what_is_there_is_not_sent_again(
    done: tuple[str, list[events.Event], str], server: Service, folder: Path
) -> None:
    with relay(lambda: server.url) as road, Client(road.url) as client:
        client.send_folder(folder, capture=done[0])
    assert road.passed_up < (folder / "c0.mp4").stat().st_size


def test_uploads_go_on_after_every_cut(server: Service, folder: Path) -> None:
    sizes = sorted(path.stat().st_size for path in folder.glob("*.mp4"))
    cuts = [300, 900, 2000, *(min(sizes) // 4 * n for n in (1, 2, 3, 1, 2, 3))]
    with relay(lambda: server.url, up=cuts) as road, Client(road.url) as client:
        capture = client.send_folder(folder)
    assert road.cuts >= 6
    assert capture.ready
    assert {f.filename: f.sha256 for f in capture.files}.items() <= hashes(folder).items()
    assert capture.uploads == ()


def test_an_answer_that_is_lost_is_asked_for_again_and_done_once(server: Service) -> None:
    with relay(lambda: server.url, down=[1, 40, 150]) as road, Client(road.url) as client:
        capture = client.create_capture("asked again", "notes")
        assert road.cuts == 3
        same = [c.id for c in client.captures() if c.name == "asked again"]
    assert same == [capture.id]


def noise(path: Path, megabytes: float) -> Path:
    """A sound video that does not compress."""
    rng = np.random.default_rng(0)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"qp": "0", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for _ in range(max(2, round(megabytes * 7))):
            frame = av.VideoFrame.from_ndarray(rng.integers(0, 255, (240, 320, 3), np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_an_upload_goes_on_after_the_service_was_killed(tmp_path: Path) -> None:
    video = noise(tmp_path / "noise.mp4", megabytes=6)
    size, killed = video.stat().st_size, []
    with (
        running(tmp_path / "data", worker=False) as server,
        relay(lambda: server.url) as road,
        Client(road.url) as client,
    ):
        capture = client.create_capture("big")

        def on_bytes(count: int) -> None:
            if count > size * (len(killed) + 1) / 3 and len(killed) < 2:
                killed.append(count)
                server.kill_all()
                server.start()

        file = client.upload(capture.id, video, camera="c0", on_bytes=on_bytes)
    assert len(killed) == 2
    assert (file.size, file.sha256) == (size, hashlib.sha256(video.read_bytes()).hexdigest())


def test_an_upload_is_gone_on_with_by_another_process(server: Service, tmp_path: Path) -> None:
    video = noise(tmp_path / "noise.mp4", megabytes=4)
    size = video.stat().st_size

    class Gone(Exception):
        pass

    def leave(count: int) -> None:
        if count > size / 2:
            raise Gone

    with Client(server.url) as client:
        capture = client.create_capture("two").id
        with pytest.raises(Gone):
            client.upload(capture, video, camera="c0", on_bytes=leave)
    with relay(lambda: server.url) as road, Client(road.url) as client:
        for _ in range(200):  # Until the service has noticed that nobody writes any more.
            (upload,) = client.capture(capture).uploads
            if upload["offset"] > size / 4:
                break
            time.sleep(0.05)
        file = client.upload(capture, video, camera="c0")
    assert upload["offset"] > size / 4
    assert road.passed_up < size - upload["offset"] + 10_000
    assert file.sha256 == hashlib.sha256(video.read_bytes()).hexdigest()


def test_events_come_once_and_in_order_through_cuts(
    done: tuple[str, list[events.Event], str], client: Client, server: Service
) -> None:
    told = list(client.events(done[2]))
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    assert told[-1].last
    with relay(lambda: server.url, down=[200, 500, 700, 1500, 2500, 900]) as road, Client(road.url) as cut:
        assert list(cut.events(done[2])) == told
    assert road.cuts == 6
    assert [event.seq for event in client.events(done[2], after=4)] == list(range(5, len(told) + 1))


def test_a_download_goes_on_after_every_cut_and_mends_what_is_damaged(
    done: tuple[str, list[events.Event], str], server: Service, tmp_path: Path
) -> None:
    with relay(lambda: server.url, down=[100, 3000, 9000, 9000, 20_000, 500]) as road, Client(road.url) as client:
        scene = client.scene(str((client.job(done[2]).result or {})["scene"]))
        largest = max(scene.artifacts, key=lambda artifact: artifact.size)
        part = (tmp_path / largest.name).with_name(f".{Path(largest.name).name}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(b"\0" * 1000)
        client.download(scene.id, tmp_path)
    assert road.cuts == 6
    for artifact in scene.artifacts:
        assert hashlib.sha256((tmp_path / artifact.name).read_bytes()).hexdigest() == artifact.sha256, artifact.name
    assert not list(tmp_path.rglob("*.part"))


def test_refusals_say_what_the_service_says(client: Client, folder: Path) -> None:
    with pytest.raises(ServiceError, match="cap_nothing") as error:
        client.capture("cap_nothing")
    assert (error.value.status, error.value.kind) == (404, "not-found")
    capture = client.create_capture("empty").id
    with pytest.raises(ServiceError) as error:
        client.reconstruct(capture)
    assert error.value.status == 409
    client.delete_capture(capture)
    with pytest.raises(ServiceError, match=capture):
        client.capture(capture)


def test_a_job_that_fails_says_why_and_one_that_is_cancelled_too(
    done: tuple[str, list[events.Event], str], client: Client, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ServiceError, match=r"fit\.nonsense") as error:
        client.reconstruct(done[0], options={"fit.nonsense": 1})
    assert error.value.status == 422
    wrong = shutil.copytree(folder, tmp_path / "wrong")
    (wrong / "times.json").write_text("[0, 1, 2]")
    manifest = json.loads((wrong / "capture.json").read_text())
    manifest["cameras"][1]["timestamps"] = "times.json"
    (wrong / "capture.json").write_text(json.dumps(manifest))
    with pytest.raises(JobFailed, match="camera 'c1'") as failed:
        client.wait(client.reconstruct(client.send_folder(wrong).id, "fast", TINY).id)
    assert failed.value.kind == "capture"
    assert failed.value.exit_code == CaptureError.exit_code
    job = client.reconstruct(done[0], "quality")
    client.cancel(job.id)
    with pytest.raises(JobFailed, match="cancelled"):
        client.wait(job.id)


def test_a_check_is_a_job_with_findings(done: tuple[str, list[events.Event], str], client: Client) -> None:
    result = client.wait(client.check(done[0]).id).result
    assert result is not None
    assert all(finding["severity"] != "error" for finding in result["findings"])


def test_the_engines_options_are_told(client: Client) -> None:
    assert "fit.joint.steps" in json.dumps(client.options())
    assert client.info()["version"]


def test_a_picture_is_one(done: tuple[str, list[events.Event], str], client: Client) -> None:
    scene = str((client.job(done[2]).result or {})["scene"])
    picture = client.render(scene, camera="c3", t=0.5, width=64, format="png")
    assert picture.startswith(b"\x89PNG")
