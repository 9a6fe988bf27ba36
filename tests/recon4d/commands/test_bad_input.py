"""No bad input ends in a traceback: a line says what is wrong, and the exit code of what kind it is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

Run = Callable[..., Any]
Manifest = dict[str, Any]


def refused(ran: Any, code: int, *words: str) -> None:
    said = ran.out + ran.err
    assert ran.code == code, said
    assert "Traceback" not in said
    assert [word for word in words if word not in " ".join(said.split())] == [], said


def named(ran: Any, *words: str) -> None:
    """``check --json`` refused the capture with one error that says all words."""
    assert ran.code == 3, ran.out + ran.err
    (report,) = ran.lines
    (error,) = (finding for finding in report["findings"] if finding["severity"] == "error")
    said = f"camera '{error['camera']}', {error['file']}: {error['message']}; {error['advice']}"
    assert [word for word in words if word not in said] == [], said
    assert (report["usable"], report["errors"], report["estimates"]) == (False, 1, {})


@dataclass(frozen=True)
class Fault:
    """What is done to a sound capture, and what must be said of it."""

    name: str
    spoil: Callable[[Manifest, Path], object]
    words: tuple[str, ...]


def silence(manifest: Manifest, folder: Path) -> None:
    with av.open(str(folder / "c1.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def cut(manifest: Manifest, folder: Path) -> None:
    data = (folder / "c1.mp4").read_bytes()
    (folder / "c1.mp4").write_bytes(data[: len(data) // 2])


def times(manifest: Manifest, folder: Path) -> None:
    values = (np.arange(26) * 0.05).tolist()
    values[7] = values[5]
    (folder / "t.json").write_text(json.dumps(values))
    manifest["cameras"][1]["timestamps"] = "t.json"


def bad_pose(manifest: Manifest, folder: Path) -> None:
    manifest["cameras"][1]["pose"]["matrix"][0][0] = 5.0


def look_away(manifest: Manifest, folder: Path) -> None:
    for camera in manifest["cameras"]:
        camera["pose"]["axes"] = "opengl"


def nan_in_k(manifest: Manifest, folder: Path) -> None:
    manifest["cameras"][1]["K"][0][0] = float("nan")


FAULTS = [
    Fault("no manifest", lambda m, f: m.clear(), ("capture.json",)),
    Fault("empty video", lambda m, f: (f / "c1.mp4").write_bytes(b""), ("camera 'c1'", "empty")),
    Fault("cut video", cut, ("camera 'c1'", "c1.mp4")),
    Fault("audio alone", silence, ("camera 'c1'", "no video stream")),
    Fault("one camera", lambda m, f: m.update(cameras=m["cameras"][:1]), ("1 cameras", "at least 2")),
    Fault("no video", lambda m, f: (f / "c1.mp4").unlink(), ("camera 'c1'", "missing")),
    Fault("size", lambda m, f: m["cameras"][1].update(width=640, height=480), ("camera 'c1'", "96x72", "640x480")),
    Fault("NaN in K", nan_in_k, ("camera 'c1'", "finite")),
    Fault("pose", bad_pose, ("camera 'c1'", "rotation")),
    Fault("looking away", look_away, ("away",)),
    Fault("time runs back", times, ("camera 'c1'", "frame")),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_bad_capture_is_refused_by_check_and_by_reconstruct(
    run: Run, broken: Path, tmp_path: Path, fault: Fault
) -> None:
    manifest = json.loads((broken / "capture.json").read_text())
    fault.spoil(manifest, broken)
    if manifest:
        (broken / "capture.json").write_text(json.dumps(manifest))
    else:
        (broken / "capture.json").unlink()
    named(run("check", broken, "--json"), *fault.words)
    refused(run("check", broken), 3, "error")
    refused(run("reconstruct", broken, "--out", tmp_path / "out"), 3, "error:", *fault.words)
    assert not (tmp_path / "out" / "scene.json").exists()


def test_a_missing_folder_and_an_empty_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("none", "empty"):
        named(run("check", tmp_path / name, "--json"), name)
        refused(run("reconstruct", tmp_path / name, "--out", tmp_path / "out"), 3, "error:", name)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--set", "fit.joint.stepz=1"), 2, ("'fit.joint.stepz'", "steps")),
        (("--set", "fit.joint.steps"), 2, ("NAME=VALUE",)),
        (("--set", "fit.joint.steps=-1"), 2, ("joint.steps is -1",)),
        (("--set", "fit.joint.steps=lots"), 2, ("kind int", "'lots'")),
        (("--preset", "best"), 2, ("best", "fast")),
        (("--seed", "x"), 2, ("x",)),
        (("--threads", "0"), 2, ("--threads is 0",)),
        (("--threads", "1000000"), 2, ("--threads is 1000000", "cores")),
        (("--set", "fit.loss.l1=-1"), 2, ("fit.loss.l1", "at least 0", "-1")),
        (("--set", "fit.static.rates.means=nan"), 2, ("fit.static.rates.means must be finite",)),
        (("--device", "warp"), 6, ("device 'warp' cannot be used here",)),
        (("--resume",), 2, ("nothing to resume",)),
        (("--heldout-cameras", "c9"), 2, ("['c9']", "c0")),
        (("--heldout-cameras", "c0", "c1", "c2", "c3"), 2, ("all cameras are held out",)),
        (("--nonsense",), 2, ("--nonsense",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_bad_options_of_reconstruct(
    run: Run, capture: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    refused(run("reconstruct", capture, "--out", tmp_path / "out", *arguments), code, *words)


def test_reconstruct_needs_a_capture_and_a_place(run: Run, capture: Path, tmp_path: Path) -> None:
    refused(run("reconstruct", "--out", tmp_path / "out"), 2, "no capture")
    refused(run("reconstruct", capture), 2, "--out")
    refused(run("reconstruct", capture, capture, "--out", tmp_path / "out", "--resume"), 2, "--resume is for one")


def test_a_video_is_no_capture_and_no_manifest(run: Run, capture: Path, tmp_path: Path) -> None:
    refused(run("reconstruct", capture / "c0.mp4", "--out", tmp_path / "out"), 2, "c0.mp4", "manifest")
    refused(run("reconstruct", capture / "capture.json", "--out", tmp_path / "out"), 2, "must be a JSON list")


def test_output_that_cannot_be_written(run: Run, capture: Path, scene: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    refused(run("reconstruct", capture, "--out", tmp_path / "file"), 5, "cannot write", "--out")
    refused(run("reconstruct", capture, "--out", tmp_path / "mine"), 5, "letter.txt", "nothing was changed")
    refused(run("reconstruct", capture, capture, "--out", tmp_path / "file"), 5, "cannot write", "--out")
    for command in (
        ("render", scene, "--out", tmp_path / "file" / "x.png"),
        ("render", scene, "--out", tmp_path / "file" / "x.mp4", "--kind", "rig"),
        ("export", scene, tmp_path / "file" / "x.ply"),
        ("score", scene, capture, "--out", tmp_path / "file" / "x.json"),
    ):
        refused(run(*command), 5, "error:", "file")


LONG = "é" * 300


@pytest.mark.parametrize("command", ["check", "convert-calibration", "import", "reconstruct", "render", "view"])
def test_a_name_that_is_too_long_is_said(run: Run, tmp_path: Path, command: str) -> None:
    before = ("auto",) if command == "import" else ()
    out = () if command in ("check", "view") else ("--out", tmp_path / "x.png")
    ran = run(command, *before, tmp_path / LONG, *out)
    refused(ran, ran.code, "File name too long")
    assert ran.code in (2, 3, 4)


def test_a_place_that_is_too_long_is_said(run: Run, capture: Path, tmp_path: Path) -> None:
    for arguments in (("convert-calibration", capture / "capture.json"), ("import", "auto", capture)):
        ran = run(*arguments, "--out", tmp_path / LONG / "x")
        refused(ran, ran.code, "File name too long")
        assert ran.code in (2, 5)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
def test_results_that_cannot_be_written_are_no_success(capture: Path) -> None:
    command = [sys.executable, "-m", "recon4d", "check", str(capture), "--json", "--sheet", "none"]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stderr) == (5, "error: No space left on device\n")


def test_what_was_found_is_said_where_no_file_can_be_written(
    run: Run, capture: Path, scene: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    ran = run("score", scene, capture, "--json", "--out", tmp_path / "file" / "x.json")
    refused(ran, 5, "cannot write")
    assert ran.lines[0]["heldout_cameras"]["psnr"] > 0
    ran = run("check", capture, "--json", "--sheet", tmp_path / "file" / "x.png")
    refused(ran, 5, "cannot write")
    assert ran.lines[0]["usable"]
    assert run("check", capture, "--json", "--sheet", tmp_path / "x.gif").out == ""  # Said before the work.


def test_import_names_the_formats_there_are(run: Run, tmp_path: Path) -> None:
    refused(run("import", "pusht-embodid", tmp_path), 2, "'pusht-embodid'", "'pusht-embodied'")
    refused(run("import", "pusht-embodied", tmp_path / "none", "--out", tmp_path / "out"), 3, "error:", "none")


@pytest.mark.parametrize("command", ["render", "export", "score"])
def test_a_scene_that_is_none(run: Run, capture: Path, scene: Path, tmp_path: Path, command: str) -> None:
    def arguments(folder: Path) -> list[object]:
        tail = {
            "render": ["--out", tmp_path / "x.png"],
            "export": [tmp_path / "x.ply"],
            "score": [capture],
        }
        return [command, folder, *tail[command]]

    refused(run(*arguments(tmp_path / "none")), 4, "error:", "none", "no scene")
    cut = Path(shutil.copytree(scene, tmp_path / "cut"))
    (cut / "scene.safetensors").write_bytes((cut / "scene.safetensors").read_bytes()[:5000])
    refused(run(*arguments(cut)), 4, "error:", "scene.safetensors", "cut short")
    (cut / "scene.json").write_text('{"format": "recon4d-scene", "version": 99}')
    refused(run(*arguments(cut)), 4, "error:", "version 99", "newer")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("render", "--out", "x.mp4", "--kind", "rig", "--camera", "c9"), 2, ("c9", "c0")),
        (("render", "--out", "x.txt"), 2, ("x.txt", ".png")),
        (("render", "--out", "x.png", "--kind", "orbit"), 2, (".mp4",)),
        (("render", "--out", "x.png", "--kind", "dream"), 2, ("dream",)),
        (("render", "--out", "x.png", "--time-s", "99"), 2, ("99",)),
        (("render", "--out", "x.mp4", "--kind", "orbit", "--time-s", "1"), 2, ("'orbit' shows the whole clip",)),
        (("render", "--out", "x.png", "--time-s", "nan"), 2, ("nan",)),
        (("render", "--out", "x.png", "--device", "warp"), 6, ("'warp'",)),
        (("export", "x.ply", "--format", "plx"), 2, ("'plx'", "did you mean", "ply")),
        (("export", "x.ply", "--time-s", "99"), 2, ("99",)),
        (("export", "x", "--format", "ply-sequence", "--fps", "0"), 2, ("fps",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_bad_options_of_what_looks_at_a_scene(
    run: Run,
    scene: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(run(arguments[0], scene, *arguments[1:]), code, *words)
    assert list(tmp_path.iterdir()) == []


def test_another_rig_is_no_capture_of_this_scene(run: Run, scene: Path, broken: Path) -> None:
    (broken / "c1.mp4").write_bytes(b"no video")
    refused(run("score", scene, broken), 3, "error:", "camera 'c1'")


def test_no_command_and_an_unknown_one(run: Run) -> None:
    refused(run(), 2, "reconstruct")
    refused(run("reconstrukt"), 2, "reconstrukt")
