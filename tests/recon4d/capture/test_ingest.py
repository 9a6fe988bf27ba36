"""Clocks, undistortion, memory, the cache, events."""

from __future__ import annotations

import json
import resource
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

from recon4d.capture import IngestConfig, ingest, read_sources
from recon4d.errors import CaptureError, ConfigError, OutputError, Stopped
from recon4d.events import Event, Finished, Progress, Started, Warned
from recon4d.geometry import OPENGL_TO_OPENCV
from recon4d.types import SplitRule


def warnings_of(events: list[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Warned)]


def finished_of(events: list[Event]) -> Finished:
    (finished,) = [event for event in events if isinstance(event, Finished)]
    return finished


def test_a_sound_capture(kit: SimpleNamespace, tmp_path: Path) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        manifest |= {"name": "пример", "notes": "first take", "bench_plane": [0, 0, -2, 0.5]}
        manifest["heldout"] = {"cameras": ["cam1"], "guard_s": 0.05}

    events: list[Event] = []
    capture = ingest(kit.make_capture(tmp_path / "c", edit=edit), on_event=events.append)
    assert (capture.name, capture.notes) == ("пример", "first take")
    assert capture.plane == pytest.approx([0, 0, 1, -0.25])  # Made unit and turned up.
    assert capture.split == SplitRule(heldout_cameras=("cam1",), guard_s=0.05)
    assert [camera.name for camera in capture.cameras] == ["cam0", "cam1", "cam2"]
    for index, clip in enumerate(capture.clips):
        assert clip.times == pytest.approx(np.arange(8) * kit.SPACING_S)
        assert clip.valid.all()
        assert clip.camera.K.tolist() == [[60, 0, 32], [0, 60, 24], [0, 0, 1]]
        written = kit.pictures(8, seed=index)
        assert len(clip.frames) == 8
        assert all(np.array_equal(clip.frames[i], written[i]) for i in range(8))
    assert not warnings_of(events)
    assert events[0] == Started(stage="ingest", wall_time_s=events[0].wall_time_s, detail="3 cameras")
    last = [event for event in events if isinstance(event, Progress)][-1]
    assert (last.step, last.total) == (24, 24)
    assert finished_of(events).reused is False


