"""The service keeps to its OpenAPI, whatever it is sent; its OpenAPI reads well."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.client import Client
from api.database import Database
from api.settings import Settings
from api.storage import add_scene
from tests import worlds
from tests.api.openapi import Tally, check_problem, fuzz, operations
from tests.api.scenes import scene_folder
from tests.api.service import Service, running

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service") / "data"


@pytest.fixture(scope="module")
def scene(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a scene that is there from the start."""
    settings = Settings(data_dir=data_dir)
    database = Database(settings.database)
    scene = add_scene(database, settings, scene_folder(tmp_path_factory.mktemp("scenes") / "scene"), name="bench")
    database.close()
    return scene


@pytest.fixture(scope="module")
def server(data_dir: Path, scene: str) -> Iterator[Service]:
    """A service that does no jobs: what is asked for is queued."""
    with running(data_dir, worker=False) as server:
        yield server


@pytest.fixture(scope="module")
def known(server: Service, scene: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ids that stand for something, by the name of their prefix."""
    folder = worlds.write_capture(worlds.capture(seconds=0.5), tmp_path_factory.mktemp("captures") / "bench")
    with Client(server.url) as client:
        capture = client.send_folder(folder)
        job = client.check(capture.id)
        client.cancel(job.id)
    return {"cap": capture.id, "job": job.id, "fil": capture.files[0].id, "scn": scene}


@pytest.fixture(scope="module")
def openapi(server: Service) -> dict[str, Any]:
    return httpx.get(f"{server.url}/openapi.json").json()


def described(openapi: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, item[method]) for path, item in openapi["paths"].items() for method in METHODS if method in item
    ]


def test_every_operation_says_what_it_is(openapi: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in described(openapi)]
    assert len(ids) == len(set(ids))
    assert all(name.islower() and name.isidentifier() for name in ids)
    told = {tag["name"] for tag in openapi["tags"]}
    for method, path, operation in described(openapi):
        where = f"{method} {path}"
        assert operation.get("summary"), where
        assert operation.get("description"), where
        assert set(operation["tags"]) <= told, where
        assert len(operation["tags"]) == 1, where


def test_every_operation_tells_of_its_problems(openapi: dict[str, Any]) -> None:
    for method, path, operation in described(openapi):
        (problem,) = [body for status, body in operation["responses"].items() if status == "default"]
        assert list(problem["content"]) == ["application/problem+json"], f"{method} {path}"
        assert "422" not in operation["responses"], f"{method} {path}"


def test_every_body_has_an_example(openapi: dict[str, Any]) -> None:
    missing = []
    for method, path, operation in described(openapi):
        for kind, body in operation.get("requestBody", {}).get("content", {}).items():
            if kind == "application/json" and not has_example(body, openapi):
                missing.append(f"{method} {path}")
    assert missing == []


def has_example(body: dict[str, Any], openapi: dict[str, Any]) -> bool:
    """An example of the body itself, or of some member of it."""
    schema = body.get("schema", {})
    schemas = schema.get("anyOf", [schema])
    named = openapi["components"]["schemas"]
    schemas = [named[s["$ref"].rpartition("/")[2]] if "$ref" in s else s for s in schemas]
    parts = [body, *schemas, *(member for s in schemas for member in s.get("properties", {}).values())]
    return any("example" in part or "examples" in part for part in parts)


def test_whatever_is_sent_is_answered_as_described(server: Service, known: dict[str, str]) -> None:
    tally = everything(server.url, known, count=2)
    assert tally.accepted > 20
    assert tally.refused > 100
    assert httpx.get(f"{server.url}/readyz").status_code == 200


@pytest.mark.slow
def test_whatever_is_sent_for_long_is_answered_as_described(server: Service, known: dict[str, str]) -> None:
    tally = everything(server.url, known, count=20)
    assert tally.accepted > 100
    assert httpx.get(f"{server.url}/readyz").status_code == 200


def everything(url: str, known: dict[str, str], count: int) -> Tally:
    """Fuzzes all operations, with ids that are made up and with ids that stand for something."""
    whole = Tally()
    for operation in operations(url):
        real = real_path(operation.path, known)
        paths = [None] if not real or operation.method == "delete" else [None, real]
        for path in paths:
            part = fuzz(operation, count, path)
            whole = Tally(*(a + b for a, b in zip(vars(whole).values(), vars(part).values(), strict=True)))
    return whole


PREFIXES = {
    "captures": "cap", "files": "fil", "uploads": "upl", "jobs": "job", "reconstructions": "job", "scenes": "scn",
    "bundles": "bun", "environments": "env",
}  # fmt: skip
"""Of the ids that stand behind a word in a path."""


def real_path(path: str, known: dict[str, str]) -> dict[str, str]:
    """Ids for a path's parameters, as far as they are known."""
    parts = path.split("/")
    places = {part[1:-1]: before for before, part in itertools.pairwise(parts) if part.startswith("{")}
    return {name: known[PREFIXES[word]] for name, word in places.items() if PREFIXES.get(word) in known}


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/v1/captures/cap_nothing/nothing", "/v1", "/v1/jobs/", "/v1/captures/..%2F..", "/%00"]
)
def test_what_is_not_there_is_a_problem(server: Service, method: str, path: str) -> None:
    with server.client() as client:
        answer = client.request(method, path)
    assert 400 <= answer.status_code < 500
    check_problem(answer)


def test_a_body_that_is_no_json_is_a_problem(server: Service, openapi: dict[str, Any]) -> None:
    with server.client() as client:
        for method, path, operation in described(openapi):
            if "application/json" in operation.get("requestBody", {}).get("content", {}):
                headers = {"Content-Type": "application/json"}
                for body in (b"{", b"\xff\xfe\x00", b"[" * 100_000, b"", b'{"a": 1e999999}', b"NaN"):
                    answer = client.request(method, path, content=body, headers=headers)
                    assert 400 <= answer.status_code < 500, (method, path, body[:10], answer.text)
                    check_problem(answer)


def test_a_body_that_is_too_large_is_a_problem(server: Service, tmp_path: Path) -> None:
    with server.client() as client:
        answer = client.post("/v1/captures", content=b" " * (2**20 + 1), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        check_problem(answer)
        answer = client.post("/v1/captures", content=iter([b" " * 2**19] * 4))
        assert answer.status_code == 413
        check_problem(answer)
