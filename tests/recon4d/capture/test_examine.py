"""What an examination tells of a capture: facts, whether poses belong to the pictures, and the sheet to look at."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

from recon4d.capture import Examination, check, contact_sheet, examine, ingest
from recon4d.capture.poses import AXES, GRID, World
from recon4d.errors import CalibrationError, Stopped
from recon4d.events import Event, Finished, Progress, Started, Warned
from recon4d.geometry import look_at, project
from recon4d.types import Camera
from tests import bench

Manifest = dict[str, Any]
Edit = Callable[[Manifest], object]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bench.write(tmp_path_factory.mktemp("bench") / "take")


@pytest.fixture
def spoilt(source: Path, tmp_path: Path) -> Callable[[Edit], Path]:
    """The capture with another ``capture.json``."""

    def spoil(edit: Edit) -> Path:
        folder = Path(shutil.copytree(source, tmp_path / "take"))
        manifest = json.loads((folder / "capture.json").read_text("utf-8"))
        edit(manifest)
        (folder / "capture.json").write_text(json.dumps(manifest), "utf-8")
        return folder

    return spoil


def declare(convention: str, axes: str) -> Edit:
    """The same matrices, said to mean something else."""

    def edit(manifest: Manifest) -> None:
        for camera in manifest["cameras"]:
            camera["pose"] |= {"convention": convention, "axes": axes}

    return edit


def turn(manifest: Manifest, degrees: float, camera: int = 0) -> None:
    """Turns a camera about an axis of its own that is no axis of its picture."""
    turned = np.eye(4)
    turned[:3, :3] = cv2.Rodrigues(np.radians(degrees) * np.array([0.6, 0.7, 0.39]))[0]
    pose = manifest["cameras"][camera]["pose"]
    pose["matrix"] = (turned @ np.array(pose["matrix"])).tolist()


def test_a_sound_capture(source: Path) -> None:
    events: list[Event] = []
    found = examine(source, on_event=events.append)
    assert found.findings == ()
    assert found.usable
    assert found.counts() == {"errors": 0, "warnings": 0, "notes": 0}
    assert found.poses.startswith("the bench looks the same from 4 of 4 cameras")
    assert found.wrong == found.inexact == frozenset()
    assert found.clocks.startswith("of all cameras nobody gave times")
    for facts, film in zip(found.cameras, bench.films().values(), strict=True):
        assert (facts.camera, facts.codec, facts.frames) == (film.camera.name, "h264 yuv444p", len(film.times))
        assert facts.brightness == pytest.approx(film.frames.mean(), abs=3)
        assert facts.usual_hz == pytest.approx(1 / np.median(np.diff(film.times)), rel=0.02)
    assert found.common_s is not None
    start, end = found.common_s
    for view, film in zip(found.views, bench.films().values(), strict=True):
        assert len(view.pictures) == 3
        assert np.abs(np.array(view.times_s) - [start, (start + end) / 2, end]).max() < 0.085  # The nearest frames.
        # Each picture is the one of its time.
        for picture, time in zip(view.pictures, view.times_s, strict=True):
            truth = film.frames[np.abs(film.times - film.times[0] - (time - found.cameras[0].first_s)).argmin()]
            assert np.abs(picture.astype(int) - truth).mean() < 4
    kinds = {type(event) for event in events}
    assert {Started, Progress, Finished} <= kinds
    assert json.loads(json.dumps(found.to_json()))["cameras"][0]["camera"] == "cam0"


@pytest.mark.parametrize(
    ("convention", "axes", "name"),
    [
        ("T_world_cam", "opencv", "the other convention (T_cam_world, T_world_cam)"),
        ("T_world_cam", "opengl", "the other convention and the other camera axes"),
    ],
)
def test_wrong_conventions_are_refused_by_the_pictures(
    spoilt: Callable[[Edit], Path], convention: str, axes: str, name: str
) -> None:
    folder = spoilt(declare(convention, axes))
    found = examine(folder)
    errors = [finding for finding in found.findings if finding.severity == "error"]
    assert len(errors) == 1
    assert errors[0].calibration
    assert errors[0].advice == f"declare the poses as {name}" or name in str(found.findings)
    assert found.wrong == set(bench.CAMERAS)
    with pytest.raises(CalibrationError):
        ingest(folder)


def test_the_pictures_say_which_reading_is_right(spoilt: Callable[[Edit], Path]) -> None:
    found = examine(spoilt(declare("T_cam_world", "opengl")))
    error, note = found.findings
    assert "look away from each other" in error.message
    assert "read as the other camera axes they do in 6 of 6 pairs" in note.message
    assert found.wrong == set(bench.CAMERAS)


@pytest.mark.parametrize("degrees", [0.5, 1.0, 2.0])
def test_a_camera_that_was_moved_is_named_with_how_far(spoilt: Callable[[Edit], Path], degrees: float) -> None:
    found = examine(spoilt(lambda manifest: turn(manifest, degrees)))
    (warning,) = found.findings
    assert (warning.camera, warning.severity) == ("cam0", "warning")
    assert found.wrong == {"cam0"}
    said = float(warning.message.split("sees the bench ")[1].split()[0])
    assert said == pytest.approx(bench_shift_mm(degrees), rel=0.35)


def bench_shift_mm(degrees: float) -> float:
    """How far the middle of the bench moves under the camera that was turned."""
    camera = bench.films()["cam0"].camera
    manifest = {"cameras": [bench.entry(camera, "")]}
    turn(manifest, degrees)
    T = np.array(manifest["cameras"][0]["pose"]["matrix"])
    pixel, _ = project(np.zeros(3), camera.K, camera.T_cam_world)
    ray_w = np.linalg.inv(camera.K) @ np.append(pixel, 1.0) @ T[:3, :3]
    centre_w = -T[:3, :3].T @ T[:3, 3]
    return float(np.linalg.norm(centre_w - ray_w * centre_w[2] / ray_w[2])) * 1e3


def test_two_cameras_that_were_swapped(spoilt: Callable[[Edit], Path]) -> None:
    def swap(manifest: Manifest) -> None:
        a, b = manifest["cameras"][0], manifest["cameras"][1]
        a["pose"], b["pose"] = b["pose"], a["pose"]

    found = examine(spoilt(swap))
    assert [(f.severity, f.camera) for f in found.findings] == [("warning", "cam0"), ("warning", "cam2")]
    assert all("does not see what 'cam3', 'cam4' see" in f.message for f in found.findings)
    assert found.wrong == {"cam0", "cam2"}


def test_without_a_plane_the_ground_is_tried_and_nothing_is_held_against_poses(
    spoilt: Callable[[Edit], Path],
) -> None:
    folder = spoilt(lambda manifest: manifest.pop("bench_plane"))
    assert "4 of 4 cameras" in examine(folder).poses

    def lift(manifest: Manifest) -> None:  # The bench lies at z = 0.3 then.
        for camera in manifest["cameras"]:
            T = np.array(camera["pose"]["matrix"])
            T[:3, 3] -= T[:3, 2] * 0.3
            camera["pose"]["matrix"] = T.tolist()

    manifest = json.loads((folder / "capture.json").read_text())
    lift(manifest)
    (folder / "capture.json").write_text(json.dumps(manifest))
    found = examine(folder)
    assert found.findings == ()
    assert found.poses.startswith("cannot be told: no two cameras' views of the ground z = 0")


def test_a_bench_without_texture_tells_nothing(kit: SimpleNamespace, tmp_path: Path) -> None:
    found = examine(kit.make_capture(tmp_path))  # Noise, another in each picture.
    assert found.findings == ()
    assert found.poses.startswith("cannot be told")


def test_ingest_warns_of_what_check_lists(spoilt: Callable[[Edit], Path]) -> None:
    folder = spoilt(lambda manifest: turn(manifest, 2.0))
    events: list[Event] = []
    ingest(folder, on_event=events.append)
    assert [e.message for e in events if isinstance(e, Warned)] == [str(finding) for finding in check(folder)]


def test_a_stop_is_heeded(source: Path) -> None:
    with pytest.raises(Stopped):
        examine(source, should_stop=lambda: True)


def test_memory_of_an_examination_does_not_grow_with_the_clip(kit: SimpleNamespace, tmp_path: Path) -> None:
    def peak(frames: int) -> int:
        folder = kit.make_capture(tmp_path / str(frames), count=2, frames=frames)
        tracemalloc.start()
        examine(folder)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(4)  # What is allocated once only.
    assert peak(120) - peak(12) < 20 * kit.WIDTH * kit.HEIGHT * 3  # 216 more frames.


# The sheet.


def test_the_sheet_has_each_camera_at_three_times(source: Path, spoilt: Callable[[Edit], Path]) -> None:
    sheet = contact_sheet(examine(source))
    assert sheet is not None
    assert sheet.dtype == np.uint8
    assert sheet.shape == (64 + 4 * (360 + 12), 3 * (480 + 12), 3)
    assert not framed(sheet).any()
    wrong = contact_sheet(examine(spoilt(lambda manifest: turn(manifest, 2.0))))
    assert wrong is not None
    assert framed(wrong).tolist() == [True, False, False, False]


def framed(sheet: np.ndarray) -> np.ndarray:
    """Of each camera's strip: whether it has a red frame."""
    middles = 64 + (360 + 12) * np.arange(4) + 180
    return np.abs(sheet[middles, 3].astype(int) - (255, 40, 40)).max(-1) < 10


