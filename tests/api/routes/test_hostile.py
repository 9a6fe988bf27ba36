"""What strangers may send: the service stays up, says no, and keeps nothing of it."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import worlds
from tests.api import tus
from tests.api.service import Service, running

FILES_ALLOWED = 16


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("hostile") / "data"
    with running(folder, worker=False, max_capture_files=FILES_ALLOWED) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client
        # Whatever a test did: the service lives, and no byte is left once its captures are gone.
        assert client.get("/livez").status_code == 200
        while captures := client.get("/v1/captures?limit=100").json()["items"]:
            for capture in captures:
                assert client.delete(f"/v1/captures/{capture['id']}").status_code == 204
        assert list((service.data_dir / "uploads").iterdir()) == []
        assert list((service.data_dir / "captures").iterdir()) == []


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = worlds.write_capture(worlds.capture(cameras=2, seconds=0.2), tmp_path_factory.mktemp("tiny"))
    return (folder / "c0.mp4").read_bytes()


def box(kind: bytes, content: bytes) -> bytes:
    return (8 + len(content)).to_bytes(4, "big") + kind + content


def zipped() -> bytes:
    target = BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("../../evil.txt", "x" * 1000)
    return target.getvalue()


FTYP = box(b"ftyp", b"isom\0\0\2\0isomiso2avc1mp41")
PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
NOT_VIDEOS = {
    "nothing": b"",
    "one byte": b"\0",
    "text": b"hello",
    "a page": b"<html><script>alert(1)</script></html>",
    "a playlist that names a file of the server": PLAYLIST,
    "a concat script": b"ffconcat version 1.0\nfile /etc/passwd\n",
    "a session description": b"v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n",
    "a picture": b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
    "an archive": zipped(),
    "a program": b"\x7fELF" + bytes(200),
    "a video's first box alone": FTYP,
    "a video's first box and a playlist": FTYP + PLAYLIST,
    "a box that is longer than the file": b"\xff\xff\xff\xff" + b"ftyp" + bytes(100),
    "boxes in boxes in boxes": FTYP + box(b"moov", b"") * 1000,
    "Matroska's mark and noise": b"\x1aE\xdf\xa3" + random.Random(0).randbytes(5000),
    "a stream's mark and noise": b"G" + random.Random(1).randbytes(187) + b"G" + random.Random(2).randbytes(5000),
    "AVI's mark and noise": b"RIFF\xff\xff\xff\xffAVI " + random.Random(3).randbytes(5000),
}


def send(client: httpx.Client, capture: str, data: bytes, camera: str = "c0", **form: str) -> httpx.Response:
    return client.post(
        f"/v1/captures/{capture}/files", data={"camera": camera, **form}, files={"file": ("clip.mp4", data)}
    )


@pytest.mark.parametrize("data", NOT_VIDEOS.values(), ids=NOT_VIDEOS)
def test_what_is_no_video_is_refused_and_gone(client: httpx.Client, data: bytes) -> None:
    capture = tus.capture(client)
    answer = send(client, capture, data)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:recon4d:problem:unreadable-file")
    assert (answer.json()["camera"], answer.json()["file"]) == ("c0", "clip.mp4")
    upload = tus.begin(client, capture, len(data))
    tus.append(client, upload, 0, data)
    committed = client.post(f"{upload}/commit", json={"sha256": hashlib.sha256(data).hexdigest()})
    assert committed.status_code == 422
    assert client.head(upload).status_code == 404
    assert client.get(f"/v1/captures/{capture}").json()["files"] == []


def test_a_video_with_something_hidden_behind_it_keeps_its_own_suffix(client: httpx.Client, video: bytes) -> None:
    kept = send(client, tus.capture(client), video + zipped() + b"<script>")
    assert kept.status_code == 201
    broken = bytearray(video)
    for place in random.Random(4).sample(range(len(video)), 200):
        broken[place] ^= 0xFF
    for cut in (video[: len(video) // 2], video[:-1], bytes(broken)):
        assert send(client, tus.capture(client), cut).status_code in (201, 422)


@pytest.mark.parametrize(
    "camera", ["../../../etc/passwd", "..", ".", "/abs", "a\\b", "a\0b", "a\nb", "", " ", " a", "\u202eabc", "x" * 121]
)
def test_names_that_lead_anywhere_are_refused(client: httpx.Client, video: bytes, camera: str) -> None:
    assert send(client, tus.capture(client), video, camera).status_code == 422


@pytest.mark.parametrize("name", ["../../../../tmp/evil.mp4", "C:\\evil.mp4", "evil\0.mp4", "e\r\nvil.mp4", "x" * 5000])
def test_a_file_lies_where_the_service_says(client: httpx.Client, service: Service, video: bytes, name: str) -> None:
    capture = tus.capture(client)
    upload_headers = {
        **tus.BYTES,
        "Upload-Length": str(len(video)),
        "Upload-Metadata": tus.metadata(camera="c0", kind="video", filename=name),
    }
    made = client.post(f"/v1/captures/{capture}/uploads", headers=upload_headers, content=video)
    whole = {"sha256": hashlib.sha256(video).hexdigest()}
    kept = client.post(f"{made.headers['Location']}/commit", json=whole).json()
    assert not set(kept["filename"]) & set("/\\\0\r\n")
    assert len(kept["filename"]) <= 200
    (path,) = (service.data_dir / "captures" / capture).iterdir()
    assert path.name == f"{kept['id']}.mp4"


@pytest.mark.parametrize("seed", range(3))
def test_lying_lengths_leave_no_more_than_was_promised(client: httpx.Client, service: Service, seed: int) -> None:
    rng, capture = random.Random(seed), tus.capture(client)
    for number in range(FILES_ALLOWED):
        promised, sent = rng.randrange(2000), rng.randrange(4000)
        upload = tus.begin(client, capture, promised, f"c{number}")
        status = tus.append(client, upload, 0, rng.randbytes(sent)).status_code
        assert status == (204 if sent <= promised else 413)
        assert client.post(f"{upload}/commit", json={"sha256": "0" * 64}).status_code in (409, 422)
        path = service.data_dir / "uploads" / f"{upload.rpartition('/')[2]}.part"
        assert not path.exists() or path.stat().st_size <= promised


def many_tiny_files(client: httpx.Client, count: int) -> None:
    """Eight at a time, so that they race for the last places."""
    capture = tus.capture(client)

    def send_one(number: int) -> int:
        words = tus.metadata(camera=f"c{number}", kind="video")
        headers = {**tus.BYTES, "Upload-Length": "1", "Upload-Metadata": words}
        return client.post(f"/v1/captures/{capture}/uploads", headers=headers, content=b"x").status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(send_one, range(count)))
    assert statuses == {201: FILES_ALLOWED, 409: count - FILES_ALLOWED}


def test_many_tiny_files_end_at_the_limit(client: httpx.Client) -> None:
    many_tiny_files(client, 100)


@pytest.mark.slow
def test_ten_thousand_tiny_files_end_at_the_limit(client: httpx.Client) -> None:
    many_tiny_files(client, 10_000)


TIMES = {
    "nothing": b"",
    "words": b"one two",
    "backwards": b"0.1 0.2 0.15",
    "twice": b"[0.1, 0.1]",
    "not a number": b"[0.1, NaN]",
    "endless": b"[0.1, Infinity]",
    "deep": b"[" * 100_000,
    "a number too long": b"[1" + b"0" * 5000 + b"]",
    "an object without them": b'{"frames": [0.1]}',
    "another alphabet": "１ ２".encode("utf-16"),
}


@pytest.mark.parametrize("data", TIMES.values(), ids=TIMES)
def test_what_is_no_list_of_times_is_refused(client: httpx.Client, data: bytes) -> None:
    answer = send(client, tus.capture(client), data, kind="timestamps")
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:recon4d:problem:unreadable-file")


def rig(**changes: Any) -> dict[str, Any]:
    """A sound calibration of two cameras, the first one's fields changed."""
    manifest = json.loads(Path("samples/bench/capture.json").read_text())
    first, second = manifest["cameras"][:2]
    return {"version": 1, "cameras": [{**first, **changes}, second]}


