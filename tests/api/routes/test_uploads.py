"""Uploads over HTTP, against a real service: in pieces, interrupted, by a client of the protocol's makers."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from tusclient.client import TusClient

from api.database import Database
from api.settings import Settings
from api.tables import Upload
from tests import worlds
from tests.api import tus
from tests.api.service import Service, running, wait_until

SYNC_EVERY = 16 * 2**20
"""The service makes sure of what has arrived at least this often."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("uploads") / "data"
    with running(folder, worker=False, max_upload_bytes=64 * 2**20, max_capture_files=4) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = worlds.write_capture(worlds.capture(cameras=2, seconds=0.2), tmp_path_factory.mktemp("tiny"))
    return folder / "c0.mp4"


def test_pieces_make_the_file_that_was_sent(client: httpx.Client, video: Path) -> None:
    data, capture = video.read_bytes(), tus.capture(client)
    upload = tus.begin(client, capture, len(data))
    cuts = [0, 1, 7, len(data) // 2, len(data)]
    for first, last in pairwise(cuts):
        assert tus.stands(client, upload) == first
        answer = tus.append(client, upload, first, data[first:last])
        assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, str(last))
    (state,) = client.get(f"/v1/captures/{capture}").json()["uploads"]
    assert (state["url"], state["offset"], state["length"]) == (upload, len(data), len(data))
    whole = {"sha256": hashlib.sha256(data).hexdigest()}
    first = client.post(f"{upload}/commit", json=whole)
    assert first.status_code == 201
    assert client.post(f"{upload}/commit", json=whole).json() == first.json()
    assert client.get(f"/v1/captures/{capture}").json()["files"] == [first.json()]


def test_the_first_bytes_may_come_with_the_creation(client: httpx.Client, video: Path) -> None:
    data = video.read_bytes()
    headers = {**tus.BYTES, "Upload-Length": str(len(data)), "Upload-Metadata": tus.metadata(camera="c0", kind="video")}
    made = client.post(f"/v1/captures/{tus.capture(client)}/uploads", headers=headers, content=data[:500])
    assert (made.status_code, made.headers["Upload-Offset"]) == (201, "500")
    assert tus.append(client, made.headers["Location"], 500, data[500:]).status_code == 204


def test_a_new_file_takes_the_place_of_the_old_one(client: httpx.Client, service: Service, video: Path) -> None:
    capture, files = tus.capture(client), []
    for _ in range(2):
        form = {"camera": "c0"}
        with video.open("rb") as file:
            sent = client.post(f"/v1/captures/{capture}/files", data=form, files={"file": file})
        assert sent.status_code == 201
        files.append(sent.json())
    assert client.get(f"/v1/captures/{capture}").json()["files"] == files[1:]
    assert [path.stem for path in (service.data_dir / "captures" / capture).iterdir()] == [files[1]["id"]]


def test_a_client_of_the_protocol_gets_its_file_in(client: httpx.Client, service: Service, video: Path) -> None:
    capture = tus.capture(client)
    clip = TusClient(f"{service.url}/v1/captures/{capture}/uploads")
    words = {"camera": "c0", "kind": "video", "filename": "übung.mp4"}
    with video.open("rb") as stream:
        uploader = clip.uploader(file_stream=stream, chunk_size=1000, metadata=words)
        uploader.upload_chunk()
        resumed = clip.uploader(file_stream=stream, chunk_size=1000, url=uploader.url)
        assert resumed.offset == 1000
        resumed.upload()
    sha256 = hashlib.sha256(video.read_bytes()).hexdigest()
    kept = client.post(f"{uploader.url}/commit", json={"sha256": sha256})
    assert (kept.status_code, kept.json()["filename"]) == (201, "übung.mp4")


def test_what_is_spoken_is_told(client: httpx.Client) -> None:
    told = client.options("/v1/uploads").headers
    assert told["Tus-Version"] == "1.0.0"
    assert told["Tus-Extension"] == "creation,creation-with-upload,expiration,termination"
    assert told["Tus-Max-Size"] == str(64 * 2**20)


