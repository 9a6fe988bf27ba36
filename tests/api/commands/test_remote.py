"""``recon4d remote`` at a real service, in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from api.client import Client
from api.commands._remote import Errand, options
from recon4d.errors import ConfigError
from recon4d.scene import load
from tests import worlds
from tests.api.service import Service, running

TINY = (
    *("--set", "fit.static.count=400", "fit.static.steps=20", "fit.seeds.count=200", "fit.joint.steps=60"),
    *("videos=false", "--preset", "fast"),
)
ENDLESS = tuple(value.replace("joint.steps=60", "joint.steps=100000") for value in TINY)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service")) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture folder whose name is not ASCII."""
    return worlds.write_capture(worlds.capture(seconds=1.3), tmp_path_factory.mktemp("captures") / "bänk 台")


@contextmanager
def remote(server: Service, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The command at work; killed at the end of the block if it still is."""
    command = [sys.executable, "-m", "recon4d", "remote", *map(str, arguments), "--server", server.url]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=os.environ | {"COLUMNS": "160"}, **pipes) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()


def ran(server: Service, *arguments: object, code: int = 0) -> tuple[str, str]:
    with remote(server, *arguments) as child:
        out, err = child.communicate(timeout=300)
    assert child.returncode == code, err
    assert "Traceback" not in err
    return out, err


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="module")
def fetched(server: Service, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A scene folder that the command made, and what it printed."""
    out = tmp_path_factory.mktemp("scenes") / "scene"
    return out, *ran(server, "reconstruct", folder, "--out", out, *TINY)


def test_a_folder_is_reconstructed_and_fetched(fetched: tuple[Path, str, str]) -> None:
    out, said, err = fetched
    for stage in ("upload", "queue", "joint", "download"):
        assert f"{stage}: done" in err
    assert "decibel" in said
    assert f"scene   {out}" in said
    assert load(out).cameras


def test_a_second_time_nothing_is_done(server: Service, folder: Path, fetched: tuple[Path, str, str]) -> None:
    out = fetched[0]
    errand = Errand.read(out)
    with Client(server.url) as client:
        before = [job.id for job in client.jobs()]
        assert errand.job in before
        again, _ = ran(server, "reconstruct", folder, "--out", out, *TINY, "--json")
        assert [job.id for job in client.jobs()] == before
        result = lines(again)[-1]
        assert result["event"] == "result"
        assert result["id"] == (client.job(str(errand.job)).result or {})["scene"]


@pytest.mark.slow
def test_ctrl_c_lets_go_and_the_job_can_be_followed_and_cancelled(
    server: Service, folder: Path, fetched: tuple[Path, str, str]
) -> None:
    out = fetched[0]
    earlier = Errand.read(out)
    with remote(server, "reconstruct", folder, "--out", out, *ENDLESS, "--json") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for line in child.stdout:
            event = json.loads(line)
            if event["event"] == "progress" and event["stage"] == "joint":
                break
        child.send_signal(signal.SIGINT)
        _, err = child.stdout.read(), child.stderr.read()
        assert child.wait(60) == 130
    job = Errand.read(out).job
    assert job != earlier.job  # Another request is another job; what was sent is not sent again.
    assert Errand.read(out).capture == earlier.capture
    assert f"let go of job {job}" in err
    assert f"recon4d remote follow {job} --server {server.url}" in err
    assert f"recon4d remote cancel {job} --server {server.url}" in err
    with Client(server.url) as client, remote(server, "follow", job) as follower:
        assert client.job(str(job)).state == "running"
        said, _ = ran(server, "cancel", job)
        assert f"{job} is" in said
        _, err = follower.communicate(timeout=120)
        assert client.job(str(job)).state == "cancelled"
    assert follower.returncode == 9
    assert f"error: job {job} was cancelled" in err


def test_lists_and_downloads(server: Service, fetched: tuple[Path, str, str], tmp_path: Path) -> None:
    said, _ = ran(server, "list", "--json")
    ids = [record["id"] for record in lines(said)]
    (scene,) = [record for record in lines(said) if record["id"].startswith("scn_")]
    said, _ = ran(server, "list")
    assert [id for id in ids if id not in said] == []  # Whole, to be copied.
    ran(server, "download", scene["id"], "--out", tmp_path, "--quiet")
    assert (tmp_path / "scene.json").read_bytes() == (fetched[0] / "scene.json").read_bytes()


def test_faults_end_as_they_do_here(server: Service, folder: Path, tmp_path: Path) -> None:
    _, err = ran(server, "reconstruct", tmp_path / "nothing", "--out", tmp_path / "a", code=3)
    assert "capture.json" in err
    _, err = ran(server, "reconstruct", folder, "--out", tmp_path / "a", "--set", "fit.nonsense=1", code=9)
    assert "fit.nonsense" in err
    _, err = ran(server, "follow", "job_nothing", code=9)
    assert "job_nothing" in err


def test_assignments_become_values() -> None:
    given = ("fit.joint.steps=5000", "videos=false", "fit.joint.rate=1e-3", "name = x y", "empty=")
    assert options(given) == {
        "fit.joint.steps": 5000, "videos": False, "fit.joint.rate": 1e-3, "name": "x y", "empty": "",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        options(("steps",))


def test_an_errand_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert Errand.read(tmp_path) == Errand()
    for text in ("{", "[]", '{"other": 1}', "\xff"):
        (tmp_path / "remote.json").write_bytes(text.encode("latin-1"))
        assert Errand.read(tmp_path) == Errand()
    Errand(server="s", job="j").write(tmp_path)
    assert Errand.read(tmp_path) == Errand(server="s", job="j")
