"""The whole way, from real videos of known cameras."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from recon4d import events
from recon4d.calibrate import Align, Board, CalibrateConfig, Calibrated, calibrate
from recon4d.capture import frames, read_calibration
from recon4d.commands import main
from recon4d.errors import CalibrationError, CaptureError, ConfigError, Stopped
from tests.recon4d.calibrate.rig import Film, camera, carried, encode, film, trio
from tests.recon4d.calibrate.truth import angle_deg, off

THICK_M = 0.004


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "detections.npz"


@pytest.fixture(scope="module")
def result(videos: dict[str, Path], board: Board, cache: Path) -> Calibrated:
    return calibrate(videos, board, align=Align(time_s=-np.inf, thickness_m=THICK_M), cache=cache)


def test_cameras_are_where_they_were(result: Calibrated) -> None:
    """Worst found here: 0.1 %, 1 mm, 0.1 degrees."""
    for one in off(result, trio()):
        assert abs(one.focal) < 0.003, str(one)
        assert one.position_m < 0.005, str(one)
        assert one.angle_deg < 0.3, str(one)
    assert [one.lens for one in result.cameras] == ["opencv"] * 3
    assert result.square_m == pytest.approx(0.06, rel=0.002)


def test_the_delay_of_a_camera_is_found(result: Calibrated) -> None:
    delays = {one.name: one.delay_s for one in result.cameras}
    assert delays["right"] - delays["left"] == pytest.approx(0.025, abs=0.003)
    assert delays["mid"] - delays["left"] == pytest.approx(0.0, abs=0.003)


def test_errors_are_of_the_size_that_the_pictures_allow(result: Calibrated) -> None:
    assert result.held_out_instants > 5
    for one in result.cameras:
        assert one.training is not None
        assert one.held_out is not None
        assert one.training.median_px < 0.2
        assert one.held_out.median_px < 0.2
        assert one.focal_sigma_px < 0.01 * one.focal_px
        assert one.off_time < 0.2


def test_the_board_on_the_bench_is_the_world(result: Calibrated) -> None:
    """The world that films: the bench at z = 0, the board's first corner at (-0.18, 0.1), columns along x."""
    assert result.rig.plane is not None
    np.testing.assert_allclose(result.rig.plane, [0, 0, 1, 0])
    for got, own in zip(result.rig.cameras, trio(), strict=True):
        np.testing.assert_allclose(got.camera.center_w, own.camera.center_w - [-0.18, 0.1, 0], atol=0.006)
        assert angle_deg(got.camera.T_cam_world[:3, :3], own.camera.T_cam_world[:3, :3]) < 0.5


def test_a_second_run_looks_at_no_frame_and_finds_the_same(
    result: Calibrated, videos: dict[str, Path], board: Board, cache: Path
) -> None:
    said: list[events.Event] = []
    again = calibrate(
        videos, board, align=Align(time_s=-np.inf, thickness_m=THICK_M), cache=cache, on_event=said.append
    )
    assert not [event for event in said if isinstance(event, events.Progress)]
    assert [type(event) for event in said if isinstance(event, events.Started)] == [events.Started] * 2
    for a, b in zip(result.rig.cameras, again.rig.cameras, strict=True):
        np.testing.assert_array_equal(a.camera.K, b.camera.K)


def test_a_damaged_cache_counts_as_empty(videos: dict[str, Path], board: Board, tmp_path: Path) -> None:
    path = tmp_path / "detections.npz"
    path.write_bytes(b"PK\x03\x04 no archive")
    one = {"mid": videos["mid"]}
    assert calibrate(one, board, cache=path).cameras[0].used > 10
    assert path.stat().st_size > 1000


def test_without_a_bench_the_world_is_level_and_says_that_it_is_a_guess(
    videos: dict[str, Path], board: Board, cache: Path
) -> None:
    result = calibrate(videos, board, cache=cache)
    assert result.rig.plane is None
    assert any("nothing says where the bench is" in finding.message for finding in result.findings)
    up = -np.mean([one.camera.T_cam_world[1, :3] for one in result.rig.cameras], axis=0)
    assert up[2] > 0.99 * np.linalg.norm(up)


def test_a_board_that_moves_is_no_bench(videos: dict[str, Path], board: Board, cache: Path) -> None:
    with pytest.raises(CalibrationError, match="does not lie still around 3"):
        calibrate(videos, board, align=Align(time_s=3.0), cache=cache)