def test_a_camera_without_a_picture_has_words(spoilt: Callable[[Edit], Path]) -> None:
    folder = spoilt(lambda manifest: None)
    (folder / "cam2.mp4").write_bytes(b"no video")
    found = examine(folder)
    assert [len(view.pictures) for view in found.views] == [3, 0, 3, 3]
    sheet = contact_sheet(found)
    assert sheet is not None
    assert sheet.shape[0] == 64 + 3 * (360 + 12) + 120 + 12
    assert sheet[64 + 372 + 60, 3].tolist() == [255, 40, 40]
    assert contact_sheet(empty()) is None


def empty() -> Examination:
    return Examination(
        findings=(),
        cameras=(),
        common_s=None,
        clocks="",
        poses="",
        wrong=frozenset(),
        inexact=frozenset(),
        views=(),
        plane=None,
    )


def camera(name: str, at: tuple[float, float, float], to: tuple[float, float, float] = (0, 0, 0)) -> Camera:
    K = np.array([[300.0, 0, 240], [0, 300, 180], [0, 0, 1]])
    return Camera(name=name, width=480, height=360, K=K, T_cam_world=look_at(np.array(at), np.array(to)))


def test_what_is_drawn_lies_where_it_projects() -> None:
    one, other = camera("a", (1, 0.2, 0.9)), camera("b", (0.35, -0.3, 0.2))
    plane = np.array([0.0, 0, 1, -0.05])
    world = World([one, other], plane)
    drawn = world.draw(np.zeros((360, 480, 3), np.uint8), one).astype(int)
    assert np.allclose(world.grid @ plane[:3] + plane[3], 0)
    assert np.allclose(np.round(world.grid[..., :2] / world.square_m) * world.square_m, world.grid[..., :2])
    ends = world.grid.reshape(-1, 3)
    points_w = np.concatenate([ends[::2] + (ends[1::2] - ends[::2]) * share for share in np.linspace(0.05, 0.95, 19)])
    pixels, _ = project(points_w, one.K, one.T_cam_world)
    inside = ((pixels > 2) & (pixels < [477, 357])).all(-1)
    assert inside.sum() > 100
    at = np.floor(pixels[inside]).astype(int)
    assert (drawn[at[:, 1], at[:, 0]].max(-1) > 40).mean() > 0.97  # A line, if not what lies over it.
    assert (np.abs(drawn - np.array(GRID) * 0.75).max(-1) < 8).any()
    for axis, colour in enumerate(AXES):
        tip, _ = project(np.eye(3)[axis] * world.square_m, one.K, one.T_cam_world)
        assert drawn[int(tip[1]), int(tip[0])].tolist() == list(colour)
    place, _ = project(other.center_w, one.K, one.T_cam_world)
    assert drawn[int(place[1]), int(place[0])].tolist() == [255, 205, 70]


def test_nothing_is_drawn_of_what_lies_behind_a_camera() -> None:
    """A grid that goes under and behind a low camera ends where its view does, and is not mirrored into the sky."""
    low = camera("low", (0.05, 0.02, 0.05), (1, 0, 0.05))  # Level, in the middle of the grid.
    high = camera("high", (0.5, 0.5, 1.2))
    drawn = World([high, low], np.array([0.0, 0, 1, 0])).draw(np.zeros((360, 480, 3), np.uint8), low)
    grid = np.abs(drawn.astype(int) - (np.array(GRID) * 0.75).astype(int)).max(-1) < 40
    assert grid[182:].any()
    assert not grid[:178].any()
    away = camera("away", (0, 0, 2), (0.1, 0, 9))
    assert not World([high, low], np.array([0.0, 0, 1, 0])).draw(np.zeros((360, 480, 3), np.uint8), away).any()
