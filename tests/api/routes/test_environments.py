"""Environments over HTTP and websockets, against a real service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from api.database import Database
from api.keys import create_key
from api.settings import Settings
from api.storage import add_bundle
from simbridge.adapters.gymnasium import SplatVectorEnv
from simbridge.core import SensorConfig, WorldsConfig
from simbridge.errors import ActionError, RemoteError
from simbridge.remote import RemoteEnv, decode, encode
from tests.api.service import Service, kill, running, wait_until
from tests.api.sessions_of import sessions_of
from tests.simbridge.remote.test_env import same
from tests.simbridge.worlds import saved

OPTIONS: dict[str, Any] = {"cameras": ["front"], "width": 32, "height": 24, "max_steps": 3, "num_envs": 2}
SLOW = {**OPTIONS, "control_hz": 0.01, "num_envs": 1, "max_steps": 100_000, "end_on_success": False}
"""An action of these lasts 20,000 steps of physics."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("bundle") / "bundle")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("environments") / "data", worker=False) as service:
        yield service


@pytest.fixture(scope="module")
def bundle(service: Service, folder: Path) -> str:
    return put(service, folder)


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


@pytest.fixture(scope="module")
def environment(service: Service, bundle: str) -> str:
    return made(service, bundle, OPTIONS)


def put(service: Service, folder: Path) -> str:
    settings = Settings(data_dir=service.data_dir)
    database = Database(settings.database)
    try:
        return add_bundle(database, settings, folder, name="small", scene_id="scn_of_code")
    finally:
        database.close()


def made(service: Service, bundle: str, options: dict[str, Any], task: str = "reach") -> str:
    """The address of a new environment."""
    with service.client() as client:
        answer = client.post("/v1/environments", json={"bundle": bundle, "task": task, "options": options})
        assert answer.status_code == 201, answer.text
        return f"{service.url}/v1/environments/{answer.json()['id']}"


def processes(service: Service) -> list[int]:
    return sessions_of(service, "r4d-worlds")


def all_ended(service: Service) -> Callable[[], bool]:
    return lambda: not processes(service)


@contextmanager
def socket_of(environment: str, query: str = "") -> Iterator[ClientConnection]:
    """A bare connection that has been greeted."""
    with connect(f"{environment.replace('http', 'ws', 1)}/ws?{query}", compression=None, proxy=None) as socket:
        assert decode(heard(socket))["op"] == "hello"
        yield socket


def heard(socket: ClientConnection) -> bytes:
    data = socket.recv(timeout=60)
    assert isinstance(data, bytes)
    return data


def talk(socket: ClientConnection, data: bytes) -> bytes:
    socket.send(data)
    return heard(socket)


def asked(socket: ClientConnection, **message: Any) -> dict[str, Any]:
    return decode(talk(socket, encode(message)))


def test_an_environment_tells_what_it_is(client: httpx.Client, bundle: str, environment: str) -> None:
    told = client.get(environment).json()
    assert (told["bundle"], told["task"], told["options"]["num_envs"]) == (bundle, "reach", 2)
    assert told["facts"]["spaces"]["images/front"] == {"shape": [24, 32, 3], "dtype": "uint8"}
    assert told["facts"]["spaces"]["action"] == {"shape": [3], "dtype": "float32"}
    assert told["facts"]["max_steps"] == 3
    assert told["facts"]["description"]
    assert told["url"] == f"/v1/environments/{told['id']}/ws"
    assert told["id"] in [item["id"] for item in client.get("/v1/environments").json()["items"]]
    of = client.get(f"/v1/bundles/{bundle}").json()
    assert set(of["tasks"]) >= {"reach", "push_block"}
    assert [camera["name"] for camera in of["cameras"]] == ["front", "side", "wrist"]


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"bundle": "bun_none"}, 404, "no bundle"),
        ({"task": "juggle"}, 422, "no task 'juggle'"),
        ({"options": {"cameras": ["nose"]}}, 422, "no camera 'nose'"),
        ({"options": {"control_hz": 333.0}}, 422, "whole number of physics steps"),
        ({"options": {"task_options": {"speed_m": 1}}}, 422, "no option 'speed_m'"),
        ({"options": {"num_envs": 256, "width": 2000, "height": 2000}}, 422, "fewer worlds"),
        ({"options": {"num_envs": 10_000}}, 422, "num_envs"),
        ({"options": {"speed": 3}}, 422, "speed"),
    ],
    ids=str,
)
def test_what_cannot_be_made_is_refused_at_once(
    client: httpx.Client, bundle: str, change: dict[str, Any], status: int, word: str
) -> None:
    answer = client.post("/v1/environments", json={"bundle": bundle, "task": "reach"} | change)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert word in answer.text


