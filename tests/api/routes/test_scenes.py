"""Scenes over HTTP, against a real service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import httpx
import numpy as np
import pytest

from api.database import Database
from api.keys import create_key, revoke_key
from api.settings import Settings
from api.storage import add_scene, scene_folder
from recon4d.export import read_ply
from recon4d.geometry import look_at
from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.scene import load
from recon4d.types import Camera, Cameras
from tests.api import scenes
from tests.api.service import Service, kill, running, wait_until
from tests.api.sessions_of import sessions_of


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("scenes") / "data", worker=False) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


def put(service: Service, folder: Path, name: str = "bench") -> str:
    settings = Settings(data_dir=service.data_dir)
    database = Database(settings.database)
    try:
        return add_scene(database, settings, scenes.scene_folder(folder), name=name)
    finally:
        database.close()


@pytest.fixture(scope="module")
def scene_id(service: Service, tmp_path_factory: pytest.TempPathFactory) -> str:
    return put(service, tmp_path_factory.mktemp("made") / "out")


def problem(answer: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:recon4d:problem:{kind}"
    return answer.json()


def test_a_scene_tells_of_itself(client: httpx.Client, service: Service, scene_id: str) -> None:
    told = client.get(f"/v1/scenes/{scene_id}").json()
    scene = load(scene_folder(Settings(data_dir=service.data_dir), scene_id))
    assert told["cameras"] == [camera.name for camera in scene.cameras]
    assert (told["splats"], told["duration_s"], told["preset"]) == (scene.splats, scene.duration_s, None)
    assert told["scores"]["train"]["psnr"] == 30.5
    assert "per_time" not in told["scores"]
    for file in told["artifacts"]:
        data = client.get(file["url"])
        assert (len(data.content), hashlib.sha256(data.content).hexdigest()) == (file["size"], file["sha256"])
        assert data.headers["content-type"].partition(";")[0] == file["media_type"]
    assert client.get(told["thumbnail"]).content[:2] == b"\xff\xd8"
    problem(client.get("/v1/scenes/scn_none"), 404, "not-found")


def test_scenes_are_listed_newest_first_by_pages(
    client: httpx.Client, service: Service, scene_id: str, tmp_path: Path
) -> None:
    more = [put(service, tmp_path / str(k), name=f"take {k}") for k in range(2)]
    seen, cursor = [], None
    for _ in range(3):
        page = client.get("/v1/scenes", params={"limit": 1} | ({"cursor": cursor} if cursor else {})).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
    assert seen == [*reversed(more), scene_id]
    assert cursor is None
    for other in more:
        assert client.delete(f"/v1/scenes/{other}").status_code == 204
        problem(client.get(f"/v1/scenes/{other}/artifacts/scene.json"), 404, "not-found")
        problem(client.delete(f"/v1/scenes/{other}"), 404, "not-found")


def test_parts_of_files_and_what_the_client_has_already(client: httpx.Client, scene_id: str) -> None:
    address = f"/v1/scenes/{scene_id}/artifacts/videos/rig.mp4"
    whole = client.get(address)
    etag = whole.headers["etag"]
    assert etag == f'"{hashlib.sha256(whole.content).hexdigest()}"'
    assert whole.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert "content-encoding" not in client.get(address, headers={"Accept-Encoding": "gzip, br"}).headers
    head = client.head(address)
    assert head.content == b""
    assert {name: head.headers[name] for name in ("etag", "content-length", "accept-ranges")} == {
        "etag": etag,
        "content-length": str(len(whole.content)),
        "accept-ranges": "bytes",
    }
    for wanted, part in (
        ("bytes=10-19", slice(10, 20)),
        ("bytes=-7", slice(-7, None)),
        ("bytes=10000-", slice(10000, None)),
    ):
        answer = client.get(address, headers={"Range": wanted})
        assert answer.status_code == 206
        assert answer.content == whole.content[part]
        assert answer.headers["content-range"].endswith(f"/{len(whole.content)}")
    two = client.get(address, headers={"Range": "bytes=0-1,5-6"})
    assert two.headers["content-type"].startswith("multipart/byteranges")
    for tags in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        answer = client.get(address, headers={"If-None-Match": tags})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert client.get(address, headers={"If-None-Match": '"other"'}).status_code == 200
    assert client.get(address, headers={"Range": "bytes=0-1", "If-Range": etag}).status_code == 206
    assert client.get(address, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status_code == 200
    for wrong in ("bytes=20000-", "bytes=5-2", "bytes=-0", "bytes=x-y", "bytes=", "rows=1-2", "bytes=1-" + "9" * 30):
        answer = client.get(address, headers={"Range": wrong})
        problem(answer, 416, "no-such-range")
        assert answer.headers["content-range"] == f"bytes */{len(whole.content)}"


@pytest.mark.parametrize(
    "name", ["../../recon4d.db", "..%2F..%2Frecon4d.db", "work/joint.safetensors", ".lock", "videos", "%00", "a" * 5000]
)
def test_nothing_else_is_given_away(client: httpx.Client, scene_id: str, name: str) -> None:
    assert client.get(f"/v1/scenes/{scene_id}/artifacts/{name}").status_code == 404


def test_pages_of_the_engine_run_no_script(client: httpx.Client, scene_id: str) -> None:
    answer = client.get(f"/v1/scenes/{scene_id}/artifacts/report.html")
    security = answer.headers["content-security-policy"]
    assert "default-src 'none'" in security
    assert "script" not in security
    assert answer.headers["x-content-type-options"] == "nosniff"


def drawn(service: Service, scene_id: str, camera: Camera | None, t: float, output: str = "rgb") -> np.ndarray:
    """What the engine itself draws."""
    scene = load(scene_folder(Settings(data_dir=service.data_dir), scene_id))
    made = rasterize(
        Gaussians4D.from_scene(scene).at(t),
        Cameras.of(camera or scene.cameras[0]),
        background=scene.background,
        antialiased=scene.antialiased,
    )
    return getattr(made, output)[0].numpy()


def picture(answer: httpx.Response) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    found = cv2.imdecode(np.frombuffer(answer.content, np.uint8), cv2.IMREAD_UNCHANGED)
    assert found is not None
    return found


def test_renders_are_what_the_engine_draws(client: httpx.Client, service: Service, scene_id: str) -> None:
    address = f"/v1/scenes/{scene_id}/render"
    scene = load(scene_folder(Settings(data_dir=service.data_dir), scene_id))
    first = scene.cameras[0]
    expected = (drawn(service, scene_id, first, 0.25) * 255 + 0.5).astype(np.uint8)
    answer = client.get(address, params={"t": 0.25})
    assert np.array_equal(picture(answer)[..., ::-1], expected)
    assert answer.headers["content-type"] == "image/png"
    jpeg = client.get(address, params={"t": 0.25, "format": "jpeg"})
    assert jpeg.headers["content-type"] == "image/jpeg"
    assert np.abs(picture(jpeg)[..., ::-1].astype(int) - expected).mean() < 4
    moved = picture(client.get(address, params={"t": 0.75}))[..., ::-1]
    assert (np.abs(moved.astype(int) - expected).max(-1) > 20).sum() > 5  # The ball is elsewhere.
    depth = client.get(address, params={"t": 0.25, "format": "depth", "camera": scene.cameras[1].name})
    metres = picture(depth) * float(depth.headers["x-depth-scale"])
    assert picture(depth).dtype == np.uint16
    assert np.abs(metres - drawn(service, scene_id, scene.cameras[1], 0.25, "depth")).max() <= 0.00051


def test_renders_from_anywhere_and_of_any_size(client: httpx.Client, service: Service, scene_id: str) -> None:
    address = f"/v1/scenes/{scene_id}/render"
    lens = load(scene_folder(Settings(data_dir=service.data_dir), scene_id)).cameras[0]
    T = look_at(np.array([0.9, -0.3, 0.5]), np.zeros(3))
    camera = Camera(name="free", width=65, height=48, K=lens.K, T_cam_world=T)
    expected = (drawn(service, scene_id, camera, 0.5) * 255 + 0.5).astype(np.uint8)
    placed = client.get(address, params={"position": "0.9,-0.3,0.5", "look_at": "0,0,0", "t": 0.5})
    posed = client.get(address, params={"pose": ",".join(map(str, T.flatten().tolist())), "t": 0.5})
    for answer in (placed, posed):
        assert np.array_equal(picture(answer)[..., ::-1], expected)
    sizes = ({"width": 130}, (96, 130)), ({"height": 96}, (96, 130)), ({"width": 20, "height": 30}, (30, 20))
    for params, shape in sizes:
        assert picture(client.get(address, params=params)).shape[:2] == shape


def test_a_render_that_the_client_has_is_not_drawn_again(client: httpx.Client, scene_id: str) -> None:
    address = f"/v1/scenes/{scene_id}/render"
    etags = {t: client.get(address, params={"t": t}).headers["etag"] for t in (0.1, 0.2)}
    assert etags[0.1] != etags[0.2]
    again = client.get(address, params={"t": 0.1}, headers={"If-None-Match": etags[0.1]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(address, params={"t": 0.1}, headers={"If-None-Match": etags[0.2]}).status_code == 200


@pytest.mark.parametrize(
    "params",
    [
        {"camera": "no such"},
        {"t": 1.5},
        {"t": "nan"},
        {"t": -1},
        {"width": 0},
        {"width": 5000},
        {"width": 4096, "height": 4096},
        {"format": "gif"},
        {"pose": "1,2,3"},
        {"pose": ",".join(["nan"] * 16)},
        {"pose": ",".join(["2"] * 16)},
        {"position": "0,0,1"},
        {"look_at": "0,0,1"},
        {"position": "0,0,1", "look_at": "0,0,1"},
        {"position": "0,0,inf", "look_at": "0,0,1"},
        {"position": "0,0,1", "look_at": "0,0,0", "pose": ",".join(["0"] * 16)},
    ],
    ids=str,
)
def test_views_that_are_none(client: httpx.Client, scene_id: str, params: dict[str, Any]) -> None:
    answer = client.get(f"/v1/scenes/{scene_id}/render", params=params)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Traceback" not in answer.text


def test_a_ply_of_an_instant(client: httpx.Client, service: Service, scene_id: str, tmp_path: Path) -> None:
    address = f"/v1/scenes/{scene_id}/export"
    answer = client.get(address, params={"format": "ply", "t": 0.5})
    assert answer.status_code == 200, answer.text
    (tmp_path / "scene.ply").write_bytes(answer.content)
    splats = read_ply(tmp_path / "scene.ply")
    scene = load(scene_folder(Settings(data_dir=service.data_dir), scene_id))
    assert np.allclose(splats.means.numpy(), Gaussians4D.from_scene(scene).at(0.5).means.numpy(), atol=1e-6)
    again = client.get(address, params={"format": "ply", "t": 0.5}, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    assert list((service.data_dir / "exports").iterdir()) == []
    problem(client.get(address, params={"t": 9}), 422, "bad-render")


def test_links_work_without_a_key_for_one_file(client: httpx.Client, service: Service, scene_id: str) -> None:
    """The last test of this service, which wants keys from here on."""
    database = Database(Settings(data_dir=service.data_dir).database)
    key, text = create_key(database, "reader", ["read"])
    address = f"/v1/scenes/{scene_id}/links"
    problem(client.post(address, json={"name": "scores.json"}), 401, "key-needed")
    held = {"Authorization": f"Bearer {text}"}
    problem(client.delete(f"/v1/scenes/{scene_id}", headers=held), 403, "forbidden")
    link = client.post(address, json={"name": "scores.json", "seconds": 60}, headers=held)
    assert link.status_code == 201, link.text
    assert json.loads(client.get(link.json()["url"]).content) == scenes.SCORES
    query = link.json()["url"].partition("?")[2]
    problem(client.get(f"/v1/scenes/{scene_id}/artifacts/scene.json?{query}"), 403, "bad-link")
    problem(client.post(address, json={"name": "nothing"}, headers=held), 404, "not-found")
    problem(client.post(address, json={"name": "scores.json", "seconds": 9999}, headers=held), 422, "invalid-request")
    revoke_key(database, key.id)
    database.close()


def painters(service: Service) -> list[int]:
    return sessions_of(service, "r4d-paint")


def test_the_process_that_draws_is_replaced_and_ends_when_idle(tmp_path: Path) -> None:
    with running(tmp_path / "data", worker=False, session_idle_s=1.5) as service, service.client() as client:
        address = f"/v1/scenes/{put(service, tmp_path / 'out')}/render"
        assert painters(service) == []
        before = client.get(address)
        (first,) = painters(service)
        kill(first)
        assert client.get(address).content == before.content
        (second,) = painters(service)
        assert second != first
        wait_until(lambda: not painters(service), 30, "the end of the idle painter")
        assert client.get(address).content == before.content
        log = service.log
    assert "Traceback" not in log.read_text()
