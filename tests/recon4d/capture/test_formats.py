"""Importing other projects' layouts."""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from recon4d.capture import check, divide, formats, import_capture, ingest
from recon4d.errors import CaptureError, ConfigError, OutputError
from recon4d.geometry import OPENGL_TO_OPENCV, look_at
from recon4d.types import Camera, Capture

CENTRES = {"101": [1.0, 0.2, 0.5], "202": [0.3, 1.0, 0.7]}


def write_foreign(kit: SimpleNamespace, folder: Path) -> Path:
    """A folder in the pusht-embodied layout, written from its description."""
    (folder / "videos").mkdir(parents=True)
    rig = {}
    for index, (serial, centre) in enumerate(CENTRES.items()):
        kit.encode(folder / f"videos/{serial}.mkv", kit.pictures(6, seed=index))
        X_WC = np.linalg.inv(look_at(np.array(centre), np.zeros(3))) @ OPENGL_TO_OPENCV
        metadata = {
            "serial": serial,
            "K": [[60.0, 0, 31.5], [0, 61.0, 23.5], [0, 0, 1]],
            "resolution": [64, 48],
            "timestamps": [0.01 * index + 0.05 * k for k in range(6)],
        }
        (folder / f"videos/{serial}.json").write_text(json.dumps(metadata))
        rig[serial] = {
            "X_WC": X_WC.tolist(),
            "video_path": f"videos/{serial}.mkv",
            "metadata_path": f"videos/{serial}.json",
        }
    (folder / "cameras.json").write_text(json.dumps(rig))
    (folder / "ground_plane.json").write_text(json.dumps({"plane": [0, 0, 1, 0.02]}))
    return folder


def test_pusht_embodied(kit: SimpleNamespace, tmp_path: Path) -> None:
    source = write_foreign(kit, tmp_path / "take3")
    folder = import_capture("pusht-embodied", source, tmp_path / "out/take3")
    assert check(folder) == ()
    capture = ingest(folder)
    assert capture.name == "take3"
    assert capture.plane == pytest.approx([0, 0, 1, 0.02])
    assert capture.clock_offset_s == pytest.approx(0.01)
    for clip, centre in zip(capture.clips, CENTRES.values(), strict=True):
        assert clip.camera.center_w == pytest.approx(centre)
        assert clip.camera.forward_w == pytest.approx(-np.array(centre) / np.linalg.norm(centre))
        assert clip.camera.K[:2, 2] == pytest.approx([32, 24])  # Integer pixel centres, moved by a half.


@pytest.mark.parametrize("linkable", [True, False])
def test_videos_are_linked_or_copied(
    kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linkable: bool
) -> None:
    source = write_foreign(kit, tmp_path / "src")
    if not linkable:

        def refuse(*_: object) -> None:
            raise PermissionError("links are forbidden")

        monkeypatch.setattr(os, "link", refuse)
    folder = import_capture("pusht-embodied", source, tmp_path / "out")
    assert (folder / "101.mkv").samefile(source / "videos/101.mkv") == linkable
    shutil.rmtree(source)
    assert check(folder) == ()


def test_import_in_place_refers_to_the_videos(kit: SimpleNamespace, tmp_path: Path) -> None:
    source = write_foreign(kit, tmp_path / "src")
    assert import_capture("pusht-embodied", source, source) == source
    manifest = json.loads((source / "capture.json").read_text())
    assert [c["video"] for c in manifest["cameras"]] == ["videos/101.mkv", "videos/202.mkv"]
    assert check(source) == ()


