"""``recon4d accelerators verify``: its files, what it prints, how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recon4d.verify import defects

Run = Callable[..., Any]


def test_a_sound_device_passes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    ran = run("accelerators", "verify", "cpu:0", "--quick")
    assert ran.code == 0
    assert "training: done" in ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("cpu:0 (")
    assert lines[-3:] == ["passed", "facts  verify-cpu-0/verify.json", "page   verify-cpu-0/verify.md"]
    assert json.loads((tmp_path / "verify-cpu-0" / "verify.json").read_text("utf-8"))["passed"]


def test_a_wrong_one_does_not(run: Run, tmp_path: Path) -> None:
    with defects.planted():
        ran = run(
            *("accelerators", "verify", "cpu", "--quick", "--backend", "red_for_blue"),
            *("--json", "--out", tmp_path / "out"),
        )
    assert (ran.code, ran.err) == (1, "")
    assert [line["event"] for line in ran.lines][-1] == "result"
    report = ran.lines[-1]["report"]
    assert report == json.loads((tmp_path / "out" / "verify.json").read_text("utf-8"))
    assert (report["passed"], report["backend"]) == (False, "red_for_blue")
    assert ": **failed**" in (tmp_path / "out" / "verify.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["toaster"], 6, "no accelerator and no torch device is called 'toaster'"),
        (["cpu:3"], 6, "accelerator 'cpu' has 1 device, 0"),
        (["cpu", "--backend", "tensorflow"], 6, "not tensorflow: there is no such backend"),
        ([], 2, "NAME"),
    ],
)
def test_what_cannot_be_verified_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("accelerators", "verify", *arguments)
    assert ran.code == code
    assert words in ran.out + ran.err
    assert list(tmp_path.iterdir()) == []