def test_a_wrong_offset_is_answered_with_the_right_one(client: httpx.Client) -> None:
    upload = tus.begin(client, tus.capture(client), 100)
    for offset in (1, 99, 10**14):
        answer = tus.append(client, upload, offset, b"x")
        assert (answer.status_code, answer.headers["Upload-Offset"]) == (409, "0")
        assert answer.json()["type"] == "urn:recon4d:problem:offset-mismatch"


@pytest.mark.parametrize("announced", [True, False])
def test_more_than_was_announced_is_refused(client: httpx.Client, announced: bool) -> None:
    upload = tus.begin(client, tus.capture(client), 10)
    content = b"x" * 11 if announced else iter([b"x" * 6, b"x" * 5])
    answer = client.patch(upload, headers={**tus.BYTES, "Upload-Offset": "0"}, content=content)
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:recon4d:problem:too-large")
    assert tus.append(client, upload, tus.stands(client, upload), b"x" * 10).status_code in (204, 413)
    assert client.post(f"{upload}/commit", json={"sha256": "0" * 64}).status_code in (409, 422)


@pytest.mark.parametrize(
    ("headers", "status", "word"),
    [
        ({"Upload-Length": "-1"}, 400, "Upload-Length"),
        ({"Upload-Length": "1e3"}, 400, "Upload-Length"),
        ({"Upload-Length": "9" * 40}, 400, "Upload-Length"),
        ({"Upload-Length": str(64 * 2**20 + 1)}, 413, "67,108,864"),
        ({"Upload-Metadata": "camera ###"}, 400, "base64"),
        ({"Upload-Metadata": "camera /w=="}, 400, "UTF-8"),
        ({"Upload-Metadata": tus.metadata(camera="../../etc/passwd")}, 422, "slashes"),
        ({"Upload-Metadata": tus.metadata(camera="a\0b")}, 422, "control"),
        ({"Upload-Metadata": tus.metadata(camera="x" * 500)}, 422, "120 bytes"),
        ({"Upload-Metadata": tus.metadata(kind="video")}, 422, "camera"),
        ({"Upload-Metadata": tus.metadata(camera="c0", kind="script")}, 422, "kind"),
        ({"Tus-Resumable": "0.2.2"}, 412, "1.0.0"),
    ],
)
def test_a_bad_beginning_is_refused_with_a_reason(
    client: httpx.Client, headers: dict[str, str], status: int, word: str
) -> None:
    sound = {**tus.VERSION, "Upload-Length": "10", "Upload-Metadata": tus.metadata(camera="c0", kind="video")}
    answer = client.post(f"/v1/captures/{tus.capture(client)}/uploads", headers={**sound, **headers})
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert word in answer.json()["detail"]


def test_no_more_files_than_allowed(client: httpx.Client) -> None:
    capture = tus.capture(client)
    uploads = [tus.begin(client, capture, 10, f"c{i}") for i in range(4)]
    words = {**tus.VERSION, "Upload-Length": "10", "Upload-Metadata": tus.metadata(camera="c4", kind="video")}
    assert client.post(f"/v1/captures/{capture}/uploads", headers=words).status_code == 409
    assert client.delete(uploads[0], headers=tus.VERSION).status_code == 204
    assert client.head(uploads[0]).status_code == 404
    assert client.post(f"/v1/captures/{capture}/uploads", headers=words).status_code == 201


def test_while_one_request_writes_another_is_turned_away(
    client: httpx.Client, service: Service, tmp_path: Path
) -> None:
    file = tmp_path / "zeros"
    file.write_bytes(bytes(3 * 2**20))
    upload = tus.begin(client, tus.capture(client), 3 * 2**20)
    with closing(tus.send_and_stall(service.url, upload, file, 0, 2**20 + 5)):
        path = service.data_dir / "uploads" / f"{upload.rpartition('/')[2]}.part"
        wait_until(lambda: path.exists() and path.stat().st_size > 0, 20, "the first bytes' arrival")
        for answer in (
            tus.append(client, upload, 0, b"x"),
            client.delete(upload),
        ):
            assert (answer.status_code, answer.json()["type"]) == (423, "urn:recon4d:problem:locked")
    # The slow client is gone: what it had sent counts.
    wait_until(lambda: tus.stands(client, upload) == 2**20 + 5, 20, "the broken request's end")