def test_frames_cannot_be_written(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(tmp_path)
    for budget in (0, 128):
        frame = ingest(folder, IngestConfig(memory_budget_mib=budget)).clips[0].frames[0]
        with pytest.raises(ValueError, match="read-only"):
            frame[0, 0, 0] = 1


def test_cameras_with_other_starts_and_rates_get_one_clock(kit: SimpleNamespace, tmp_path: Path) -> None:
    times = [np.arange(30) * 0.02 + 0.10, np.arange(14) * 0.05, np.cumsum([0.17, *[0.03, 0.05] * 8])]
    capture = ingest(kit.make_capture(tmp_path, times_s=times))
    assert capture.clock_offset_s == pytest.approx(0.17)
    end = min(t[-1] for t in times)
    assert capture.duration_s == pytest.approx(end - 0.17)
    for index, clip in enumerate(capture.clips):
        inside = np.flatnonzero((times[index] >= 0.17 - 1e-9) & (times[index] <= end + 1e-9))
        assert clip.times == pytest.approx(times[index][inside] - 0.17, abs=1e-9)
        assert clip.times[0] >= 0
        assert clip.times[-1] <= capture.duration_s
        written = kit.pictures(len(times[index]), seed=index)
        assert np.array_equal(clip.frames[0], written[inside[0]])
        assert np.array_equal(clip.frames[len(clip) - 1], written[inside[-1]])


@pytest.mark.parametrize("write", [
    lambda times: json.dumps(times),
    lambda times: json.dumps({"timestamps": times, "unit": "s"}),
    lambda times: "\n".join(f"{t:.9f}" for t in times) + "\n",
], ids=["list", "object", "text"])  # fmt: skip
def test_a_timestamp_file_wins_over_the_container(
    kit: SimpleNamespace, tmp_path: Path, write: Callable[[list[float]], str]
) -> None:
    true_times = [1.7e9 + t for t in (0.0, 0.018, 0.037, 0.15, 0.168, 0.187, 0.2, 0.22)]

    def edit(manifest: dict[str, Any]) -> None:
        for camera in manifest["cameras"]:
            camera["timestamps"] = "Zeiten.txt"
        manifest["cameras"][1]["time_offset_s"] = 0.05

    (tmp_path / "Zeiten.txt").write_text(write(true_times))
    events: list[Event] = []
    capture = ingest(kit.make_capture(tmp_path, edit=edit), on_event=events.append)
    assert capture.clock_offset_s == pytest.approx(1.7e9 + 0.05, abs=1e-6)
    assert capture.duration_s == pytest.approx(0.17, abs=1e-6)
    # 64-bit seconds since 1970 resolve 0.24 microseconds.
    assert capture.clips[1].times == pytest.approx([t - 1.7e9 for t in true_times if t - 1.7e9 < 0.18], abs=1e-6)
    assert capture.clips[0].times == pytest.approx([0.1, 0.118, 0.137, 0.15, 0.17], abs=1e-6)
    (gap,) = [message for message in warnings_of(events) if "cam1" in message]
    assert "Zeiten.txt: 1 gap in the video, the longest of 0.113 s after" in gap


def test_a_clock_of_another_rate_is_scaled_before_it_is_moved(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(
        tmp_path, edit=lambda manifest: manifest["cameras"][1].update(time_scale=1.005, time_offset_s=0.002)
    )
    capture = ingest(folder)
    assert capture.clock_offset_s == pytest.approx(0.002)
    inside = [k for k in range(8) if 0.002 <= k * kit.SPACING_S * 1.005 + 0.002 <= 7 * kit.SPACING_S]
    assert capture.clips[1].times == pytest.approx([k * kit.SPACING_S * 1.005 for k in inside])
    sources = read_sources(folder)
    assert [source.timed for source in sources] == [False, True, False]
    assert (sources[1].time_scale, sources[1].time_offset_s, sources[1].times) == (1.005, 0.002, None)
    assert sources[1].video.is_file()


def test_pose_conventions_and_pixel_centres_agree(kit: SimpleNamespace, tmp_path: Path) -> None:
    def rewrite(manifest: dict[str, Any]) -> None:
        for camera in manifest["cameras"]:
            world_cam = np.linalg.inv(np.array(camera["pose"]["matrix"])) @ OPENGL_TO_OPENCV
            camera["pose"] = {"convention": "T_world_cam", "axes": "opengl", "matrix": world_cam.tolist()}
            camera["K"][0][2] -= 0.5
            camera["K"][1][2] -= 0.5
            camera["pixel_center"] = "integer"

    plain = ingest(kit.make_capture(tmp_path / "a"))
    other = ingest(kit.make_capture(tmp_path / "b", edit=rewrite))
    for a, b in zip(plain.cameras, other.cameras, strict=True):
        np.testing.assert_allclose(b.K, a.K)
        assert b.T_cam_world == pytest.approx(a.T_cam_world, abs=1e-12)


LENSES = {
    "opencv": [0.25, 0.08, 0.002, -0.001, -0.01],
    "fisheye": [0.05, -0.02, 0.004, -0.001],
}


@pytest.mark.parametrize("centre", ["half", "integer"])
@pytest.mark.parametrize("model", list(LENSES))
def test_undistortion_shows_what_a_pinhole_would(kit: SimpleNamespace, tmp_path: Path, model: str, centre: str) -> None:
    """A smooth pattern is drawn through the lens by projecting each distorted pixel's ray, then undistorted."""
    K = np.array([[60.0, 0, 31.0], [0, 58.0, 25.0], [0, 0, 1]])
    K_opencv = K - (np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]) if centre == "half" else 0)
    pixels = np.stack(np.meshgrid(np.arange(kit.WIDTH), np.arange(kit.HEIGHT)), -1).reshape(-1, 1, 2).astype(float)
    undistort = cv2.fisheye.undistortPoints if model == "fisheye" else cv2.undistortPoints
    rays = undistort(pixels, K_opencv, np.array(LENSES[model])).reshape(kit.HEIGHT, kit.WIDTH, 2)
    ideal = (pixels.reshape(kit.HEIGHT, kit.WIDTH, 2) - K_opencv[:2, 2]) / K_opencv[[0, 1], [0, 1]]

    def pattern(rays: np.ndarray) -> np.ndarray:
        waves = np.stack([np.sin(9 * rays[..., 0]), np.sin(8 * rays[..., 1]), np.sin(6 * rays.sum(-1))], -1)
        return (127 + 90 * waves).round().clip(0, 255).astype(np.uint8)

    def edit(manifest: dict[str, Any]) -> None:
        for camera in manifest["cameras"]:
            camera |= {"K": K.tolist(), "pixel_center": centre}
            camera["distortion"] = {"model": model, "coefficients": LENSES[model]}

    videos = [np.stack([pattern(rays)] * 3) + np.uint8(index) for index in range(3)]
    folder = kit.make_capture(tmp_path, times_s=[np.arange(3) * 0.1] * 3, videos=videos, edit=edit)
    clip = ingest(folder).clips[0]
    difference = np.abs(clip.frames[1].astype(int) - pattern(ideal).astype(int))[clip.valid]
    # Measured worst case 0.20 levels, of bilinear resampling; half a pixel of shift would be a mean of 2.8.
    assert difference.mean() < 0.5
    if model == "opencv":  # Pincushion: the lens does not see the pinhole image's corners.
        assert 0.7 < clip.valid.mean() < 1.0
        assert not clip.valid[0, 0]
        assert not clip.frames[1][0, 0].any()


