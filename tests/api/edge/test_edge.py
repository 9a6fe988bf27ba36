"""What every request and answer passes: problems, limits, headers, keys of idempotency, counts, logs."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import reduce
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from sqlalchemy.exc import OperationalError

from api.keys import create_key
from api.logs import configure_logging
from api.main import create_app
from api.settings import Settings
from recon4d.errors import CaptureError
from recon4d.reconstruct import ReconstructConfig
from tests.api import tus

Talk = Callable[[httpx.AsyncClient, FastAPI], Awaitable[None]]


def converse(settings: Settings, talk: Talk) -> None:
    """Runs the application, without a server, while ``talk`` calls it."""
    app = create_app(settings)
    _add_traps(app)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app.router.lifespan_context(app))
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
            await talk(await stack.enter_async_context(client), app)

    asyncio.run(run())


def _add_traps(app: FastAPI) -> None:
    faults: dict[str, Exception] = {
        "fault": ZeroDivisionError("secret detail"),
        "capture": CaptureError("is damaged", camera="left", file="left.mp4"),
        "locked": OperationalError("x", None, Exception("database is locked")),
        "full": OSError(28, "No space left on device"),
    }

    @app.get("/trap/{kind}")
    def trap(kind: str) -> None:
        raise faults[kind]

    @app.post("/echo")
    async def echo(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, cors_origins=("https://lab.example",))


def test_everything_that_goes_wrong_is_a_problem(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        for method, path, status, kind in (
            ("GET", "/nowhere", 404, "not-found"),
            ("DELETE", "/livez", 405, "method-not-allowed"),
            ("GET", "/v1/captures/cap_none", 404, "not-found"),
            ("GET", "/v1/captures?limit=0", 422, "invalid-request"),
            ("GET", "/v1/captures?cursor=nonsense", 422, "bad-cursor"),
            ("POST", "/v1/captures", 422, "invalid-request"),
            ("GET", "/trap/fault", 500, "fault"),
            ("GET", "/trap/capture", 422, "capture"),
            ("GET", "/trap/locked", 503, "busy"),
            ("GET", "/trap/full", 507, "disk-full"),
        ):
            answer = await client.request(method, path)
            problem = answer.json()
            assert answer.status_code == problem["status"] == status, path
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert problem["type"] == f"urn:recon4d:problem:{kind}"
            assert problem["title"]
            assert problem["detail"]
        fault = (await client.get("/trap/fault")).json()
        assert "secret" not in json.dumps(fault)
        assert any(record.__dict__.get("request") == fault["request"] for record in caplog.records)
        assert (await client.get("/trap/capture")).json()["camera"] == "left"

    converse(settings, talk)


def test_a_wrong_body_is_pointed_at(settings: Settings) -> None:
    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        wrong = (await client.post("/v1/captures", json={"name": "", "notes": 3})).json()
        assert [fault["pointer"] for fault in wrong["errors"]] == ["/name", "/notes"]
        broken = await client.post("/v1/captures", content=b"{", headers={"Content-Type": "application/json"})
        assert (broken.status_code, broken.json()["errors"][0]["pointer"]) == (422, "")
        assert (await client.get("/v1/captures?limit=x")).json()["errors"][0]["parameter"] == "limit"

    converse(settings, talk)


def test_bodies_are_limited_whether_their_length_is_announced_or_not(settings: Settings) -> None:
    async def pieces(count: int) -> Any:
        for _ in range(count):
            yield b"x" * 2**16

    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        assert (await client.post("/echo", content=b"x" * 2**20)).text == str(2**20)
        for content in (b"x" * (2**20 + 1), pieces(17)):
            answer = await client.post("/echo", content=content)
            assert (answer.status_code, answer.json()["type"]) == (413, "urn:recon4d:problem:too-large")
        document = await client.post("/v1/captures", content=pieces(17), headers={"Content-Type": "application/json"})
        assert document.status_code == 413
        kept = await client.post("/echo", content=pieces(17), headers={"Idempotency-Key": "k"})
        assert kept.status_code == 413

    converse(settings, talk)


def test_every_answer_carries_safe_headers_and_its_number(settings: Settings) -> None:
    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        for path in ("/livez", "/nowhere", "/trap/fault"):
            headers = (await client.get(path)).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert re.fullmatch(r"req_\w{20}", headers["X-Request-ID"])

    converse(settings, talk)


def test_only_named_origins_may_read_answers(settings: Settings) -> None:
    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        ask = {
            "Access-Control-Request-Method": "PATCH",
            "Access-Control-Request-Headers": "Upload-Offset,Tus-Resumable",
        }
        friend = await client.options("/v1/uploads/u", headers={"Origin": "https://lab.example", **ask})
        assert friend.headers["Access-Control-Allow-Origin"] == "https://lab.example"
        assert "Upload-Offset" in friend.headers["Access-Control-Allow-Headers"]
        seen = await client.get("/livez", headers={"Origin": "https://lab.example"})
        assert "Upload-Offset" in seen.headers["Access-Control-Expose-Headers"]
        stranger = await client.options("/v1/uploads/u", headers={"Origin": "https://evil.example", **ask})
        assert stranger.status_code == 400
        assert "Access-Control-Allow-Origin" not in stranger.headers

    converse(settings, talk)


def test_a_request_that_is_sent_again_is_answered_again(settings: Settings) -> None:
    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        async def create(name: str, key: str, **headers: str) -> httpx.Response:
            return await client.post("/v1/captures", json={"name": name}, headers={"Idempotency-Key": key, **headers})

        first, again = await create("a", "k1"), await create("a", "k1")
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.json() == first.json()
        assert again.headers["Location"] == first.headers["Location"]
        assert again.headers["Idempotency-Replayed"] == "true"
        assert (await create("b", "k1")).json()["type"] == "urn:recon4d:problem:idempotency-key-reused"
        assert (await create("a", "k2")).json()["id"] != first.json()["id"]
        # What failed may be tried again; another caller has keys of their own.
        assert (await create("", "k3")).status_code == 422
        assert (await create("a", "k3")).status_code == 201
        _, text = create_key(app.state.database, "other", ("upload", "read"))
        other = await create("a", "k1", Authorization=f"Bearer {text}")
        assert other.json()["id"] != first.json()["id"]
        assert (await create("a", "k1")).status_code == 401
        assert (await create("a", "k" * 201, Authorization=f"Bearer {text}")).status_code == 400

    converse(settings, talk)


def test_twins_that_come_at_once_do_one_thing(settings: Settings) -> None:
    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        async def create() -> int:
            headers = {"Idempotency-Key": "k"}
            return (await client.post("/v1/captures", json={"name": "a"}, headers=headers)).status_code

        statuses = await asyncio.gather(*(create() for _ in range(8)))
        assert set(statuses) <= {201, 409}
        assert 201 in statuses
        assert len((await client.get("/v1/captures")).json()["items"]) == 1

    converse(settings, talk)


def test_a_request_that_falls_silent_sets_its_upload_free(tmp_path: Path) -> None:
    async def dying() -> Any:
        yield b"01234"
        await asyncio.sleep(3600)

    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        capture = (await client.post("/v1/captures", json={"name": "a"})).json()["id"]
        words = {"Upload-Length": "10", "Upload-Metadata": tus.metadata(camera="c0", kind="video")}
        upload = (await client.post(f"/v1/captures/{capture}/uploads", headers=words)).headers["Location"]
        silent = await client.patch(upload, headers={**tus.BYTES, "Upload-Offset": "0"}, content=dying())
        assert (silent.status_code, silent.json()["type"]) == (408, "urn:recon4d:problem:stalled")
        rest = await client.patch(upload, headers={**tus.BYTES, "Upload-Offset": "5"}, content=b"56789")
        assert rest.status_code == 204

    converse(Settings(data_dir=tmp_path, upload_idle_s=0.2), talk)


def test_options_tell_the_engines_own_configuration(settings: Settings) -> None:
    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        told = (await client.get("/v1/options")).json()
        assert told["presets"] == ["fast", "balanced", "quality"]
        options = {option["name"]: option for option in told["options"]}
        for preset in told["presets"]:
            config = ReconstructConfig.of(preset)
            for name, option in options.items():
                value = reduce(getattr, name.split("."), config)
                assert option["defaults"][preset] == value
                # What is told can be set, and means the same.
                assert (
                    config.with_value(f"{name}={str(value).lower() if option['type'] == 'bool' else value}") == config
                )
        assert options["fit.joint.steps"]["type"] == "int"
        assert "frames" in options["ingest.memory_budget_mib"]["help"]

    converse(settings, talk)


def test_metrics_count_routes_and_not_addresses(settings: Settings) -> None:
    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        for id in ("cap_1", "cap_2"):
            await client.get(f"/v1/captures/{id}")
        await client.post("/v1/captures", json={"name": "a"})
        text = (await client.get("/metrics")).text
        assert 'recon4d_requests_total{method="GET",route="/v1/captures/{id}",status="404"} 2.0' in text
        assert 'recon4d_rows{table="captures"} 1.0' in text
        assert 'recon4d_jobs{state="queued"} 0.0' in text
        assert "cap_1" not in text

    converse(settings, talk)


def test_lists_go_on_where_they_ended(settings: Settings) -> None:
    async def talk(client: httpx.AsyncClient, app: FastAPI) -> None:
        made = [(await client.post("/v1/captures", json={"name": f"{i}"})).json()["id"] for i in range(5)]
        seen, cursor = [], None
        for _ in range(3):
            parameters = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = (await client.get("/v1/captures", params=parameters)).json()
            seen += [item["id"] for item in page["items"]]
            cursor = page["next"]
        assert seen == made[::-1]
        assert cursor is None

    converse(settings, talk)


def test_logs_are_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure_logging()
        logging.getLogger("somebody").info("said %s", "this", extra={"job": "job_1"})
        try:
            raise ValueError("x")
        except ValueError:
            logging.getLogger("somebody").exception("failed")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    said, failed = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert said["at"].endswith("Z")
    assert (said["level"], said["logger"], said["message"], said["job"]) == ("info", "somebody", "said this", "job_1")
    assert "ValueError: x" in failed["exception"]
