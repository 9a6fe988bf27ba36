"""Every command on sound input: what it prints, what it leaves, how it ends."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import av
import pytest

from recon4d import __version__
from recon4d.commands import _main
from recon4d.scene import load

Run = Callable[..., Any]

OPTIONS = {
    "reconstruct": (
        *("--out", "--preset", "--resume", "--seed", "--threads", "--device", "--heldout-cameras", "--set"),
        *("--quiet", "--json", "fast", "balanced", "quality"),
    ),
    "import": ("--out", "pusht-embodied"),
    "check": ("--json", "--sheet", "--quiet"),
    "convert-calibration": ("--help",),
    "calibrate": ("--board", "--out", "--align", "--base-tag"),
    "sync": ("--out", "--method", "--reference", "--drop-bad-cameras", "--json"),
    "view": ("--port", "--open"),
    "render": ("--out", "--kind", "--camera", "--time-s", "--device", "--quiet", "orbit", "frozen", "depth"),
    "export": ("--format", "--time-s", "--fps", "ply-sequence"),
    "score": ("--out", "--device", "--quiet", "--json"),
    "accelerators": ("list",),
}


@pytest.mark.parametrize("command", OPTIONS)
def test_help_names_every_option(run: Run, command: str) -> None:
    ran = run(command, "--help")
    assert ran.code == 0
    assert [option for option in OPTIONS[command] if option not in ran.out] == []


def test_help_names_every_command(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    assert [command for command in OPTIONS if command not in ran.out] == []
    own = {name for name, command in _main.commands().items() if command.__module__.startswith("recon4d.")}
    assert set(OPTIONS) == own


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").out == f"recon4d {__version__}\n"
    assert run("-V").code == 0


def test_a_process_ends_with_the_exit_code(process: Run, tmp_path: Path) -> None:
    ran = process("check", tmp_path / "none")
    assert ran.code == 3
    assert "there is no folder" in ran.out
    assert "Traceback" not in ran.err
    assert process("--version").out == f"recon4d {__version__}\n"


def test_json_is_all_that_is_said_on_stdout(scene: Path) -> None:
    lines = [json.loads(line) for line in (scene / "said.jsonl").read_text().splitlines()]
    logged = [json.loads(line) for line in (scene / "events.jsonl").read_text().splitlines()]
    assert lines[:-1] == logged
    result = lines[-1]
    assert result["event"] == "result"
    assert result["scene"] == str(scene)
    assert result["scores"] == json.loads((scene / "scores.json").read_text())


def test_quiet_prints_the_result_alone(
    process: Run, capture: Path, scene: Path, tmp_path: Path, small: list[str]
) -> None:
    """In a process of its own: in this one other tests have imported kernels that may have to be compiled."""
    out = Path(shutil.copytree(scene, tmp_path / "scene"))
    ran = process("reconstruct", capture, "--out", out, "--quiet", "--threads", "1", *small)
    assert ran.code == 0
    assert ran.err == ""
    assert "heldout cameras" in ran.out
    assert "temporal median" in ran.out
    assert ran.out.endswith(f"scene   {out}\nreport  {out / 'report.html'}\n")


def test_progress_goes_to_stderr(run: Run, capture: Path, scene: Path, tmp_path: Path, small: list[str]) -> None:
    out = Path(shutil.copytree(scene, tmp_path / "scene"))
    changed = [value.replace("joint.steps=220", "joint.steps=100") for value in small]
    ran = run("reconstruct", capture, "--out", out, "--resume", *changed)
    assert ran.code == 0
    for words in ("static: done, unchanged since an earlier run", "joint: 100 %", "joint: done"):
        assert words in ran.err
    assert "unchanged" not in ran.out
    assert load(out).config["fit"]["joint"]["steps"] == 100


def test_check_of_a_sound_capture_finds_nothing(run: Run, capture: Path, tmp_path: Path) -> None:
    ran = run("check", capture, "--sheet", tmp_path / "look.png")
    assert ran.code == 0
    assert "severity" not in ran.out
    assert "0.012 to 1.250 s is covered by all cameras: 1.238 s" in ran.out
    assert all(name in ran.out for name in ("c0.mp4", "c3.mp4", "h264 yuv420p", "fast ", "balanced ", "quality "))
    assert f"sheet   {tmp_path / 'look.png'}" in ran.out
    assert (tmp_path / "look.png").read_bytes().startswith(b"\x89PNG")
    assert "0 errors, 0 warnings, 0 notes" in ran.err
    assert "check: 48 %" in ran.err


def test_check_as_json_is_one_object(run: Run, capture: Path) -> None:
    (report,) = run("check", capture, "--json").lines
    assert (report["usable"], report["errors"], report["findings"]) == (True, 0, [])
    assert report["common_s"] == pytest.approx([0.012, 1.25])
    assert [camera["frames"] for camera in report["cameras"]] == [26] * 4
    costs = report["estimates"]
    assert 0 < costs["fast"]["seconds"] < costs["balanced"]["seconds"] < costs["quality"]["seconds"]
    sheet = capture.with_name(f"{capture.name}.check.png")  # Beside the capture, which is only read.
    assert report["sheet"] == str(sheet)
    assert sheet.exists()
    sheet.unlink()
    (report,) = run("check", capture, "--json", "--sheet", "none").lines
    assert report["sheet"] is None
    assert not sheet.exists()


def test_a_sheet_that_cannot_be_written(run: Run, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place, words in ((tmp_path / "file" / "look.png", "File exists"), (tmp_path / "look.gif", "a .png file")):
        ran = run("check", capture, "--sheet", place)
        assert ran.code == 5
        assert words in ran.err


def test_an_unknown_field_is_a_warning(run: Run, broken: Path) -> None:
    manifest = json.loads((broken / "capture.json").read_text())
    (broken / "capture.json").write_text(json.dumps(manifest | {"colour": "blue"}))
    ran = run("check", broken, "--sheet", "none")
    assert ran.code == 0
    assert all(word in ran.out for word in ("severity", "what to do", "warning", "colour"))
    (report,) = run("check", broken, "--json", "--sheet", "none").lines
    assert [finding["severity"] for finding in report["findings"]] == ["warning"]


def test_a_picture_and_a_film_are_drawn(run: Run, scene: Path, tmp_path: Path) -> None:
    picture = tmp_path / "bild ü.png"
    ran = run("render", scene, "--out", picture, "--camera", "c3", "--time-s", "0.5", "--device", "auto")
    assert (ran.code, ran.out) == (0, f"{picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")
    film = tmp_path / "film.mp4"
    ran = run("render", scene, "--out", film, "--kind", "rig", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, f"{film}\n", "")
    with av.open(str(film)) as container:
        assert sum(1 for _ in container.decode(video=0)) > 10


@pytest.mark.parametrize(("format", "name"), [("ply", "scene.ply"), ("ply-sequence", "instants")])
def test_a_scene_is_exported(run: Run, scene: Path, tmp_path: Path, format: str, name: str) -> None:
    ran = run("export", scene, tmp_path / name, "--format", format, "--fps", "4")
    assert (ran.code, ran.out) == (0, f"{tmp_path / name}\n")
    files = [tmp_path / name] if format == "ply" else sorted((tmp_path / name).glob("*.ply"))
    assert len(files) == (1 if format == "ply" else 1 + int(4 * load(scene).duration_s))
    assert all(file.read_bytes().startswith(b"ply\n") for file in files)


def test_a_scene_is_scored_as_it_was_when_made(run: Run, scene: Path, capture: Path, tmp_path: Path) -> None:
    ran = run("score", scene, capture, "--json", "--out", tmp_path / "scores.json")
    assert ran.code == 0
    (scores,) = ran.lines
    made = json.loads((scene / "scores.json").read_text())
    assert scores["heldout_cameras"] == made["heldout_cameras"]
    assert json.loads((tmp_path / "scores.json").read_text()) == scores
    table = run("score", scene, capture, "--quiet")
    assert f"{made['heldout_cameras']['psnr']:.2f}" in table.out
    assert table.err == ""


def test_a_manifest_is_done_one_after_the_other_and_the_worst_code_counts(
    run: Run, capture: Path, scene: Path, tmp_path: Path, small: list[str]
) -> None:
    shutil.copytree(scene, tmp_path / "out" / capture.name)
    (tmp_path / "list.txt").write_text(f"missing\n{capture}\n", "utf-8")
    ran = run("reconstruct", tmp_path / "list.txt", "--out", tmp_path / "out", "--quiet", *small)
    assert ran.code == 3
    assert [line["ok"] for line in ran.lines] == [False, True]
    assert (tmp_path / "out" / "results.jsonl").read_text() == ran.out


def test_an_installed_package_adds_a_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hello = EntryPoint(name="hello", value="tests.worlds:hello", group=_main.ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: lambda: 17)
    monkeypatch.setattr(_main, "entry_points", lambda group: [hello])
    assert run("hello").code == 17
    taken = EntryPoint(name="check", value="other:check", group=_main.ENTRY_POINTS)
    monkeypatch.setattr(_main, "entry_points", lambda group: [taken])
    ran = run("check", "x")
    assert ran.code == 2
    assert "'check' is offered twice" in ran.err
