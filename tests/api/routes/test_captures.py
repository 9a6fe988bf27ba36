"""Captures over HTTP, against a real service."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.database import Database
from api.settings import Settings
from api.storage import materialise
from recon4d.capture import check
from tests import worlds
from tests.api.service import Service, running

TUS = {"Tus-Resumable": "1.0.0"}
BYTES = {**TUS, "Content-Type": "application/offset+octet-stream"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("captures") / "data", worker=False) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return worlds.write_capture(worlds.capture(cameras=3, seconds=0.4), tmp_path_factory.mktemp("tiny") / "tiny")


def begin(client: httpx.Client, capture: str, camera: str, length: int) -> str:
    metadata = f"camera {b64encode(camera.encode()).decode()},kind {b64encode(b'video').decode()}"
    headers = {**TUS, "Upload-Length": str(length), "Upload-Metadata": metadata}
    answer = client.post(f"/v1/captures/{capture}/uploads", headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"]


def test_a_capture_that_came_in_by_every_way_is_read_by_the_engine(
    client: httpx.Client, service: Service, folder: Path, tmp_path: Path
) -> None:
    made = client.post("/v1/captures", json={"name": "tiny", "notes": "two takes"})
    assert made.status_code == 201
    id = made.json()["id"]
    assert made.headers["Location"] == f"/v1/captures/{id}"
    assert made.json()["missing"] == ["there is no calibration", "there is no video"]
    for video in sorted(folder.glob("*.mp4")):
        data, camera = video.read_bytes(), video.stem
        sha256 = hashlib.sha256(data).hexdigest()
        if camera == "c0":
            form = {"camera": camera, "sha256": sha256}
            sent = client.post(f"/v1/captures/{id}/files", data=form, files={"file": ("../a/c0.mp4", data)})
        else:
            upload = begin(client, id, camera, len(data))
            assert client.patch(upload, headers={**BYTES, "Upload-Offset": "0"}, content=data).status_code == 204
            sent = client.post(f"{upload}/commit", json={"sha256": sha256})
        assert sent.status_code == 201, sent.text
        assert sent.json()["sha256"] == sha256
        assert sent.json()["facts"]["width"] == 96
    assert client.get(f"/v1/captures/{id}").json()["ready"] is False
    rig = client.put(f"/v1/captures/{id}/calibration", content=(folder / "capture.json").read_bytes())
    assert rig.status_code == 200, rig.text
    assert sorted(rig.json()["cameras"]) == ["c0", "c1", "c2"]
    assert rig.json() == client.get(f"/v1/captures/{id}/calibration").json()
    state = client.get(f"/v1/captures/{id}").json()
    assert (state["ready"], state["missing"], state["uploads"]) == (True, [], [])
    assert [file["filename"] for file in state["files"]] == ["c0.mp4", "c1", "c2"]

    settings = Settings(data_dir=service.data_dir)
    read = materialise(Database(settings.database), settings, id, tmp_path / "read")
    assert check(read) == check(folder)
    assert json.loads((read / "capture.json").read_text())["notes"] == "two takes"
    assert client.delete(f"/v1/captures/{id}").status_code == 204
    assert not (service.data_dir / "captures" / id).exists()
    assert check(read) == check(folder)
