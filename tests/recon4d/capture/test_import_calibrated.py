"""Calibrations and videos become captures: names that nearly match, sizes that do not, and the commands."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from recon4d.capture import Distortion, Finding, RigCamera, check, import_capture, ingest, read_calibration
from recon4d.capture._fit import fitted_to
from recon4d.commands._main import main
from recon4d.errors import CalibrationError, CaptureError, ConfigError, OutputError
from recon4d.types import Camera
from tests.calibrations import KINDS, Truth, rig

SIZE = (64, 48)


def small(count: int = 4, lens: str = "none") -> list[Truth]:
    """The rig, with pictures that are quickly encoded."""
    cameras = []
    for t in rig(lens)[:count]:
        scale = SIZE[0] / t.width
        f = (t.f[0] * scale, t.f[1] * scale)
        cameras.append(replace(t, width=SIZE[0], height=SIZE[1], f=f, c=(SIZE[0] / 2, SIZE[1] / 2)))
    return cameras


def film(kit: SimpleNamespace, folder: Path, names: list[str], size: tuple[int, int] = SIZE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for index, name in enumerate(names):
        kit.encode(folder / name, kit.pictures(6, seed=index, width=size[0], height=size[1]))
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_every_form_becomes_a_capture(name: str, kit: SimpleNamespace, tmp_path: Path) -> None:
    truth = sorted(small(), key=lambda t: t.name)  # As LLFF's cameras are.
    source = tmp_path / "bench"
    source.mkdir()
    KINDS[name].write(source, truth, KINDS[name].documented or "w2c-opencv", 1.0)
    film(kit, source, [f"{t.name}.{'mp4' if name == 'x-wc' else 'mkv'}" for t in truth])
    if name == "x-wc":
        for path in source.glob("cam_*.json"):
            path.write_text(json.dumps({**json.loads(path.read_text()), "timestamps": [0.04 * k for k in range(6)]}))
    found: list[Finding] = []
    folder = import_capture("auto", source, tmp_path / "out", on_finding=found.append)
    assert [finding for finding in check(folder) if finding.severity == "error"] == []
    capture = ingest(folder)
    cameras = {clip.camera.name.replace("cam_4", "cam_04"): clip.camera for clip in capture.clips}
    for t in truth:
        assert cameras[t.name].T_cam_world == pytest.approx(t.T_cam_world, abs=1e-6)
    assert any("poses read as" in finding.message for finding in found)


@pytest.mark.parametrize(
    ("videos", "said"),
    [
        (["CAM_1.MKV", "Cam_2.mkv", "cam_3.mkv", "cam_04.mkv"], "upper and lower case"),
        (["cam-01.mkv", "cam-02.mkv", "cam-03.mkv", "cam-4.mkv"], "leading zeros"),
        (["1.mkv", "02.mkv", "003.mkv", "4.mkv"], "only the number"),
        (["Kamera 1.mkv", "Kamera 2.mkv", "Kamera 3.mkv", "Kamera 4.mkv"], "only the number"),
    ],
)
def test_videos_are_found_by_nearly_their_names(
    videos: list[str], said: str, kit: SimpleNamespace, tmp_path: Path
) -> None:
    source = KINDS["transforms"].write(tmp_path, small(), "c2w-opengl", 1.0)
    film(kit, tmp_path / "clips", videos)
    found: list[Finding] = []
    folder = import_capture("auto", source, tmp_path / "out", videos=tmp_path / "clips", on_finding=found.append)
    cameras = {c["name"]: c["video"] for c in json.loads((folder / "capture.json").read_text())["cameras"]}
    for (name, placed), video in zip(sorted(cameras.items(), key=lambda item: item[0][-1]), videos, strict=True):
        assert (folder / placed).samefile(tmp_path / "clips" / video), name
    assert any(said in finding.message for finding in found)


def test_letters_with_marks_are_one_letter(kit: SimpleNamespace, tmp_path: Path) -> None:
    names = ["küche", "flur_é", "左", "dach"]
    truth = [replace(t, name=unicodedata.normalize("NFC", n)) for t, n in zip(small(), names, strict=True)]
    KINDS["transforms"].write(tmp_path, truth, "c2w-opengl", 1.0)
    film(kit, tmp_path, [unicodedata.normalize("NFD", n) + ".mkv" for n in names])
    folder = import_capture("auto", tmp_path, tmp_path / "out")
    assert {clip.camera.name for clip in ingest(folder).clips} == {t.name for t in truth}


def test_names_that_do_not_match_are_listed(kit: SimpleNamespace, tmp_path: Path) -> None:
    source = KINDS["transforms"].write(tmp_path, small(), "c2w-opengl", 1.0)
    film(kit, tmp_path, ["cam_1.mkv", "cam_2.mkv", "front.mkv"])
    with pytest.raises(CaptureError, match=r"the cameras 'cam_3', 'cam_04'; videos without a camera: 'front\.mkv'"):
        import_capture("auto", source, tmp_path / "out")
    found: list[Finding] = []
    import_capture("auto", source, tmp_path / "out", cameras=("cam_1", "cam_2"), on_finding=found.append)
    (stray,) = (finding for finding in found if "no camera of the calibration" in finding.message)
    assert (stray.severity, stray.file) == ("warning", "front.mkv")
    with pytest.raises(ConfigError, match="--cameras names the camera 'cam_7'"):
        import_capture("auto", source, tmp_path / "out2", cameras=("cam_7",))
    film(kit, tmp_path / "twins", ["cam_1.mkv", "1.mkv", "02.mkv", "cam_3.mkv", "4.mkv"])
    with pytest.raises(CaptureError, match=r"camera 'cam_1': several videos could be meant: '1\.mkv', 'cam_1\.mkv'"):
        import_capture("auto", source, tmp_path / "out3", videos=tmp_path / "twins")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaptureError, match=r"holds no video; give their folder with --videos"):
        import_capture("auto", source, tmp_path / "out4", videos=tmp_path / "empty")


def test_llff_takes_the_order_of_the_videos(kit: SimpleNamespace, tmp_path: Path) -> None:
    truth = small()
    KINDS["llff"].write(tmp_path, truth, "c2w-llff", 1.0)
    film(kit, tmp_path, ["cam00.mkv", "cam01.mkv", "cam02.mkv", "cam03.mkv", "cam10.mkv"])
    with pytest.raises(CaptureError, match=r"it holds 4, but there are 5 videos \('cam00\.mkv'.*not calibrated"):
        import_capture("auto", tmp_path, tmp_path / "out")
    (tmp_path / "cam01.mkv").unlink()
    clips = ingest(import_capture("auto", tmp_path, tmp_path / "out")).clips
    assert [clip.camera.name for clip in clips] == ["cam00", "cam02", "cam03", "cam10"]
    for clip, t in zip(clips, truth, strict=True):
        assert clip.camera.T_cam_world == pytest.approx(t.T_cam_world)


def test_sizes_come_from_the_videos_where_the_file_has_none(kit: SimpleNamespace, tmp_path: Path) -> None:
    truth = small()
    KINDS["easymocap"].write(tmp_path, truth, "w2c-opencv", 1.0)
    lines = (tmp_path / "intri.yml").read_text().splitlines()
    (tmp_path / "intri.yml").write_text("\n".join(line for line in lines if not line.startswith(("H_", "W_"))))
    film(kit, tmp_path, [f"{t.name}.mkv" for t in truth])
    for clip in ingest(import_capture("auto", tmp_path, tmp_path / "out")).clips:
        assert (clip.camera.width, clip.camera.height) == SIZE


@pytest.mark.parametrize(
    ("size", "fits"),
    [
        ((32, 24), ["scale", "crop"]),
        ((128, 96), ["scale"]),
        ((64, 40), ["crop"]),
        ((48, 64), ["rotate-left", "rotate-right"]),
    ],
)
def test_another_size_is_diagnosed(
    size: tuple[int, int], fits: list[str], kit: SimpleNamespace, tmp_path: Path
) -> None:
    source = KINDS["transforms"].write(tmp_path, small(), "c2w-opengl", 1.0)
    film(kit, tmp_path, [f"{t.name}.mkv" for t in small()], size)
    with pytest.raises(CalibrationError, match=f"camera 'cam_1'.*64x48, the video is {size[0]}x{size[1]}") as refused:
        import_capture("auto", source, tmp_path / "out")
    assert re.findall(r"--fit ([a-z-]+)", str(refused.value)) == fits
    for fit in fits:
        capture = ingest(import_capture("auto", source, tmp_path / f"out-{fit}", fit=fit))
        assert {(clip.camera.width, clip.camera.height) for clip in capture.clips} == {size}


@pytest.mark.parametrize("fisheye", [False, True])
@pytest.mark.parametrize("how", ["scale", "crop", "rotate-left", "rotate-right"])
def test_a_fitted_camera_sees_points_where_the_changed_picture_has_them(how: str, fisheye: bool) -> None:
    t = rig("fisheye" if fisheye else "opencv")[1]
    pinhole = Camera(name="a", width=640, height=480, K=np.array(t.K()), T_cam_world=t.T_cam_world)
    lens = Distortion(model="fisheye" if fisheye else "opencv", coefficients=np.array(t.k))
    before = RigCamera(camera=pinhole, distortion=lens)
    size = {"scale": (320, 240), "crop": (600, 400)}.get(how, (480, 640))
    after = fitted_to(before, size, how)  # pyright: ignore[reportArgumentType]
    points = np.random.default_rng(3).normal([0.3, -0.2, 0.05], 0.1, (20, 3))
    x, y = seen(before, points).T
    changed = {
        "scale": (x / 2, y / 2),
        "crop": (x - 20, y - 40),
        "rotate-left": (y, 640 - x),  # What was at the right edge is at the top.
        "rotate-right": (480 - y, x),
    }[how]
    assert seen(after, points) == pytest.approx(np.stack(changed, 1), abs=1e-6)


def seen(camera: RigCamera, points: np.ndarray) -> np.ndarray:
    """[N, 2] pixels, as filmed, with centres at 0.5."""
    T, lens = camera.camera.T_cam_world, camera.distortion
    assert lens is not None
    rvec, tvec = cv2.Rodrigues(T[:3, :3])[0], T[:3, 3].reshape(3, 1).copy()
    project = cv2.fisheye.projectPoints if lens.model == "fisheye" else cv2.projectPoints
    return project(points[:, None], rvec, tvec, camera.camera.K, lens.coefficients)[0][:, 0]


def test_clocks_are_not_taken_over_in_silence(kit: SimpleNamespace, tmp_path: Path) -> None:
    def late(manifest: dict) -> None:
        manifest["cameras"][1]["time_offset_s"] = 0.5

    folder = kit.make_capture(tmp_path / "take", edit=late)
    _, report = read_calibration(folder)
    assert any("time_offset_s" in f.message and "cam1" in f.message for f in report.findings)


def test_the_commands(kit: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = small()
    source = KINDS["colmap-text"].write(tmp_path, truth, "c2w-opencv", 0.5)
    film(kit, tmp_path / "clips", [f"{t.name}.mkv" for t in truth])
    a, b = (np.linalg.inv(t.T_cam_world)[:3, 3] for t in truth[:2])
    given = ["--distance", f"cam_1:cam_2:{float(np.linalg.norm(a - b))}", "--up=z"]
    out = tmp_path / "out"
    arguments = ["import", "auto", str(tmp_path / "clips"), "--calibration", str(source), *given, "--out", str(out)]
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert "read as 'c2w-opencv'" in said.err
    assert "c2w-opencv" in said.err.split("odds")[1]
    for clip, t in zip(ingest(out).clips, truth, strict=True):
        assert clip.camera.T_cam_world == pytest.approx(t.T_cam_world, abs=1e-6)
    assert main(["convert-calibration", str(out), "--out", str(tmp_path / "rig.json"), "--to", "nerfstudio"]) == 0
    got, report = read_calibration(tmp_path / "rig.json")
    assert report.format == "nerfstudio"
    for camera, t in zip(got.cameras, truth, strict=True):
        assert camera.camera.T_cam_world == pytest.approx(t.T_cam_world, abs=1e-6)
    capsys.readouterr()
    assert (
        main(["convert-calibration", str(source), "--out", str(tmp_path / "rig2.json"), "--format", "colmap", "--json"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["reading"], told["units"]) == ("colmap", "c2w-opencv", "arbitrary")
    assert told["scores"][0]["nats"] > told["scores"][1]["nats"] + 3
    for wrong, code, words in (
        (["--distance", "cam_1:2"], 2, "CAMERA:CAMERA:METRES"),
        (["--plane", "0,0,1"], 2, "a,b,c,d"),
        (["--size", "big"], 2, "WIDTHxHEIGHT"),
        (["--fit", "squash"], 2, "scale, crop"),
        (["--reading", "up"], 2, "there is no reading 'up'"),
        (["--episode", "2"], 2, "takes no ['episode']"),
    ):
        new = ["--out", str(tmp_path / "never")]
        assert main(["import", "colmap", str(source), "--videos", str(tmp_path / "clips"), *wrong, *new]) == code
        assert words in capsys.readouterr().err
        assert not (tmp_path / "never").exists()


def test_nothing_that_is_there_is_replaced(kit: SimpleNamespace, tmp_path: Path) -> None:
    truth = small()
    source = film(kit, tmp_path / "source", [f"{t.name}.mkv" for t in truth])
    KINDS["transforms"].write(source, truth, "c2w-opengl", 1.0)
    out = tmp_path / "out"
    out.mkdir()
    for mine in (f"{truth[1].name}.mkv", "capture.json"):
        (out / mine).write_text("mine")
        with pytest.raises(OutputError, match=f"{re.escape(mine)}' exists already"):
            import_capture("auto", source, out)
        assert [(path.name, path.read_text()) for path in out.iterdir()] == [(mine, "mine")]
        (out / mine).unlink()
    import_capture("auto", source, out)
    (out / "capture.json").unlink()
    assert ingest(import_capture("auto", source, out)).clips  # The very same videos are there already.


def test_only_videos_that_nobody_spoke_of_are_strays(
    kit: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = small()
    source = film(kit, tmp_path / "the source", [f"{t.name.upper()}.mkv" for t in truth] + ["phone.mkv"])
    KINDS["transforms"].write(source, truth, "c2w-opengl", 1.0)
    chosen = [t.name for t in truth[:2]]
    out = tmp_path / "the capture"
    assert main(["import", "auto", str(source), "--cameras", *chosen, "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert [line for line in said.err.splitlines() if "left out" in line and "warning" in line] == [
        "warning: phone.mkv: no camera of the calibration has this video; it is left out; calibrate its camera too,"
        " or take the file away"
    ]
    assert f"recon4d check '{out}'" in said.out  # To be copied.
