"""The ten commonest ways in which public pipelines fail on input, as real files through the real command line.

Each ends in the right result, held against the truth that the files were made from, or in a message that names the
camera and the way out; none in a traceback, and none in geometry that is wrong without a word.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from recon4d.capture import ingest
from recon4d.commands import main
from recon4d.scene import load
from recon4d.types import Camera, Capture
from tests import bench
from tests.calibrations import KINDS, Truth


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        return json.loads(self.out)

    def said(self, *severities: str) -> list[str]:
        """What ``check --json`` found, one text each."""
        return [
            f"{f['camera']} {f['file']} {f['message']} {f['advice']}"
            for f in self.report["findings"]
            if not severities or f["severity"] in severities
        ]


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def checked(run: Run) -> Callable[[Path], Ran]:
    return lambda capture: run("check", capture, "--json", "--sheet", "none")


def truths(scale: float = 1.0) -> list[Truth]:
    """The cameras of the films, for the writers of calibrations."""
    return [
        Truth(
            name=name,
            width=round(film.camera.width * scale),
            height=round(film.camera.height * scale),
            f=(film.camera.K[0, 0] * scale, film.camera.K[1, 1] * scale),
            c=(film.camera.K[0, 2] * scale, film.camera.K[1, 2] * scale),
            T_cam_world=film.camera.T_cam_world,
        )
        for name, film in bench.films().items()
    ]


def write_videos(folder: Path, **how: dict[str, Any]) -> Path:
    for name, film in bench.films().items():
        bench.encode(folder / f"{name}.mp4", **{"frames": film.frames, "times": film.times, **how.get(name, {})})
    return folder


def assert_true(capture: Capture, *, colours: float = 4.0) -> None:
    """Cameras, times and pictures are those that the files were made from."""
    films = bench.films()
    for clip in capture.clips:
        film = films[clip.camera.name]
        assert_same_camera(clip.camera, film.camera)
        at = np.array([np.abs(film.times - film.times[0] - (t - clip.times[0])).argmin() for t in clip.times])
        first = int(np.abs(film.times - (clip.times[0] + capture.clock_offset_s)).argmin())
        at += first
        for picture, index in zip(clip.frames[:3], at[:3], strict=True):
            assert np.abs(picture.astype(int) - film.frames[index]).mean() < colours


def assert_same_camera(got: Camera, true: Camera) -> None:
    assert (got.width, got.height) == (true.width, true.height)
    assert pytest.approx(true.K, abs=1e-6) == got.K
    assert got.T_cam_world == pytest.approx(true.T_cam_world, abs=1e-6)


# 1. The wrong camera convention.

MISWRITTEN = [
    ("transforms", "c2w-opencv"),
    ("opencv-yaml", "w2c-opengl"),
    pytest.param("transforms", "w2c-opengl", marks=pytest.mark.slow),
    pytest.param("colmap-text", "c2w-opencv", marks=pytest.mark.slow),
    pytest.param("easymocap", "c2w-opencv", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "reading"), MISWRITTEN)
def test_a_calibration_in_another_convention_is_corrected_and_said(
    run: Run, checked: Callable[[Path], Ran], tmp_path: Path, kind: str, reading: str
) -> None:
    source = write_videos(tmp_path / "lab")
    KINDS[kind].write(source, truths(), reading, 1.0)
    ran = run("import", "auto", source, "--units", "m", "--up", "z", "--out", tmp_path / "capture")
    assert ran.code == 0, ran.err
    assert f"poses read as {reading}" in ran.err
    assert_true(ingest(tmp_path / "capture"))
    # Nobody named a plane, but the ground is one.
    assert checked(tmp_path / "capture").report["poses"].startswith("the bench looks the same from 4 of 4 cameras")


@pytest.mark.parametrize(
    ("convention", "axes"), [("T_world_cam", "opencv"), ("T_cam_world", "opengl"), ("T_world_cam", "opengl")]
)
@pytest.mark.parametrize("plane", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["plane", "no plane"])
def test_a_capture_that_declares_another_convention_is_refused_with_the_right_one(
    run: Run, checked: Callable[[Path], Ran], tmp_path: Path, convention: str, axes: str, plane: bool
) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        for camera in manifest["cameras"]:
            camera["pose"] |= {"convention": convention, "axes": axes}
        if not plane:
            del manifest["bench_plane"]

    folder = bench.write(tmp_path / "capture", edit)
    ran = checked(folder)
    assert ran.code == 3
    right = {
        ("T_world_cam", "opencv"): "read as the other convention (T_cam_world, T_world_cam) they do",
        ("T_cam_world", "opengl"): "read as the other camera axes they do",
        ("T_world_cam", "opengl"): "read as the other convention and the other camera axes they do",
    }[convention, axes]
    assert any(right in text for text in ran.said()), ran.said()
    assert sorted(ran.report["wrong"]) == sorted(bench.CAMERAS)
    refused = run("reconstruct", folder, "--out", tmp_path / "scene", "--preset", "fast")
    assert refused.code == 3
    assert "error:" in refused.err
    assert not (tmp_path / "scene" / "scene.json").exists()


# 2. Structure from motion that placed fewer cameras than there are videos.


def test_cameras_that_were_not_placed_are_named_and_left_out(run: Run, tmp_path: Path) -> None:
    source = write_videos(tmp_path / "lab")
    KINDS["colmap-text"].write(source, truths()[:3], "w2c-opencv", 1.0)
    ran = run("import", "auto", source, "--units", "m", "--up", "z", "--out", tmp_path / "capture")
    assert ran.code == 0
    assert "cam4.mp4: no camera of the calibration has this video; it is left out" in " ".join(ran.err.split())
    capture = ingest(tmp_path / "capture")
    assert [clip.camera.name for clip in capture.clips] == ["cam0", "cam2", "cam3"]
    assert_true(capture)


def test_poses_without_names_and_fewer_than_videos_are_refused(run: Run, tmp_path: Path) -> None:
    source = write_videos(tmp_path / "lab")
    KINDS["llff"].write(source, truths()[:3], "c2w-llff", 1.0)
    ran = run("import", "auto", source, "--units", "m", "--up", "z", "--out", tmp_path / "capture")
    assert ran.code == 3
    assert "it holds 3, but there are 4 videos ('cam0.mp4'" in ran.err
    assert not (tmp_path / "capture" / "capture.json").exists()


# 3. Rotation metadata.


def test_a_turned_video_comes_out_upright(checked: Callable[[Path], Ran], tmp_path: Path) -> None:
    film = bench.films()["cam2"]
    stored = np.rot90(film.frames, 1, axes=(1, 2))  # What the display matrix turns back.
    folder = bench.write(tmp_path / "capture", cam2={"frames": stored})
    bench.turned(folder / "cam2.mp4", (0, 1, -1, 0))
    ran = checked(folder)
    assert ran.code == 0
    assert any(text.startswith("cam2") for text in ran.said("note"))
    assert "4 of 4 cameras" in ran.report["poses"]
    assert_true(ingest(folder))


def test_a_calibration_of_the_pictures_as_stored_is_refused(checked: Callable[[Path], Ran], tmp_path: Path) -> None:
    folder = bench.write(tmp_path / "capture")
    bench.turned(folder / "cam2.mp4", (0, 1, -1, 0))  # Now 240x320, turned by whoever filmed.
    ran = checked(folder)
    assert ran.code == 3
    (error,) = ran.said("error")
    assert error.startswith("cam2 cam2.mp4")
    assert "240x320" in error
    assert "320x240" in error


# 4. A variable frame rate.


def test_every_frame_of_a_variable_rate_keeps_its_time(checked: Callable[[Path], Ran], tmp_path: Path) -> None:
    film = bench.films()["cam3"]
    kept = np.delete(np.arange(len(film.times)), [3, 4, 8, 11, 12])
    times = film.times[kept] + np.random.default_rng(0).uniform(-0.02, 0.02, len(kept)).round(4)
    times -= times[0] - film.times[0]
    folder = bench.write(tmp_path / "capture", cam3={"frames": film.frames[kept], "times": times})
    ran = checked(folder)
    assert ran.code == 0
    assert any("variable rate" in text for text in ran.said("note"))
    capture = ingest(folder)
    (clip,) = (clip for clip in capture.clips if clip.camera.name == "cam3")
    on_clock = clip.times + capture.clock_offset_s
    assert np.abs(on_clock[:, None] - times).min(1).max() < 2e-4
    assert np.abs(np.diff(np.searchsorted(times, on_clock - 2e-4)) - 1).max() == 0  # None is left out, none twice.


# 5. Frames and times of different number.


@pytest.mark.parametrize("extra", [1, -2])
def test_counts_that_differ_are_told_with_both(checked: Callable[[Path], Ran], tmp_path: Path, extra: int) -> None:
    count = len(bench.films()["cam0"].times)

    def edit(manifest: dict[str, Any]) -> None:
        manifest["cameras"][0]["timestamps"] = "times.json"

    folder = bench.write(tmp_path / "capture", edit)
    (folder / "times.json").write_text(json.dumps((np.arange(count + extra) * 0.1).tolist()))
    ran = checked(folder)
    assert ran.code == 3
    (error,) = ran.said("error")
    assert error.startswith("cam0")
    assert f"decodes to {count} frames, but times.json holds {count + extra} times" in error


# 6. A file that was cut off.


@pytest.mark.parametrize("share", [0.3, 0.9, 0.995])
def test_a_video_that_was_cut_off_is_named(
    run: Run, checked: Callable[[Path], Ran], tmp_path: Path, share: float
) -> None:
    folder = bench.write(tmp_path / "capture")
    video = folder / "cam3.mp4"
    data = video.read_bytes()
    assert data.rindex(b"moov") > data.index(b"mdat")  # The index is written last, as cameras do.
    video.write_bytes(data[: int(len(data) * share)])
    ran = run("check", folder, "--json", "--sheet", tmp_path / "look.png")
    assert ran.code == 3
    (error,) = ran.said("error")
    assert error.startswith("cam3 cam3.mp4")
    assert "again" in error  # Copy or upload it again.
    assert ran.report["wrong"] == ["cam3"]
    assert cv2.imread(str(tmp_path / "look.png")) is not None  # The others are shown all the same.


# 7. Pictures of another size than the calibration's, by a pixel that an undistorter took.


def test_a_size_that_is_a_pixel_off_is_refused(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "lab"
    for name, film in bench.films().items():
        wide = np.stack([cv2.resize(frame, (2588, 1941))[:48] for frame in film.frames[:3]])
        bench.encode(source / f"{name}.mp4", wide, np.arange(3) * 0.1, pix_fmt="yuv420p", crf=30)
    larger = [
        Truth(name=t.name, width=2589, height=48, f=t.f, c=(t.c[0], 24.0), T_cam_world=t.T_cam_world)
        for t in truths(8.09)
    ]
    KINDS["opencv-yaml"].write(source, larger, "w2c-opencv", 1.0)
    ran = run("import", "auto", source, "--units", "m", "--up", "z", "--out", tmp_path / "capture")
    assert ran.code == 3
    assert "camera 'cam0': the calibration is for 2589x48, the video is 2588x48" in ran.err
    assert "--fit scale" in ran.err
    ran = run("import", "auto", source, "--units", "m", "--up", "z", "--fit", "scale", "--out", tmp_path / "capture")
    assert ran.code == 0
    (camera, *_) = ingest(tmp_path / "capture").cameras
    assert (camera.width, camera.height) == (2588, 48)
    assert camera.K[0, 0] == pytest.approx(larger[0].f[0] * 2588 / 2589)


def test_the_same_in_a_capture_folder(checked: Callable[[Path], Ran], tmp_path: Path) -> None:
    folder = bench.write(tmp_path / "capture", lambda manifest: manifest["cameras"][1].update(width=321))
    ran = checked(folder)
    assert ran.code == 3
    (error,) = ran.said("error")
    assert error.startswith("cam2 cam2.mp4 frame 0 is 320x240, the calibration is for 321x240")


# 8. Names that are not ASCII.


def test_names_of_any_script_in_either_form(run: Run, tmp_path: Path) -> None:
    names = dict(zip(bench.CAMERAS, ("Kamera Ü", "左", "камера", "câmera 3"), strict=True))
    source = tmp_path / "Werkbank für Übung 台"
    for (name, film), shown in zip(bench.films().items(), names.values(), strict=True):
        bench.encode(source / f"{unicodedata.normalize('NFD', shown)}.mp4", film.frames, film.times)
        assert name in names
    named = [Truth(**{**vars(t), "name": names[t.name]}) for t in truths()]
    KINDS["by-hand"].write(source, named, "w2c-opencv", 1.0)
    out = tmp_path / "キャプチャ"
    ran = run("import", "auto", source, "--units", "m", "--up", "z", "--out", out)
    assert ran.code == 0, ran.err
    ran = run("check", out)
    assert ran.code == 0
    assert all(shown in unicodedata.normalize("NFC", ran.out) for shown in names.values())
    sheet = out.with_name("キャプチャ.check.png")
    assert cv2.imdecode(np.frombuffer(sheet.read_bytes(), np.uint8), cv2.IMREAD_COLOR) is not None
    true = {names[name]: film.camera for name, film in bench.films().items()}
    for clip in ingest(out).clips:
        assert_same_camera(clip.camera, true[unicodedata.normalize("NFC", clip.camera.name)])


# 9. A camera that is not synchronised.


def test_clocks_that_nobody_gave_are_said(checked: Callable[[Path], Ran], tmp_path: Path) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        for camera in manifest["cameras"][:3]:
            camera["time_offset_s"] = 0.0001

    ran = checked(bench.write(tmp_path / "capture", edit))
    assert ran.code == 0
    assert ran.report["clocks"].startswith("of 'cam4' nobody gave times")
    assert "`recon4d sync`" in ran.report["clocks"]


# 10. HEVC and ten bits.


def test_hevc_with_ten_bits(checked: Callable[[Path], Ran], tmp_path: Path) -> None:
    how = {"codec": "libx265", "pix_fmt": "yuv420p10le", "crf": 10}
    folder = bench.write(tmp_path / "capture", **dict.fromkeys(bench.CAMERAS[:2], how))
    ran = checked(folder)
    assert ran.code == 0
    assert [camera["codec"] for camera in ran.report["cameras"][:2]] == ["hevc yuv420p10le"] * 2
    assert "4 of 4 cameras" in ran.report["poses"]
    assert_true(ingest(folder), colours=6.0)


def test_high_dynamic_range_is_tone_mapped_and_said(checked: Callable[[Path], Ran], tmp_path: Path) -> None:
    hlg = {"codec": "libx265", "pix_fmt": "yuv420p10le", "color_trc": 18, "color_primaries": 9, "colorspace": 9}
    ran = checked(bench.write(tmp_path / "capture", cam0=hlg))
    assert ran.code == 0
    assert any(text.startswith("cam0") and "HLG" in text for text in ran.said("warning"))


# Right results go on to a scene.

SMALL = (
    *("--preset", "fast", "--quiet", "--set", "fit.static.count=1500", "fit.static.steps=80", "fit.seeds.count=600"),
    *("fit.joint.steps=150", "videos=false"),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["convention", "partial", "turned", "hevc"])
def test_what_came_out_right_is_reconstructed(run: Run, tmp_path: Path, kind: str) -> None:
    capture = tmp_path / "capture"
    if kind in ("convention", "partial"):
        source = write_videos(tmp_path / "lab")
        chosen = truths()[:3] if kind == "partial" else truths()
        KINDS["transforms"].write(source, chosen, "c2w-opencv" if kind == "convention" else "c2w-opengl", 1.0)
        assert run("import", "auto", source, "--units", "m", "--up", "z", "--out", capture).code == 0
    elif kind == "turned":
        stored = np.rot90(bench.films()["cam2"].frames, 1, axes=(1, 2))
        bench.turned(bench.write(capture, cam2={"frames": stored}) / "cam2.mp4", (0, 1, -1, 0))
    else:
        bench.write(capture, cam0={"codec": "libx265", "pix_fmt": "yuv420p10le"})
    ran = run("reconstruct", capture, "--out", tmp_path / "scene", *SMALL)
    assert ran.code == 0, ran.err
    for camera in load(tmp_path / "scene").cameras:
        assert_same_camera(camera, bench.films()[camera.name].camera)
    scores = json.loads((tmp_path / "scene" / "scores.json").read_text())
    assert scores["train"]["psnr"] > 18