def test_worlds_of_the_service_are_those_of_this_process(environment: str, folder: Path, service: Service) -> None:
    sensors = SensorConfig(cameras=("front",), image_size=(32, 24))
    here = SplatVectorEnv(folder, "reach", 2, config=WorldsConfig(sensors=sensors, max_steps=3))
    there = RemoteEnv(environment, images="png", render_mode="rgb_array")
    assert same(here.reset(seed=3), there.reset(seed=3))
    moves = np.random.default_rng(0)
    for _ in range(6):
        actions = moves.uniform(-1, 1, (2, 3))
        assert same(here.step(actions), there.step(actions))
    bad = np.full((2, 3), np.nan)
    with pytest.raises(ActionError, match="not finite"):
        there.step(bad)
    chunk = moves.uniform(-1, 1, (2, 3, 3))
    assert same(here.chunk_step(chunk), there.chunk_step(chunk))
    pictures = there.render()
    assert pictures is not None
    assert pictures[0].shape == (24, 32, 3)
    there.close()
    here.close()
    wait_until(all_ended(service), 30, "the end of the session's process")


def test_each_connection_has_worlds_and_a_process_of_its_own(environment: str, service: Service) -> None:
    wait_until(all_ended(service), 30, "the end of those before")
    one, other = RemoteEnv(environment), RemoteEnv(environment, num_envs=1, autoreset_mode="SameStep")
    assert len(processes(service)) == 2
    first = one.reset(seed=1)[0]
    assert np.array_equal(other.reset(seed=1)[0]["state"][0], first["state"][0])
    one.step(np.ones((2, 3)))
    assert np.array_equal(other.reset(seed=1)[0]["state"][0], first["state"][0])
    one.close()
    wait_until(lambda: len(processes(service)) == 1, 30, "the end of one process")
    other.step(np.ones((1, 3)))
    other.close()
    wait_until(all_ended(service), 30, "the end of the other")


def test_messages_that_are_none_are_answered_and_the_session_goes_on(environment: str, client: httpx.Client) -> None:
    with socket_of(environment) as socket:
        for data in (b"", b"\x80\x04\x95pickle", b"\xc1" * 100, encode({"op": "eval"}), encode({"op": "step", "x": 1})):
            answer = decode(talk(socket, data))
            assert answer["problem"]["status"] == 400
            assert answer["problem"]["type"] == "urn:recon4d:problem:bad-message"
        early = asked(socket, op="step", actions=np.zeros((2, 3)))
        assert early["problem"]["type"] == "urn:recon4d:problem:not-now"
        assert asked(socket, op="reset", seed=1)["op"] == "reset"
        assert asked(socket, op="step", actions=np.zeros((2, 9)))["problem"]["status"] == 422
        assert asked(socket, op="step", actions=np.zeros((2, 3)))["infos"]["elapsed_steps"].tolist() == [1, 1]
        socket.send("text")
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=60)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1003
    with socket_of(environment) as socket, pytest.raises(ConnectionClosed):
        talk(socket, b"x" * (20 << 20))
    assert client.get("/livez").status_code == 200


def test_answers_come_in_order_to_one_who_does_not_wait(environment: str) -> None:
    with socket_of(environment) as socket:
        asked(socket, op="reset", seed=1)
        for _ in range(60):
            socket.send(encode({"op": "step", "actions": np.zeros((2, 3))}))
        counts = [int(decode(heard(socket))["infos"]["elapsed_steps"][0]) for _ in range(60)]
    assert counts == [1, 2, 3, 0] * 15


def test_queries_and_addresses_that_are_none(environment: str, service: Service) -> None:
    with pytest.raises(RemoteError, match=r"num_envs.*256"):
        RemoteEnv(environment, num_envs=300)
    with pytest.raises(RemoteError, match="no environment 'env_none'"):
        RemoteEnv(f"{service.url}/v1/environments/env_none")
    with pytest.raises(RemoteError, match=r"HTTP status|nothing at"):
        RemoteEnv(f"{service.url}/v1/captures")
    wait_until(all_ended(service), 30, "the end of all processes")


def test_a_client_that_goes_away_in_a_long_step_takes_its_process_along(service: Service, bundle: str) -> None:
    environment = made(service, bundle, SLOW)
    with socket_of(environment) as socket:
        asked(socket, op="reset", seed=1)
        # 1024 actions of 20,000 steps: this would run for minutes.
        socket.send(encode({"op": "chunk_step", "actions": np.zeros((1, 1024, 3))}))
        assert processes(service)
        socket.socket.close()  # Without a word.
    wait_until(all_ended(service), 30, "the end of the process")


def test_a_process_that_dies_is_told_of(environment: str, service: Service) -> None:
    wait_until(all_ended(service), 30, "the end of those before")
    envs = RemoteEnv(environment)
    envs.reset(seed=1)
    (pid,) = processes(service)
    kill(pid)
    with pytest.raises(RemoteError, match="process died"):
        envs.step(np.zeros((2, 3)))
    envs.close()
    again = RemoteEnv(environment)
    again.reset(seed=1)
    again.close()