def test_memory_and_file_give_equal_frames(
    kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    folder = kit.make_capture(tmp_path / "c")
    mapped = ingest(folder, IngestConfig(memory_budget_mib=0))
    held = ingest(folder)
    assert mapped.input_hash == held.input_hash
    for a, b in zip(mapped.clips, held.clips, strict=True):
        assert all(np.array_equal(a.frames[i], b.frames[i]) for i in range(len(a)))
    (folder / "times.txt").write_text("\n".join(str(100 + i) for i in range(8)))
    manifest = json.loads((folder / "capture.json").read_text())
    manifest["cameras"][0]["timestamps"] = "times.txt"
    (folder / "capture.json").write_text(json.dumps(manifest))
    with pytest.raises(CaptureError, match="no common time"):
        ingest(folder)
    assert list((tmp_path / "tmp").iterdir()) == []  # Nothing is left lying about, also after an error.


def test_memory_does_not_grow_with_the_clip(kit: SimpleNamespace, tmp_path: Path) -> None:
    def peak(frames: int) -> int:
        folder = kit.make_capture(tmp_path / str(frames), count=2, frames=frames)
        tracemalloc.start()
        ingest(folder, IngestConfig(memory_budget_mib=0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(4)  # What is allocated once only.
    frame = kit.WIDTH * kit.HEIGHT * 3
    assert peak(120) - peak(12) < 20 * frame  # 216 more frames; measured up to 7: numbers are kept of each, no picture.


def test_a_work_folder_is_reused(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(
        tmp_path / "c", videos=[np.zeros((8, 48, 64, 3), np.uint8) + np.uint8(i) for i in range(3)]
    )
    events: list[Event] = []
    first = ingest(folder, workdir=tmp_path / "work", on_event=events.append)
    said = warnings_of(events)
    assert any("black" in message for message in said)
    events.clear()
    again = ingest(folder, IngestConfig(memory_budget_mib=0), workdir=tmp_path / "work", on_event=events.append)
    assert finished_of(events).reused is True
    assert not any(isinstance(event, Progress) for event in events)
    assert warnings_of(events) == said
    assert again.input_hash == first.input_hash
    for a, b in zip(first.clips, again.clips, strict=True):
        assert np.array_equal(a.times, b.times)
        assert all(np.array_equal(a.frames[i], b.frames[i]) for i in range(8))


def test_another_video_is_decoded_again(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(tmp_path / "c")
    first = ingest(folder, workdir=tmp_path / "work")
    kit.encode(folder / "cam1.mkv", kit.pictures(8, seed=9))
    events: list[Event] = []
    second = ingest(folder, workdir=tmp_path / "work", on_event=events.append)
    assert finished_of(events).reused is False
    assert second.input_hash != first.input_hash
    assert np.array_equal(second.clips[1].frames[0], kit.pictures(8, seed=9)[0])
    assert sorted(p.name for p in (tmp_path / "work").iterdir()) == ["frames"]


def test_a_damaged_cache_is_refused(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(tmp_path / "c")
    ingest(folder, workdir=tmp_path / "work")
    (tmp_path / "work/frames/1.rgb").write_bytes(b"short")
    with pytest.raises(OutputError, match=r"1\.rgb is not whole.*remove"):
        ingest(folder, workdir=tmp_path / "work")


def test_a_stop_leaves_nothing(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(tmp_path / "c")
    asked = iter([False] * 5)
    with pytest.raises(Stopped):
        ingest(folder, workdir=tmp_path / "work", should_stop=lambda: next(asked, True))
    assert list((tmp_path / "work").iterdir()) == []


def test_what_a_killed_run_left_is_cleared(kit: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "work/frames.partial").mkdir(parents=True)
    (tmp_path / "work/frames.partial/0.rgb").write_bytes(b"half a frame")
    ingest(kit.make_capture(tmp_path / "c"), workdir=tmp_path / "work")
    assert [p.name for p in (tmp_path / "work").iterdir()] == ["frames"]


def test_a_full_disk_is_said(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(tmp_path / "c")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))
        with pytest.raises(OutputError, match=r"cannot be written.*make room"):
            ingest(folder, workdir=tmp_path / "work")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "work").iterdir()) == []


def test_a_work_folder_that_is_a_file_is_refused(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = kit.make_capture(tmp_path / "c")
    (tmp_path / "work").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        ingest(folder, workdir=tmp_path / "work")


@pytest.mark.parametrize("bad", [{"memory_budget_mib": -1}, {"gap_factor": 1.0}, {"exposure_ratio": float("nan")}])
def test_config_out_of_range(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        IngestConfig(**bad)
