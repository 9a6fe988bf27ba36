"""Ctrl-C: a clean stop with a checkpoint, and a later run that goes on."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from recon4d import events
from recon4d.commands._progress import Painter, stop_on_signal
from recon4d.scene import load

Run = Callable[..., Any]


def test_ctrl_c_stops_with_a_checkpoint_and_resume_finishes(
    run: Run, capture: Path, scene: Path, tmp_path: Path, small: list[str]
) -> None:
    out = Path(shutil.copytree(scene, tmp_path / "scene"))
    longer = [value.replace("joint.steps=220", "joint.steps=2000") for value in small]
    command = [sys.executable, "-m", "recon4d", "reconstruct", capture, "--out", out, "--json", *longer]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for line in child.stdout:
            event = json.loads(line)
            if event["event"] == "progress" and event["stage"] == "joint":
                break
        child.send_signal(signal.SIGINT)
        rest, err = child.stdout.read(), child.stderr.read()
    assert child.returncode == 130
    assert "stopping at the next step, with a checkpoint" in err
    assert "run again with --resume" in err
    assert "Traceback" not in err
    assert all(json.loads(line) for line in rest.splitlines())
    checkpoint = out / "work" / "joint.safetensors"
    assert checkpoint.is_file()
    # The earlier scene stays until a new one takes its place.
    assert load(out).config["fit"]["joint"]["steps"] == 220

    ran = run("reconstruct", capture, "--out", out, "--resume", "--json", *longer)
    assert ran.code == 0
    (started,) = [e for e in ran.lines if e["event"] == "started" and e["stage"] == "joint"]
    assert "resumed at step" in started["detail"]
    assert load(out).config["fit"]["joint"]["steps"] == 2000
    assert not checkpoint.exists()


def test_a_stopped_run_is_finished_by_resume(
    run: Run, capture: Path, scene: Path, tmp_path: Path, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[events.Event] = []
    draw = Painter._on_event

    def interrupt(self: Painter, event: events.Event) -> None:
        draw(self, event)
        heard.append(event)
        if isinstance(event, events.Progress) and event.stage == "joint" and event.step == 100:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Painter, "_on_event", interrupt)
    ran = run("reconstruct", capture, "--out", tmp_path / "out", *small)
    assert ran.code == 130
    assert "stopped at step 100 of 220; run again with --resume to go on" in " ".join(ran.err.split())
    monkeypatch.undo()
    ran = run("reconstruct", capture, "--out", tmp_path / "out", "--resume", *small)
    assert ran.code == 0
    assert "resumed at step 100" in ran.err
    ours, theirs = load(tmp_path / "out"), load(scene)
    for pool in ("static", "dynamic"):
        for name, value in vars(getattr(theirs, pool)).items():
            assert torch.equal(getattr(getattr(ours, pool), name), value), name


def test_a_second_signal_aborts_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signal() as should_stop:
        assert not should_stop()
        signal.raise_signal(signal.SIGTERM)
        assert should_stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "again to abort" in capsys.readouterr().err
