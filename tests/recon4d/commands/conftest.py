"""The command line in this process and in one of its own, on a capture small enough for seconds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recon4d.commands import main
from recon4d.types import SplitRule
from tests import worlds

SMALL = (
    *("--set", "fit.static.count=800", "fit.static.steps=60", "fit.seeds.count=400"),
    *("fit.joint.steps=220", "fit.joint.checkpoint_every=100", "videos=false"),
)


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its stdout, which must be JSON lines throughout."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # How the argument parser ends.
            code = end.code if isinstance(end.code, int) else 1
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def environment() -> dict[str, str]:
    return os.environ | {"COLUMNS": "120", "PYTHONWARNINGS": "default"}


def spawn(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "recon4d", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=environment(), **pipes)


@pytest.fixture
def process() -> Run:
    """Runs ``python -m recon4d`` to its end."""

    def run(*arguments: object) -> Ran:
        with spawn(*arguments) as child:
            out, err = child.communicate(timeout=300)
        return Ran(child.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound capture folder whose name is not ASCII."""
    world = worlds.capture(seconds=1.3, split=SplitRule(heldout_cameras=("c3",)))
    return worlds.write_capture(world, tmp_path_factory.mktemp("captures") / "werkbank ü 台")


@pytest.fixture
def broken(capture: Path, tmp_path: Path) -> Path:
    """A copy of the capture, to be broken."""
    return Path(shutil.copytree(capture, tmp_path / "broken"))


@pytest.fixture(scope="session")
def scene(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scene folder, made by the command line in a process of its own."""
    out = tmp_path_factory.mktemp("scenes") / "szene ü"
    with spawn("reconstruct", capture, "--out", out, "--json", *SMALL) as child:
        stdout, stderr = child.communicate(timeout=300)
    assert child.returncode == 0, stderr
    (out / "said.jsonl").write_text(stdout)
    return out


@pytest.fixture
def small() -> list[str]:
    """Options that make a fit tiny."""
    return list(SMALL)
