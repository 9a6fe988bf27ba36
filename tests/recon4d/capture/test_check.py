"""Bad captures: each is named by ``check`` and refused by ``ingest`` with the same words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

from recon4d.capture import Finding, IngestConfig, check, ingest
from recon4d.errors import CalibrationError, CaptureError
from recon4d.events import Event, Warned

Manifest = dict[str, Any]


def errors_of(findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.severity == "error"]


def warnings_of(findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.severity == "warning"]


@dataclass(frozen=True)
class Fault:
    """A sound capture is spoilt by ``spoil(manifest, folder, kit)``; what is then said."""

    name: str
    spoil: Callable[[Manifest, Path, SimpleNamespace], Any]
    words: tuple[str, ...]
    camera: str | None = "cam1"
    calibration: bool = False


def pose(manifest: Manifest, matrix: np.ndarray, camera: int = 1) -> None:
    manifest["cameras"][camera]["pose"]["matrix"] = matrix.tolist()


def pose_of(manifest: Manifest, camera: int = 1) -> np.ndarray:
    return np.array(manifest["cameras"][camera]["pose"]["matrix"])


def turn_away(manifest: Manifest, folder: Path, kit: SimpleNamespace) -> None:
    for camera in manifest["cameras"]:
        camera["pose"]["axes"] = "opengl"  # What is in fact OpenCV's.


def write_times(manifest: Manifest, folder: Path, times: Any, text: str | None = None) -> None:
    (folder / "times.json").write_text(json.dumps(times) if text is None else text)
    manifest["cameras"][1]["timestamps"] = "times.json"


def audio_only(manifest: Manifest, folder: Path, kit: SimpleNamespace) -> None:
    with av.open(str(folder / "cam1.mkv"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))


def cut(manifest: Manifest, folder: Path, kit: SimpleNamespace) -> None:
    kit.encode(folder / "cam1.mkv", kit.pictures(40, seed=1))
    data = (folder / "cam1.mkv").read_bytes()
    (folder / "cam1.mkv").write_bytes(data[: len(data) // 2])


def move_apart(manifest: Manifest, folder: Path, kit: SimpleNamespace) -> None:
    manifest["cameras"][1]["time_offset_s"] = 5.0


T = np.eye(4)
FAULTS = [
    Fault("missing video", lambda m, f, k: (f / "cam1.mkv").unlink(), ("cam1.mkv", "missing")),
    Fault("empty video", lambda m, f, k: (f / "cam1.mkv").write_bytes(b""), ("empty",)),
    Fault("no video", lambda m, f, k: (f / "cam1.mkv").write_text("hello " * 100), ("no video", "opened")),
    Fault("truncated", cut, ("cut off",)),
    Fault("audio only", audio_only, ("no video stream", "audio")),
    Fault("no cameras", lambda m, f, k: m.update(cameras=[]), ("0 cameras", "at least 2"), None),
    Fault("one camera", lambda m, f, k: m.update(cameras=m["cameras"][:1]), ("1 cameras", "at least 2"), None),
    Fault("video not named", lambda m, f, k: m["cameras"][1].pop("video"), ("cameras[1].video", "missing")),
    Fault("time stands still", lambda m, f, k: m["cameras"][1].update(time_scale=0), ("time_scale", "positive")),
    Fault("video outside", lambda m, f, k: m["cameras"][1].update(video="../x.mp4"), ("inside", "'../x.mp4'")),
    Fault("video absolute", lambda m, f, k: m["cameras"][1].update(video="/etc/hosts"), ("inside", "'/etc/hosts'")),
    Fault("duplicate name", lambda m, f, k: m["cameras"][2].update(name="cam1"), ("2 cameras", "this name")),
    Fault("name with slash", lambda m, f, k: m["cameras"][1].update(name="a/b"), ("without slashes", "'a/b'"), "a/b"),
    Fault("same content", lambda m, f, k: shutil.copy(f / "cam0.mkv", f / "cam1.mkv"), ("same video", "camera 'cam0'")),
    Fault("size", lambda m, f, k: m["cameras"][1].update(width=128, height=96), ("64x48", "128x96"), calibration=True),
    Fault("no common time", move_apart, ("no common time", "'cam0' 0.000 to 0.280", "'cam1' 5.000 to 5.280"), None),
    Fault(
        "time runs back",
        lambda m, f, k: write_times(m, f, [0, 0.1, 0.2, 0.15, 0.3, 0.4, 0.5, 0.6]),
        ("frame 2", "0.200000", "frame 3", "0.150000"),
    ),
    Fault(
        "time stands",
        lambda m, f, k: write_times(m, f, [0, 0.1, 0.1, 0.15, 0.3, 0.4, 0.5, 0.6]),
        ("increase strictly", "frame 1"),
    ),
    Fault("time NaN", lambda m, f, k: write_times(m, f, [0.0, float("nan"), *range(1, 7)]), ("frame 1", "nan")),
    Fault("time text", lambda m, f, k: write_times(m, f, 0, "0.0\n0.1\nlate\n"), ("entry 2", "'late'")),
    Fault("times empty", lambda m, f, k: write_times(m, f, 0, " \n"), ("empty",)),
    Fault("times no JSON", lambda m, f, k: write_times(m, f, 0, "[0.1, 0.2"), ("not JSON",)),
    Fault("times no list", lambda m, f, k: write_times(m, f, {"time": [1]}), ("no list",)),
    Fault("times missing", lambda m, f, k: m["cameras"][1].update(timestamps="t.json"), ("timestamp", "missing")),
    Fault(
        "count of times",
        lambda m, f, k: write_times(m, f, [i / 25 for i in range(9)]),
        ("decodes to 8 frames", "holds 9 times"),
    ),
    Fault(
        "NaN in K",
        lambda m, f, k: m["cameras"][1].update(K=[[float("nan"), 0, 32], [0, 60, 24], [0, 0, 1]]),
        ("cameras[1].K", "finite", "nan"),
        calibration=True,
    ),
    Fault(
        "negative focal",
        lambda m, f, k: m["cameras"][1].update(K=[[-60, 0, 32], [0, 60, 24], [0, 0, 1]]),
        ("positive focal", "-60"),
        calibration=True,
    ),
    Fault(
        "transposed K",
        lambda m, f, k: m["cameras"][1].update(K=[[60, 0, 0], [0, 60, 0], [32, 24, 1]]),
        ("[[fx, s, cx]",),
        calibration=True,
    ),
    Fault(
        "principal point",
        lambda m, f, k: m["cameras"][1].update(K=[[60, 0, 320], [0, 60, 24], [0, 0, 1]]),
        ("cx = 320", "far outside", "64 px"),
        calibration=True,
    ),
    Fault("K is text", lambda m, f, k: m["cameras"][1].update(K="K.txt"), ("'K.txt'", "3 rows"), calibration=True),
    Fault("K too small", lambda m, f, k: m["cameras"][1].update(K=[[1, 2], [3, 4]]), ("3 rows",), calibration=True),
    Fault("width is text", lambda m, f, k: m["cameras"][1].update(width="64"), ("width", "whole number", "'64'")),
    Fault("width 0", lambda m, f, k: m["cameras"][1].update(width=0), ("width", "at least 1")),
    Fault("no rotation", lambda m, f, k: pose(m, np.diag([2.0, 2, 2, 1])), ("no rotation",), calibration=True),
    Fault("mirrored", lambda m, f, k: pose(m, np.diag([1.0, 1, -1, 1])), ("determinant -1",), calibration=True),
    Fault("transposed pose", lambda m, f, k: pose(m, pose_of(m).T), ("last row", "transposed")[1:], calibration=True),
    Fault("pose null", lambda m, f, k: m["cameras"][1].update(pose=None), ("cameras[1].pose", "null")),
    Fault(
        "convention",
        lambda m, f, k: m["cameras"][1]["pose"].update(convention="w2c"),
        ("cameras[1].pose.convention", "'w2c'", "T_cam_world"),
    ),
    Fault("axes", lambda m, f, k: m["cameras"][1]["pose"].pop("axes"), ("cameras[1].pose.axes", "missing")),
    Fault("pixel centre", lambda m, f, k: m["cameras"][1].pop("pixel_center"), ("pixel_center", "missing")),
    Fault(
        "lens model",
        lambda m, f, k: m["cameras"][1].update(distortion={"model": "division", "coefficients": [0.1]}),
        ("'division'", "opencv", "fisheye"),
    ),
    Fault(
        "lens coefficients",
        lambda m, f, k: m["cameras"][1].update(distortion={"model": "opencv", "coefficients": [0.1] * 3}),
        ("one of (4, 5, 8, 12, 14)", "there are 3"),
        calibration=True,
    ),
    Fault(
        "lens and skew",
        lambda m, f, k: m["cameras"][1].update(
            K=[[60, 1, 32], [0, 60, 24], [0, 0, 1]], distortion={"model": "opencv", "coefficients": [0.1, 0, 0, 0]}
        ),
        ("skew 1",),
        calibration=True,
    ),
    Fault(
        "lens loses the image",
        lambda m, f, k: m["cameras"][1].update(distortion={"model": "opencv", "coefficients": [900, 900, 0, 0]}),
        ("undistortion leaves",),
        calibration=True,
    ),
    Fault("looking away", turn_away, ("look away from each other", "other camera axes"), None, calibration=True),
    Fault("version 2", lambda m, f, k: m.update(version=2), ("version", "must be 1", "2"), None),
    Fault("no version", lambda m, f, k: m.pop("version"), ("version", "missing"), None),
    Fault("cameras no list", lambda m, f, k: m.update(cameras={"a": 1}), ("cameras", "a list"), None),
    Fault("camera no object", lambda m, f, k: m["cameras"].append("cam9"), ("cameras[3]", "'cam9'"), None),
    Fault("plane", lambda m, f, k: m.update(bench_plane=[0, 0, 0, 1]), ("bench_plane", "not 0"), None),
    Fault("held out", lambda m, f, k: m.update(heldout={"cameras": ["cam7"]}), ("'cam7'", "['cam0',"), None),
    Fault("grid", lambda m, f, k: m.update(heldout={"grid_s": 0}), ("heldout.grid_s", "positive"), None),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_is_named_and_refused(kit: SimpleNamespace, tmp_path: Path, fault: Fault) -> None:
    folder = kit.make_capture(tmp_path / "c")
    manifest = json.loads((folder / "capture.json").read_text())
    fault.spoil(manifest, folder, kit)
    (folder / "capture.json").write_text(json.dumps(manifest))

    found = errors_of(check(folder))
    assert len(found) == 1, [str(finding) for finding in found]
    assert found[0].camera == fault.camera
    assert all(word in str(found[0]) for word in fault.words), str(found[0])
    kind = CalibrationError if fault.calibration else CaptureError
    with pytest.raises(kind) as refused:
        ingest(folder)
    assert type(refused.value) is kind
    assert str(refused.value) == str(found[0])
    assert refused.value.camera == fault.camera


def test_a_sound_capture_has_no_findings(kit: SimpleNamespace, tmp_path: Path) -> None:
    assert check(kit.make_capture(tmp_path)) == ()


def test_all_faults_are_listed_at_once(kit: SimpleNamespace, tmp_path: Path) -> None:
    def edit(manifest: Manifest) -> None:
        manifest["cameras"][0]["K"] = "?"
        manifest["cameras"][1]["width"] = 32
        manifest["heldout"] = {"every": -1}

    folder = kit.make_capture(tmp_path, count=4, edit=edit)
    (folder / "cam2.mkv").unlink()
    found = errors_of(check(folder))
    assert [f.camera for f in found] == ["cam0", None, "cam1", "cam2"]


@pytest.mark.parametrize(("content", "words"), [
    (None, "has no capture.json; it holds ['notes.txt']"),
    (b'{"version": 1,', "is not JSON"),
    (b'{"version": 1, "name": "\xff"}', "not UTF-8"),
    (b"[]", "must be an object"),
], ids=["none", "cut", "encoding", "list"])  # fmt: skip
def test_a_folder_without_a_readable_manifest(tmp_path: Path, content: bytes | None, words: str) -> None:
    (tmp_path / "notes.txt").write_text("")
    if content is not None:
        (tmp_path / "capture.json").write_bytes(content)
    (found,) = check(tmp_path)
    assert words in found.message
    with pytest.raises(CaptureError) as refused:
        ingest(tmp_path)
    assert words in str(refused.value)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="there is no folder"):
        ingest(tmp_path / "nowhere")


def warned(folder: Path) -> list[Finding]:
    """The warnings of ``check``, which must be those of ``ingest`` as well."""
    found = check(folder)
    assert not errors_of(found), [str(finding) for finding in found]
    events: list[Event] = []
    ingest(folder, on_event=events.append)
    warnings = warnings_of(found)
    assert sorted(e.message for e in events if isinstance(e, Warned)) == sorted(str(f) for f in warnings)
    return warnings


def test_names_of_any_script(kit: SimpleNamespace, tmp_path: Path) -> None:
    def edit(manifest: Manifest) -> None:
        manifest["cameras"][0] |= {"name": "左のカメラ", "video": "видео ü.mkv"}

    folder = kit.make_capture(tmp_path / "Прогон 1", edit=edit)
    (folder / "cam0.mkv").rename(folder / "видео ü.mkv")
    assert warned(folder) == []
    assert ingest(folder).clip("左のカメラ").frames[0].shape == (48, 64, 3)


def test_unknown_fields_are_named_with_what_was_meant(kit: SimpleNamespace, tmp_path: Path) -> None:
    def edit(manifest: Manifest) -> None:
        manifest["camera"] = 1
        manifest["cameras"][1]["distorsion"] = {}
        manifest["cameras"][1]["pose"]["xyz"] = 0

    messages = [str(f) for f in warned(kit.make_capture(tmp_path, edit=edit))]
    assert len(messages) == 3
    assert "'camera' is unknown" in messages[0]
    assert "'cameras'" in messages[0]
    assert "cam1" in messages[1]
    assert "cameras[1].distorsion" in messages[1]
    assert "did you mean 'distortion'" in messages[1]
    assert "known: ['convention', 'axes', 'matrix']" in messages[2]


def test_a_video_that_no_camera_names(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(tmp_path)
    shutil.copy(folder / "cam0.mkv", folder / "extra.MKV")
    (found,) = warned(folder)
    assert found.file == "extra.MKV"
    assert "no camera" in found.message


def test_gaps_are_told_with_time_and_length(kit: SimpleNamespace, tmp_path: Path) -> None:
    steady = np.arange(20) * 0.02
    gapped = np.delete(steady, [6, 7, 8, 9, 14, 15])
    (found,) = warned(kit.make_capture(tmp_path, times_s=[steady, gapped, steady]))
    assert found.camera == "cam1"
    assert "1 gap in the video, the longest of 0.100 s after 0.100 s" in found.message


def test_one_dropped_frame_is_told_when_asked_for(kit: SimpleNamespace, tmp_path: Path) -> None:
    steady = np.arange(20) * 0.02
    folder = kit.make_capture(tmp_path, times_s=[steady, np.delete(steady, 9), steady])
    assert check(folder) == ()
    (found,) = check(folder, IngestConfig(gap_factor=1.8))
    assert "1 gap in the video, the longest of 0.040 s after 0.160 s" in found.message


def test_a_variable_rate_is_noted_not_warned_of(kit: SimpleNamespace, tmp_path: Path) -> None:
    steady, uneven = np.arange(20) * 0.04, np.cumsum(np.tile([0.02, 0.05, 0.04, 0.05], 5))
    folder = kit.make_capture(tmp_path, times_s=[steady, uneven, steady])
    (found,) = check(folder)
    assert (found.camera, found.severity) == ("cam1", "note")
    assert "0.0200 to 0.0500 s apart (variable rate)" in found.message
    assert ingest(folder).clip("cam1").times[:3] == pytest.approx(uneven[:3] - max(uneven[0], 0.0), abs=1e-6)


def test_times_that_are_no_seconds(kit: SimpleNamespace, tmp_path: Path) -> None:
    def edit(manifest: Manifest) -> None:
        for camera in manifest["cameras"]:
            camera["timestamps"] = "ms.txt"

    (tmp_path / "ms.txt").write_text("\n".join(str(40 * i) for i in range(8)))
    found = warned(kit.make_capture(tmp_path, edit=edit))
    assert len(found) == 3
    assert all("are in seconds" in f.advice for f in found)


def test_black_frozen_and_dark_videos(kit: SimpleNamespace, tmp_path: Path) -> None:
    frozen = kit.pictures(40, seed=1)
    frozen[8:36] = frozen[7]
    videos = [kit.pictures(40) // 5, frozen, np.zeros((40, 48, 64, 3), np.uint8)]
    found = warned(kit.make_capture(tmp_path, times_s=[np.arange(40) * 0.04] * 3, videos=videos))
    assert [f.camera for f in found] == ["cam1", "cam2", "cam2", "cam0", "cam1"]
    assert "stands still from 0.280 to 1.400 s: 29 equal frames" in found[0].message
    assert "black: its mean level is 0.0" in found[1].message
    assert "stands still" in found[2].message
    assert "sees the bench 0.4" in found[3].message  # Between the two: the root of a fifth, rounded down by pixel.
    assert "sees the bench 2.2" in found[4].message


def test_cameras_at_one_place(kit: SimpleNamespace, tmp_path: Path) -> None:
    def edit(manifest: Manifest) -> None:
        for index in range(3):
            pose(manifest, pose_of(manifest, 0), index)

    (found,) = warned(kit.make_capture(tmp_path, edit=edit))
    assert "without parallax" in found.message


def test_a_pose_that_was_copied(kit: SimpleNamespace, tmp_path: Path) -> None:
    (found,) = warned(kit.make_capture(tmp_path, edit=lambda m: pose(m, pose_of(m, 0))))
    assert found.camera == "cam0"
    assert "exactly the pose of camera 'cam1'" in found.message


def test_a_camera_that_looks_elsewhere(kit: SimpleNamespace, tmp_path: Path) -> None:
    def edit(manifest: Manifest) -> None:
        T = pose_of(manifest)
        T[:3] = np.diag([-1.0, 1, -1]) @ T[:3]  # Turned about the camera's own vertical axis.
        pose(manifest, T)

    (found,) = warned(kit.make_capture(tmp_path, edit=edit))
    assert found.camera == "cam1"
    assert "shares no part" in found.message


def test_poses_in_millimetres_and_a_plane_above(kit: SimpleNamespace, tmp_path: Path) -> None:
    def edit(manifest: Manifest) -> None:
        manifest["bench_plane"] = [0, 0, 1, -2000]
        for index in range(3):
            T = pose_of(manifest, index)
            T[:3, 3] *= 1000
            pose(manifest, T, index)

    messages = [str(f) for f in warned(kit.make_capture(tmp_path, edit=edit))]
    assert len(messages) == 2
    assert "metres" in messages[0]
    assert "lie below bench_plane" in messages[1]


def test_check_writes_nothing(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(tmp_path)
    before = sorted((p.name, p.stat().st_mtime_ns) for p in folder.iterdir())
    check(folder)
    assert sorted((p.name, p.stat().st_mtime_ns) for p in folder.iterdir()) == before