def test_the_command_writes_what_import_reads(
    videos: dict[str, Path], board: Board, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c_detections.npz").write_bytes(cache.read_bytes())
    folder = str(next(iter(videos.values())).parent)
    (tmp_path / "c.json").write_text("of an earlier run")
    code = main(["calibrate", folder, "--board", str(board), "--out", str(tmp_path / "c.json"), "--align", "first"])
    said = capsys.readouterr()
    assert code == 0, said.err
    assert "square 60.0" in said.out
    rig, _ = read_calibration(tmp_path / "c.json")
    assert [one.name for one in rig.cameras] == ["left", "mid", "right"]
    report = json.loads((tmp_path / "c_report.json").read_text("utf-8"))
    assert report["cameras"][0]["held_out"]["median_px"] < 0.2
    for name in ("c_rig.png", "c_coverage.png"):
        picture = cv2.imread(str(tmp_path / name))
        assert picture is not None
        assert picture.std() > 10


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "is no folder and no file"),
        (["a.mp4", "b/a.mp4"], "two videos are called 'a'"),
        (["a.mp4", "--align", "soon"], "neither first, last, seconds"),
        (["a.mp4", "--align", "1", "--thickness", "3"], "no length with its unit"),
        (["a.mp4", "--base-tag", "seven"], "not NUMBER:SIDE"),
        (["a.mp4", "--base", "0,0,0,0"], "give that too"),
        (["a.mp4", "--base-tag", "7:60mm", "--base", "0,0"], "not x,y,z,degrees"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    for path in ("a.mp4", "b/a.mp4"):
        (tmp_path / path).write_bytes(b"")
    assert main(["calibrate", *arguments, "--board", "charuco:6x5:60mm"]) == 2
    assert says in capsys.readouterr().err


# What goes wrong with boards


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Half a second of one camera and a board of even rows, which has two layouts."""
    board = Board.parse("charuco:5x6:60mm:dict=4X4_50:legacy:inverted")
    motion = carried(4, reach_m=0.05, period_s=8.0)
    return film(tmp_path_factory.mktemp("still"), trio()[1:2], board, motion, Film(seconds=1.5))


@pytest.mark.parametrize(
    "given",
    [
        "charuco:5x6:60mm:dict=4X4_50:legacy",
        "charuco:5x6:60mm:dict=4X4_50:inverted",
        "charuco:5x6:60mm:dict=4X4_50",
    ],
)
def test_the_obvious_alternatives_are_tried_and_said(given: str, still: dict[str, Path]) -> None:
    result = calibrate(still, Board.parse(given))
    assert str(result.board) == "charuco:5x6:60mm:marker=0.75:dict=4X4_50:legacy:inverted"
    (said,) = [finding for finding in result.findings if "it is taken as" in finding.text]
    assert said.severity == "warning"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("charuco:5x6:60mm:dict=5X5_50", "markers of another dictionary are seen: 4X4_.*inverted"),
        ("charuco:7x9:60mm:dict=4X4_50:inverted", "not lying as on this board|never seen in any video"),
        ("apriltag:4x4:60mm", "was never seen"),
        ("charuco:5x4:60mm:dict=4X4_50:inverted", "another board, or one with more squares"),
    ],
)
def test_another_board_is_refused_with_what_is_seen(
    given: str, says: str, still: dict[str, Path], tmp_path: Path
) -> None:
    few = [picture for _, picture in frames(still["mid"])][:4]
    encode(tmp_path / "mid.mp4", few, Film())
    with pytest.raises(CalibrationError, match=says):
        calibrate({"mid": tmp_path / "mid.mp4"}, Board.parse(given))


def test_mirrored_videos_are_refused(still: dict[str, Path], tmp_path: Path) -> None:
    pictures = [np.ascontiguousarray(picture[:, ::-1]) for _, picture in frames(still["mid"])][:8]
    encode(tmp_path / "mid.mp4", pictures, Film())
    with pytest.raises(CalibrationError, match="mirror images"):
        calibrate({"mid": tmp_path / "mid.mp4"}, Board.parse("charuco:5x6:60mm:dict=4X4_50:legacy:inverted"))


def test_cameras_that_never_see_the_board_together_are_named(
    videos: dict[str, Path], board: Board, tmp_path: Path
) -> None:
    """Left sees the first half, the others the second."""
    given = {}
    for name, path in videos.items():
        pictures = [picture for _, picture in frames(path)]
        half = len(pictures) // 2
        covered = slice(half, None) if name == "left" else slice(0, half)
        for picture in pictures[covered]:
            picture[:] = 90
        given[name] = tmp_path / f"{name}.mp4"
        encode(given[name], pictures, Film())
    with pytest.raises(CalibrationError, match=r"2 groups that never see the board together: \('mid', 'right'\) and"):
        calibrate(given, board)


def test_a_board_seen_too_rarely_is_refused(videos: dict[str, Path], board: Board, tmp_path: Path) -> None:
    pictures = [picture for _, picture in frames(videos["mid"])]
    encode(tmp_path / "mid.mp4", pictures[20:26], Film())
    with pytest.raises(CalibrationError, match="camera 'mid': shows the board well in 4 frames; at least 6"):
        calibrate({"mid": tmp_path / "mid.mp4"}, board)


def test_a_board_that_is_never_tilted_gives_no_focal_length(board: Board, tmp_path: Path) -> None:
    one = camera("flat", (0, -1.1, 0.3), 600.0, (0, 0, 0, 0, 0))

    def motion(time_s: float) -> np.ndarray:
        T = np.eye(4)
        T[:3, :3] = [[1, 0, 0], [0, 0, 1], [0, -1, 0]]
        T[:3, 3] = -0.18 + 0.05 * np.sin(3 * time_s), 0.0, 0.45
        return T

    given = film(tmp_path, [one], board, motion, Film(seconds=1.5))
    with pytest.raises(CalibrationError, match="nearly frontal"):
        calibrate(given, board)


def test_a_run_is_stopped_between_frames(videos: dict[str, Path], board: Board) -> None:
    asked = iter([False] * 5 + [True] * 100)
    with pytest.raises(Stopped, match="looking for the board"):
        calibrate(videos, board, should_stop=lambda: next(asked))


def test_what_cannot_be_calibrated_from_is_refused(videos: dict[str, Path], board: Board, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no video"):
        calibrate({}, board)
    (tmp_path / "x.mp4").write_bytes(b"no video")
    with pytest.raises(CaptureError, match="camera 'x'"):
        calibrate({"x": tmp_path / "x.mp4"}, board)
    with pytest.raises(ConfigError, match="give one of them"):
        Align()
    with pytest.raises(ConfigError, match="held_out_every"):
        replace(CalibrateConfig(), held_out_every=1)
