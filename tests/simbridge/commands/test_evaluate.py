"""``simbridge evaluate``, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simbridge.commands import main
from tests.simbridge import worlds as small


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(small.saved(tmp_path_factory.mktemp("evaluate") / "bundle"))


def test_episodes_are_played_and_told(bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results"
    options = ["--episodes", "5", "--num-envs", "2", "--films", "1", "--record", "--image-size", "32", "24"]
    assert main(["evaluate", bundle, "--policy", "random", *options, "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "random on reach:" in told.out
    assert "of 5 succeeded" in told.out
    assert "5 of 5 episodes" in told.err
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert [episode["initial_state"] for episode in summary["episodes"]] == [0, 1, 2, 3, 4]
    assert (out / "videos" / "episode-0.mp4").stat().st_size > 1000
    assert "videos/episode-0.mp4" in (out / "summary.html").read_text("utf-8")
    again = ["--policy", f"replay:{out / 'actions.npz'}", "--json", "--films", "0", "--out", str(tmp_path / "again")]
    assert main(["evaluate", bundle, *options[:4], *again]) == 0
    replayed = json.loads(capsys.readouterr().out)
    lengths = [[episode["length"] for episode in each["episodes"]] for each in (summary, replayed)]
    assert lengths[0] == lengths[1]
    rewards = [[episode["reward"] for episode in each["episodes"]] for each in (summary, replayed)]
    assert np.allclose(rewards[0], rewards[1])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--task", "raech"], 2, "did you mean 'reach'"),
        (["--policy", "clever"], 8, "there are 'random'"),
        (["--cameras", "nose"], 2, "no camera 'nose'; it has front, side, wrist"),
        (["--episodes", "0"], 2, "episodes and num_envs must be at least 1"),
        (["--control-hz", "7"], 2, "whole number of physics steps"),
        (["--device", "imaginary"], 6, "imaginary"),
    ],
)
def test_what_cannot_be_played_is_a_line_and_a_code(
    bundle: str, arguments: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", bundle, *arguments, "--out", str(tmp_path / "out")]) == code
    told = capsys.readouterr()
    assert message in told.err
    assert "Traceback" not in told.err


def test_no_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(tmp_path)]) == 4
    assert "is no bundle" in capsys.readouterr().err