DEEP: Any = []
for _ in range(500):
    DEEP = [DEEP]

RIGS: dict[str, Any] = {
    "nothing": b"",
    "noise": b"\xff\xfe\x00",
    "deep": b"[" * 200_000,
    "a list": [],
    "a number": 7,
    "no cameras": {"version": 1, "cameras": []},
    "half a letter": b'{"version": 1, "cameras": [{"name": "\\ud800"}]}',
    "not a number": b'{"version": 1, "cameras": [{"name": "a", "width": NaN}]}',
    "nested": rig(K=DEEP),
    "a huge picture": rig(width=10**9, height=10**9),
    "a huge number": rig(width=10**400),
    "a hugely long number": rig(time_offset_s=10**4000),
    "a number out of range": rig(K=[[1e308, 0, 1e308], [0, 1e308, 1e308], [0, 0, 1]]),
    "numbers that are text": rig(K="three by three"),
    "a name that leads out": rig(name="../evil"),
    "a lens too strong": rig(distortion={"model": "opencv", "coefficients": [1e300] * 5}),
    "too many": {"version": 1, "cameras": [{"name": str(i)} for i in range(1000)]},
    "files that lead out": {"../../evil.json": {}, "cameras.json": {}},
    "files of no layout": {"cameras.json": {"1": {"X_WC": 1}}},
}


@pytest.mark.parametrize("body", RIGS.values(), ids=RIGS)
def test_what_is_no_calibration_is_refused_with_reasons(client: httpx.Client, body: Any) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    capture = tus.capture(client)
    answer = client.put(f"/v1/captures/{capture}/calibration", content=content)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"]
    assert client.get(f"/v1/captures/{capture}").json()["calibrated"] is False


def test_bytes_that_are_no_http_hurt_nobody(client: httpx.Client, service: Service) -> None:
    for path in ("/v1/captures/%00", "/v1/captures/..%2f..%2fetc", "/v1/uploads/%ff", "/v1/captures/" + "x" * 5000):
        assert client.get(path).status_code in (404, 405)
    form = client.post(
        f"/v1/captures/{tus.capture(client)}/files",
        content=b"--x\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\nno end",
        headers={"Content-Type": "multipart/form-data; boundary=x"},
    )
    assert form.status_code in (400, 422)