def test_deleting_an_environment_or_its_bundle_ends_sessions(
    service: Service, folder: Path, client: httpx.Client
) -> None:
    bundle = put(service, folder)
    for address in (None, f"{service.url}/v1/bundles/{bundle}"):
        environment = made(service, bundle, OPTIONS)
        envs = RemoteEnv(environment)
        assert client.delete(address or environment).status_code == 204
        with pytest.raises(RemoteError, match="was deleted"):
            envs.reset()
        envs.close()
        assert client.get(environment).status_code == 404
    assert not (service.data_dir / "bundles" / bundle).exists()
    wait_until(all_ended(service), 30, "the end of the processes")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that allows one session, and two seconds of idleness."""
    data_dir = tmp_path_factory.mktemp("strict") / "data"
    with running(data_dir, worker=False, session_idle_s=2, max_sessions=1) as service:
        yield service


@pytest.fixture(scope="module")
def strict_bundle(strict: Service, folder: Path) -> str:
    return put(strict, folder)


def test_sessions_are_few_and_end_when_idle_but_not_within_a_step(strict: Service, strict_bundle: str) -> None:
    environment, slow = made(strict, strict_bundle, OPTIONS), made(strict, strict_bundle, SLOW)
    with socket_of(slow) as socket:
        asked(socket, op="reset", seed=1)
        with pytest.raises(RemoteError, match="1 environment sessions run already"):
            RemoteEnv(environment)
        # Longer than a session may be idle: a quarter of a million steps of physics.
        assert asked(socket, op="chunk_step", actions=np.zeros((1, 12, 3)))["op"] == "chunk_step"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=60)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4408, "idle for 2 s")
    wait_until(all_ended(strict), 30, "the end of the idle process")
    RemoteEnv(environment).close()


def test_who_takes_no_answers_is_not_waited_for(strict: Service, strict_bundle: str) -> None:
    large = {**OPTIONS, "width": 640, "height": 480, "num_envs": 8}  # 7 MB a step, more than buffers on the way hold.
    environment = made(strict, strict_bundle, large)
    wait_until(all_ended(strict), 30, "the end of those before")
    address = f"{environment.replace('http', 'ws', 1)}/ws"
    with connect(address, compression=None, proxy=None, max_size=None, max_queue=1, close_timeout=1) as socket:
        for message in ({"op": "reset", "seed": 1}, *[{"op": "render"}] * 12):
            socket.send(encode(message))
        wait_until(lambda: processes(strict), 30, "the session")
        wait_until(all_ended(strict), 60, "the end of the session that nobody listens to")
        came = []
        with suppress(ConnectionClosed):
            came.extend(len(message) for message in socket)
        assert len(came) < 14  # The greeting and 13 answers would have been all.
    with strict.client() as client:
        assert client.get("/livez").status_code == 200


def test_a_service_that_ends_ends_its_sessions(strict: Service, strict_bundle: str) -> None:
    """The last test of this service."""
    environment = made(strict, strict_bundle, OPTIONS)
    wait_until(all_ended(strict), 30, "the end of those before")
    envs = RemoteEnv(environment)
    (pid,) = processes(strict)
    assert strict.stop() == 0
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(RemoteError, match="has ended"):
        envs.reset()
    envs.close()


@pytest.mark.slow
def test_a_connection_lives_through_a_step_of_a_minute(service: Service, bundle: str) -> None:
    """Beyond the time after which either side takes a silent peer for dead, pings go to and fro."""
    envs = RemoteEnv(made(service, bundle, SLOW))
    envs.reset(seed=1)
    began = time.monotonic()
    envs.chunk_step(np.zeros((1, 10, 3)))
    count = min(1024, int(10 * 70 / (time.monotonic() - began)))
    began = time.monotonic()
    infos = envs.chunk_step(np.zeros((1, count, 3)))[4]
    lasted = time.monotonic() - began
    assert infos["elapsed_steps"].tolist() == [10 + count]
    if lasted < 45:
        pytest.skip(f"the step lasted {lasted:.0f} s only: nothing was shown")
    envs.step(np.zeros((1, 3)))
    envs.close()


def test_keys_and_links_open_the_door(tmp_path: Path, folder: Path) -> None:
    with running(tmp_path / "data", worker=False) as service:
        environment = made(service, put(service, folder), OPTIONS)
        database = Database(Settings(data_dir=service.data_dir).database)
        texts = {scope: create_key(database, scope, [scope])[1] for scope in ("read", "run")}
        database.close()
        with pytest.raises(RemoteError, match="needs an API key"):
            RemoteEnv(environment)
        with pytest.raises(RemoteError, match="needs the scope 'run'"):
            RemoteEnv(environment, key=texts["read"])
        RemoteEnv(environment, key=texts["run"]).close()
        link = httpx.post(f"{environment}/links", headers={"Authorization": f"Bearer {texts['run']}"}).json()["url"]
        RemoteEnv(f"{service.url}{link}").close()
        with pytest.raises(RemoteError, match="signature"):
            RemoteEnv(f"{service.url}{link}x")