def test_an_upload_that_nobody_goes_on_with_expires(client: httpx.Client, service: Service) -> None:
    upload = tus.begin(client, tus.capture(client), 10)
    assert tus.append(client, upload, 0, b"12345").status_code == 204
    database = Database(Settings(data_dir=service.data_dir).database)
    with database.writing() as session:
        session.get_one(Upload, upload.rpartition("/")[2]).expires_at = time.time() - 1
    database.close()
    for answer in (tus.append(client, upload, 5, b"67890"), client.head(upload), client.delete(upload)):
        assert answer.status_code == 410


def test_another_hash_is_refused_and_the_right_one_still_counts(client: httpx.Client, video: Path) -> None:
    data = video.read_bytes()
    upload = tus.begin(client, tus.capture(client), len(data))
    early = client.post(f"{upload}/commit", json={"sha256": "0" * 64})
    assert (early.status_code, early.json()["offset"]) == (409, 0)
    tus.append(client, upload, 0, data)
    wrong = client.post(f"{upload}/commit", json={"sha256": "0" * 64})
    assert (wrong.status_code, wrong.json()["camera"]) == (422, "c0")
    assert client.post(f"{upload}/commit", json={"sha256": hashlib.sha256(data).hexdigest()}).status_code == 201


def test_an_upload_goes_on_after_the_service_was_killed(tmp_path: Path, video: Path) -> None:
    file = tus.write_large(video, tmp_path / "large.mp4", 80 * 2**20)
    with running(tmp_path / "data", worker=False) as service:
        upload_with_kills(service, file, kills=2, seed=1)


@pytest.mark.slow
def test_five_gigabytes_go_on_after_twenty_kills(tmp_path: Path, video: Path) -> None:
    file = tus.write_large(video, tmp_path / "large.mp4", 5 * 2**30)
    with running(tmp_path / "data", worker=False) as service:
        upload_with_kills(service, file, kills=20, seed=2)


@pytest.mark.slow
def test_five_gigabytes_take_no_more_memory_than_a_few_pieces(tmp_path: Path, video: Path) -> None:
    file = tus.write_large(video, tmp_path / "large.mp4", 5 * 2**30)
    with running(tmp_path / "data", worker=False) as service, service.client() as client:
        small = tus.begin(client, tus.capture(client), 10)
        tus.append(client, small, 0, b"x" * 10)
        idle = memory_mib(service.web_pid, "VmRSS")
        upload = tus.begin(client, tus.capture(client), file.stat().st_size)
        assert tus.send_rest(service.url, upload, file, 0).status == 204
        whole = {"sha256": sha256_of(file)}
        kept = client.post(f"{upload}/commit", json=whole, timeout=300)
        assert kept.status_code == 201, kept.text
        grown = memory_mib(service.web_pid, "VmHWM") - idle
        assert grown <= 32, f"grew by {grown:.1f} MiB over {idle:.0f}"


def upload_with_kills(service: Service, file: Path, *, kills: int, seed: int) -> None:
    """Sends a file; the service is killed at random places of it, starts again and goes on from where it stands."""
    size, rng = file.stat().st_size, random.Random(seed)
    with service.client() as client:
        upload = tus.begin(client, tus.capture(client), size)
    part = service.data_dir / "uploads" / f"{upload.rpartition('/')[2]}.part"
    for place in sorted(rng.sample(range(2**20, size - 2**20), kills)):
        with service.client() as client:
            offset = tus.stands(client, upload)
        assert offset <= place
        with closing(tus.send_and_stall(service.url, upload, file, offset, place)):
            # What has not filled a piece is still in the process's memory.
            wait_until(lambda place=place: on_disk(part) >= place - 2**20, 120, f"byte {place:,}")
            service.kill_web()
        service.start()
    with service.client() as client:
        offset = tus.stands(client, upload)
        assert place - 2 * SYNC_EVERY < offset <= place
        assert tus.send_rest(service.url, upload, file, offset).status == 204
        kept = client.post(f"{upload}/commit", json={"sha256": sha256_of(file)}, timeout=300)
        assert kept.status_code == 201, kept.text
    assert list((service.data_dir / "uploads").iterdir()) == []


def on_disk(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def memory_mib(pid: int, field: str) -> float:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024