def test_the_default_target_is_named_after_the_source(
    kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_foreign(kit, tmp_path / "src")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert import_capture("pusht-embodied", source) == Path("src")
    assert (tmp_path / "here/src/capture.json").exists()
    with pytest.raises(OutputError, match="exists already"):
        import_capture("pusht-embodied", source)


def test_a_format_of_another_package(kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("mine", "recon4d.capture.formats.pusht_embodied:read", "recon4d.formats")
    registry = sys.modules["recon4d.capture.formats"]  # The door's function of that name hides the package.
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    assert {"mine", "pusht-embodied"} <= set(formats())
    assert check(import_capture("mine", write_foreign(kit, tmp_path / "src"), tmp_path / "out")) == ()


def test_what_cannot_be_imported(kit: SimpleNamespace, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'nerf'; there are .*'pusht-embodied'"):
        import_capture("nerf", tmp_path, tmp_path / "out")
    with pytest.raises(CaptureError, match=r"cameras\.json: .* no such file"):
        import_capture("pusht-embodied", tmp_path, tmp_path / "out")
    source = write_foreign(kit, tmp_path / "src")
    (source / "videos/202.mkv").unlink()
    with pytest.raises(CaptureError, match=r"camera '202'.*missing"):
        import_capture("pusht-embodied", source, tmp_path / "out")
    (source / "videos/202.json").write_text('{"K": [], "resolution": [64, 48]}')
    with pytest.raises(CaptureError, match=r"camera '202'.*'timestamps' is missing"):
        import_capture("pusht-embodied", source, tmp_path / "out2")
    (source / "videos/202.json").write_text("{")
    with pytest.raises(CaptureError, match=r"202\.json: cannot be read as JSON"):
        import_capture("pusht-embodied", source, tmp_path / "out3")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        import_capture("pusht-embodied", write_foreign(kit, tmp_path / "src2"), tmp_path / "file/out")


needs_real = pytest.mark.skipif(
    "RECON4D_TEST_DATA" not in os.environ, reason="RECON4D_TEST_DATA does not name the folder of real captures"
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Capture]:
    """Three RealSense cameras on a workbench; the container claims 90 frames a second, the timestamps say 54.5."""
    place = tmp_path_factory.mktemp("real")
    folder = import_capture("pusht-embodied", Path(os.environ["RECON4D_TEST_DATA"]) / "embodied_pusht", place / "pusht")
    return folder, ingest(folder, workdir=place / "work")


@needs_real
def test_the_real_capture(real: tuple[Path, Capture]) -> None:
    folder, capture = real
    assert capture.clock_offset_s == pytest.approx(0.0363, abs=1e-4)
    assert capture.duration_s == pytest.approx(14.695, abs=1e-3)
    # Of 803, 802 and 803 decoded frames, those in the time that all cameras cover.
    assert [len(clip) for clip in capture.clips] == [801, 802, 801]
    assert capture.plane is not None
    for clip in capture.clips:
        assert 1 / np.median(np.diff(clip.times)) == pytest.approx(54.8, abs=0.3)
        assert 0.3 < capture.plane[:3] @ clip.camera.center_w + capture.plane[3] < 1.0  # Metres above the bench.
    assert divide(capture).test_times == pytest.approx(0.4 + 0.8 * np.arange(18))
    *gaps, apart = check(folder)
    assert [(f.severity, f.camera) for f in gaps] == [("warning", camera.name) for camera in capture.cameras]
    assert all("1 gap in the video, the longest of 0.1" in f.message for f in gaps)
    # The outline of the goal on the bench, cast onto it, does lie two to three centimetres apart.
    assert (apart.severity, apart.camera) == ("warning", None)
    assert "same spots of the bench at different places" in apart.message


@needs_real
def test_two_real_cameras_see_the_block_at_one_place(real: tuple[Path, Capture]) -> None:
    """Clocks, poses, axes, K and colour together: the orange block, cast onto its own height from two sides."""
    _, capture = real
    a, b = capture.clips[:2]
    apart = []
    for time_s in np.arange(0.5, 14.5, 1.0):
        places = [_orange_on(clip.frames[clip.nearest(time_s)], clip.camera, height_m=0.03) for clip in (a, b)]
        apart.append(np.linalg.norm(places[0] - places[1]))
    assert np.median(apart) < 0.02  # Metres; measured 0.010, for each side hides a part of the block.


def _orange_on(frame: np.ndarray, camera: Camera, height_m: float) -> np.ndarray:
    """[2] metres: where the ray through the centre of the orange pixels meets the given height."""
    red, green, blue = np.moveaxis(frame.astype(int), -1, 0)
    rows, columns = np.nonzero((red > blue + 90) & (red > green + 40) & (green > blue + 5))
    pixel = np.array([np.median(columns) + 0.5, np.median(rows) + 0.5, 1.0])
    ray = camera.T_cam_world[:3, :3].T @ np.linalg.inv(camera.K) @ pixel
    return (camera.center_w + (height_m - camera.center_w[2]) / ray[2] * ray)[:2]


@needs_real
@pytest.mark.parametrize("wrong", ["axes", "convention"])
def test_a_real_rig_read_wrongly_is_noticed(real: tuple[Path, Capture], tmp_path: Path, wrong: str) -> None:
    manifest = json.loads((real[0] / "capture.json").read_text())
    for camera in manifest["cameras"]:
        X_WC = np.linalg.inv(camera["pose"]["matrix"]) @ OPENGL_TO_OPENCV
        declared = {"convention": "T_world_cam", "axes": "opengl", "matrix": X_WC.tolist()}
        camera["pose"] = {**declared, wrong: {"axes": "opencv", "convention": "T_cam_world"}[wrong]}
    (tmp_path / "capture.json").write_text(json.dumps(manifest))
    found = [str(finding) for finding in check(tmp_path)]
    words = {"axes": "look away from each other", "convention": "lie below bench_plane"}[wrong]
    assert any(words in text for text in found)
