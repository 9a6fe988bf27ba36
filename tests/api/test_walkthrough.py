"""What the README says of the service is done as it stands there, on the sample that ships."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recon4d.scene import load
from tests.api.service import Service, running

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
TINY = {"fit.static.count": 800, "fit.static.steps": 60, "fit.seeds.count": 400, "fit.joint.steps": 220}
ADDRESS = "http://127.0.0.1:8400"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service") / "data") as server:
        yield server


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def block(language: str, mark: str) -> str:
    """The README's one block of a language that holds a text."""
    (found,) = (text for text in blocks(language, README) if mark in text)
    return found


def ran(script: str, folder: Path) -> str:
    """What a script prints; it must go well."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="curl and jq are not both installed")
def test_the_curl_calls_end_with_a_picture(server: Service, tmp_path: Path) -> None:
    script = replaced(block("sh", "curl -sSf"), ADDRESS, server.url)
    tiny = ", ".join(f'"{name}": {value}' for name, value in TINY.items())
    script = replaced(script, '"preset": "fast"', f'"preset": "fast", "options": {{{tiny}, "videos": false}}')
    script = script.replace("samples/bench", str(ROOT / "samples" / "bench"))
    assert '"state": "succeeded"' in ran(script, tmp_path)
    assert (tmp_path / "look.jpg").read_bytes().startswith(b"\xff\xd8")


def test_the_python_block_fetches_a_scene(server: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = replaced(block("python", "api.client"), ADDRESS, server.url)
    text = replaced(text, '{"fit.joint.steps": 2000}', repr(TINY | {"videos": False}))
    text = replaced(text, "samples/bench", str(ROOT / "samples" / "bench"))
    monkeypatch.chdir(tmp_path)
    exec(compile(text, "README.md", "exec"), {})
    assert load(tmp_path / "build" / "remote").cameras


def test_the_sample_ends_with_an_environment(server: Service, tmp_path: Path) -> None:
    # As many splats as usual: what is cut out is covered by those of the bench around it.
    values = ["fit.static.steps=100", "fit.joint.steps=200"]
    command = [sys.executable, "samples/service.py", "samples/bench", "--bundle", "samples/bench_sim"]
    command += ["--server", server.url, "--out", str(tmp_path), "--steps", "3", "--set", *values, "videos=false"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "rewards after 3 steps" in result.stdout
    assert load(tmp_path / "scene").cameras
    assert (tmp_path / "look.png").read_bytes().startswith(b"\x89PNG")
