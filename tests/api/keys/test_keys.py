"""Who may call: keys, signed links, and the rule for a service without keys."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.requests import HTTPConnection

from api.database import Database
from api.errors import Problem
from api.keys import Doorkeeper, create_key, list_keys, revoke_key, sign_link
from api.settings import Settings
from recon4d.errors import ConfigError


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, cors_origins=("https://lab.example",))


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = Database(settings.database)
    yield database
    database.close()


@pytest.fixture
def door(settings: Settings, database: Database) -> Doorkeeper:
    return Doorkeeper(settings, database)


def connection(
    path: str = "/v1/captures", *, client: str = "127.0.0.1", query: str = "", method: str = "GET", **headers: str
) -> HTTPConnection:
    given = {"host": "localhost:8400", **{name.replace("_", "-"): text for name, text in headers.items()}}
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "client": (client, 40_000),
        "headers": [(name.encode(), text.encode()) for name, text in given.items()],
    }
    return HTTPConnection(scope)


def refusal(door: Doorkeeper, scope: Any, asked: HTTPConnection) -> Problem:
    with pytest.raises(Problem) as refused:
        door(asked, scope)
    return refused.value


@pytest.mark.parametrize("host", ["localhost:8400", "LOCALHOST", "127.0.0.1:1", "[::1]:8400"])
@pytest.mark.parametrize("client", ["127.0.0.1", "::1"])
def test_without_keys_this_machine_may_do_everything(door: Doorkeeper, host: str, client: str) -> None:
    asked = connection(client=client, host=host, origin=f"http://{host}")
    assert door(asked, "admin").id == "local"


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"client": "192.168.1.7"}, "192.168.1.7"),
        ({"host": "evil.example"}, "evil.example"),
        ({"host": "localhost.evil.example"}, "localhost.evil.example"),
        ({"host": "127.0.0.1@evil.example"}, "evil.example"),
        ({"host": "[::1"}, "[::1"),
        ({"host": ""}, "not for localhost"),
        ({"forwarded": "for=1.2.3.4"}, "forwarded"),
        ({"x_forwarded_for": "127.0.0.1"}, "x-forwarded-for"),
        ({"x_forwarded_prefix": "/"}, "x-forwarded-prefix"),
        ({"origin": "https://evil.example"}, "evil.example"),
        ({"origin": "null"}, "null"),
    ],
)
def test_without_keys_nobody_else_may_do_anything(door: Doorkeeper, headers: dict[str, str], word: str) -> None:
    problem = refusal(door, "read", connection(**headers))
    assert problem.status == 401
    assert word in problem.detail
    assert "WWW-Authenticate" in problem.headers


def test_a_page_that_was_allowed_may_call(door: Doorkeeper) -> None:
    assert door(connection(origin="https://lab.example"), "upload").id == "local"


def test_a_key_holds_its_scopes_until_it_is_revoked(door: Doorkeeper, database: Database) -> None:
    row, text = create_key(database, "robot", ("read", "run"))
    asked = connection(client="10.0.0.1", host="lab.example", authorization=f"Bearer {text}")
    assert door(asked, "read").id == row.id
    assert door(asked, "run").scopes == {"read", "run"}
    assert refusal(door, "upload", asked).members == {"scope": "upload"}
    assert refusal(door, "upload", asked).status == 403
    (kept,) = list_keys(database)
    assert text.rpartition("_")[2] not in str(vars(kept))
    assert kept.last_used_at is not None
    revoke_key(database, row.id)
    assert refusal(door, "read", asked).status == 401
    # A service that had a key stays closed to those without.
    assert refusal(door, "read", connection()).kind == "key-needed"


def test_an_admin_key_holds_every_scope(door: Doorkeeper, database: Database) -> None:
    _, text = create_key(database, "me", ("admin",))
    assert door(connection(authorization=f"bearer {text}"), "run").scopes == {"read", "upload", "run", "admin"}


@pytest.mark.parametrize("change", [str.upper, lambda t: t[:-1], lambda t: t + "0", lambda t: t[4:], lambda t: "r4d__"])
def test_what_is_nearly_a_key_is_none(door: Doorkeeper, database: Database, change: Any) -> None:
    _, text = create_key(database, "robot", ("read",))
    assert refusal(door, "read", connection(authorization=f"Bearer {change(text)}")).kind == "bad-key"


@pytest.mark.parametrize(("name", "scopes"), [("x", ()), ("x", ("read", "fly")), (" ", ("read",))])
def test_a_key_without_a_name_or_sound_scopes_is_not_made(database: Database, name: str, scopes: tuple[str]) -> None:
    with pytest.raises(ConfigError):
        create_key(database, name, scopes)
    with pytest.raises(ConfigError, match="keys list"):
        revoke_key(database, "key_nobody")


def test_a_signed_link_opens_one_address_for_reading(door: Doorkeeper, settings: Settings, database: Database) -> None:
    create_key(database, "robot", ("read",))
    path = "/v1/scenes/scn_1/artifacts/a b.ply"
    link = urlsplit(sign_link(settings, path, 60))
    assert link.path == "/v1/scenes/scn_1/artifacts/a%20b.ply"
    stranger = {"client": "10.0.0.1", "host": "lab.example", "query": link.query}
    assert door(connection(path, **stranger), "read").id == "link"
    assert door(connection(path, method="HEAD", **stranger), "read").id == "link"
    assert refusal(door, "read", connection("/v1/scenes/scn_1", **stranger)).kind == "bad-link"
    assert refusal(door, "upload", connection(path, **{**stranger, "method": "DELETE"})).kind == "key-needed"
    later = link.query.replace("expires=1", "expires=2")
    assert refusal(door, "read", connection(path, **{**stranger, "query": later})).kind == "bad-link"
    assert refusal(door, "read", connection(path, **{**stranger, "query": "expires=x&signature=é"})).kind == "bad-link"
    past = urlsplit(sign_link(settings, path, -5)).query
    assert refusal(door, "read", connection(path, **{**stranger, "query": past})).kind == "bad-link"
    assert stat.S_IMODE((settings.data_dir / "secret").stat().st_mode) == 0o600
