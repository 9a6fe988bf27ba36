"""What pictures tell of their cameras: repeats, converted frame rates, black, blur, exposure, white balance, copies."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import av
import cv2
import numpy as np
import pytest

from recon4d.capture import check, ingest
from recon4d.capture._findings import Inspection
from recon4d.capture._likeness import bench_gains, bench_points, pixels_of
from recon4d.capture._manifest import read_manifest
from recon4d.errors import CaptureError


def noted(folder: Path, camera: str | None, severity: str) -> list[str]:
    return [f.message for f in check(folder) if f.camera == camera and f.severity == severity]


def moving(count: int, seed: int = 0) -> np.ndarray:
    """uint8 [count, 48, 64, 3]: a bar that moves over textured ground, with a sensor's noise."""
    rng = np.random.default_rng(seed)
    ground = rng.integers(80, 160, (48, 64, 3))
    pictures = np.empty((count, 48, 64, 3), np.uint8)
    for index in range(count):
        picture = ground + rng.normal(0, 1.5, ground.shape)
        picture[10:38, (3 * index) % 56 : (3 * index) % 56 + 8] = 230
        pictures[index] = np.clip(picture, 0, 255)
    return pictures


def capture_with(kit: SimpleNamespace, folder: Path, pictures: np.ndarray, **encoder: object) -> Path:
    """A sound capture whose cam1 shows the given pictures at 25 a second."""
    at = [np.arange(len(pictures)) * 0.04] * 3
    folder = kit.make_capture(folder, times_s=at)
    kit.encode(folder / "cam1.mkv", pictures, at[0], **encoder)
    return folder


def test_pictures_that_move_and_carry_noise_are_sound(kit: SimpleNamespace, tmp_path: Path) -> None:
    assert check(capture_with(kit, tmp_path, moving(40))) == ()


@pytest.mark.parametrize(("source_hz", "ratio"), [(20, 1.25), (15, 5 / 3), (12.5, 2.0), (8, 3.125)])
@pytest.mark.parametrize("codec", ["ffv1", "libx264"])
def test_a_converted_frame_rate_is_named(
    kit: SimpleNamespace, tmp_path: Path, source_hz: float, ratio: float, codec: str
) -> None:
    shown = np.floor(np.arange(60) * 0.04 * source_hz + 1e-9).astype(int)
    lossy = {"codec": "libx264", "pix_fmt": "yuv420p", "options": {"crf": "20"}} if codec == "libx264" else {}
    folder = capture_with(kit, tmp_path, moving(shown[-1] + 1)[shown], **lossy)
    (message,) = noted(folder, "cam1", "warning")
    told = re.match(
        r"shows each picture ([\d.]+) times on average, evenly: ([\d.]+) pictures .* brought to 25 by", message
    )
    assert told is not None, message
    assert [float(number) for number in told.groups()] == pytest.approx([ratio, source_hz], rel=0.01)


def test_a_camera_that_sticks_now_and_then(kit: SimpleNamespace, tmp_path: Path) -> None:
    pictures = moving(60)
    for first, last in ((7, 10), (31, 37), (50, 51)):
        pictures[first : last + 1] = pictures[first]
    folder = capture_with(kit, tmp_path, pictures)
    assert noted(folder, "cam1", "warning") == []
    assert noted(folder, "cam1", "note") == ["10 of 60 frames equal the one before them to the last bit"]


def test_black_frames_at_the_beginning(kit: SimpleNamespace, tmp_path: Path) -> None:
    pictures = moving(40)
    pictures[:3] = 2
    (message,) = noted(capture_with(kit, tmp_path, pictures), "cam1", "warning")
    assert message == "3 of 40 frames are black, the first at 0.000 s"


@pytest.mark.parametrize("sigma", [0.0, 1.0, 2.0])
def test_blur_of_a_pixel_is_told(kit: SimpleNamespace, tmp_path: Path, sigma: float) -> None:
    rng = np.random.default_rng(5)
    picture = np.full((96, 128, 3), 100, np.uint8)
    for _ in range(120):  # Edges of every size, as the things on a bench have.
        x, y, w, h = rng.integers(0, 100), rng.integers(0, 80), *rng.integers(3, 30, 2)
        picture[y : y + h, x : x + w] = rng.integers(40, 220, 3)
    picture = cv2.GaussianBlur(picture, (0, 0), sigma) if sigma else picture
    pictures = np.clip(picture + rng.normal(0, 0.7, (12, 96, 128, 3)), 0, 255).astype(np.uint8)

    def edit(manifest: dict) -> None:
        manifest["cameras"][1] |= {"width": 128, "height": 96, "K": [[120, 0, 64], [0, 120, 48], [0, 0, 1]]}

    folder = kit.make_capture(tmp_path, frames=12, edit=edit)
    kit.encode(folder / "cam1.mkv", pictures)
    blurred = [m for m in noted(folder, "cam1", "warning") if "blurred" in m]
    assert len(blurred) == (sigma > 0)


def bench_capture(kit: SimpleNamespace, folder: Path, gains: list[tuple[float, float, float]]) -> Path:
    """Cameras that see one painted bench, each with its own gain a channel, and each its own thing standing there."""
    rng = np.random.default_rng(2)
    paint = cv2.resize(rng.integers(50, 130, (12, 12, 3)).astype(np.float32), (400, 400), interpolation=cv2.INTER_CUBIC)
    folder = kit.make_capture(folder, count=len(gains))
    manifest = read_manifest(folder, Inspection(lambda finding: None))
    for index, (entry, gain) in enumerate(zip(manifest.entries, gains, strict=True)):
        camera = entry.camera
        # The homography from the bench, 2 m across, to this camera's pixels.
        to_picture = camera.K @ np.delete(camera.T_cam_world[:3], 2, axis=1)
        to_bench = np.array([[0.005, 0, -1], [0, 0.005, -1], [0, 0, 1]])
        seen = cv2.warpPerspective(paint, to_picture @ to_bench, (64, 48), borderMode=cv2.BORDER_REFLECT)
        seen[20:30, 8 * index : 8 * index + 10] = (20, 200, 90)
        pictures = seen * np.array(gain) + rng.normal(0, 1, (8, 48, 64, 3))
        kit.encode(folder / f"cam{index}.mkv", np.clip(pictures, 0, 255).astype(np.uint8))
    return folder


def brightness_of(message: str) -> float:
    return float(message.split("sees the bench ")[1].split()[0])


def test_gains_are_those_that_were_put_in() -> None:
    rng = np.random.default_rng(0)
    paint = rng.uniform(40, 120, (200, 3))
    truth = {name: [1.0, 1.0, 1.0] for name in "aefg"} | {"b": [1.5, 1.5, 1.5], "c": [1.1, 1.0, 0.9]}
    bench = {name: paint * gain * rng.normal(1, 0.02, paint.shape) for name, gain in truth.items()}
    bench["b"][:60] = np.nan  # Not in its picture.
    bench["c"][100:130] = 200  # Something stands there.
    bench["d"] = np.full((200, 3), np.nan)
    gains = bench_gains(bench)
    assert set(gains) == set(truth)
    for name, gain in gains.items():
        assert gain == pytest.approx(truth[name], rel=0.02)


def test_the_bench_is_looked_at_where_the_lens_puts_it(kit: SimpleNamespace, tmp_path: Path) -> None:
    def edit(manifest: dict) -> None:
        manifest["cameras"][1]["distortion"] = {"model": "opencv", "coefficients": [-0.2, 0.05, 0.001, -0.002, 0]}
        manifest["cameras"][2]["distortion"] = {"model": "fisheye", "coefficients": [0.05, -0.01, 0, 0]}

    manifest = read_manifest(kit.make_capture(tmp_path, edit=edit), Inspection(lambda finding: None))
    points_w = bench_points(manifest)
    assert np.abs(points_w[:, 2]).max() < 1e-9
    for entry, project in zip(manifest.entries, (None, cv2.projectPoints, cv2.fisheye.projectPoints), strict=True):
        pixels = pixels_of(points_w, entry)
        seen = np.isfinite(pixels).all(1)
        assert seen.sum() > 100
        camera, K = entry.camera, entry.camera.K - [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]
        rotation, shift = cv2.Rodrigues(camera.T_cam_world[:3, :3])[0], camera.T_cam_world[:3, 3]
        lens = np.zeros(5) if entry.distortion is None else entry.distortion.coefficients
        expected = (project or cv2.projectPoints)(points_w[seen][:, None], rotation, shift, K, lens)[0].reshape(-1, 2)
        assert np.abs(pixels[seen] - expected - 0.5).max() < 1e-6


def test_exposure_and_white_balance_are_told_apart(kit: SimpleNamespace, tmp_path: Path) -> None:
    even = (1.0, 1.0, 1.0)
    folder = bench_capture(kit, tmp_path, [even, (1.4, 1.4, 1.4), (1.15, 1.0, 0.87), even, even, even, even])
    found = [f for f in check(folder) if "bench" in f.message or "balance" in f.message]
    exposure, balance = found
    assert (exposure.camera, exposure.severity) == ("cam1", "note")
    assert brightness_of(exposure.message) == pytest.approx(1.4, rel=0.05)
    assert "one factor a camera is fitted" in exposure.message
    assert (balance.camera, balance.severity) == ("cam2", "warning")
    red, green, blue = (
        float(balance.message.split(word)[1].split()[0].rstrip(",")) for word in ("red is", "green", "blue")
    )
    assert [red, green, blue] == pytest.approx([1.15, 1.0, 0.87], abs=0.04)


def test_a_great_difference_in_exposure_is_a_warning(kit: SimpleNamespace, tmp_path: Path) -> None:
    even = (0.8, 0.8, 0.8)
    folder = bench_capture(kit, tmp_path, [even, even, (1.8, 1.8, 1.8), even])
    (message,) = noted(folder, "cam2", "warning")
    assert brightness_of(message) == pytest.approx(1.8 / 0.8, rel=0.05)


def test_without_a_bench_mean_levels_are_compared(kit: SimpleNamespace, tmp_path: Path) -> None:
    videos = [kit.pictures(8) // 3, kit.pictures(8, 1), kit.pictures(8, 2)]
    folder = kit.make_capture(tmp_path, videos=videos, edit=lambda manifest: manifest.pop("bench_plane"))
    (message,) = noted(folder, None, "warning")
    assert "'cam0' has a mean level of" in message


def test_the_same_pictures_in_another_container_are_refused(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = capture_with(kit, tmp_path, moving(30), codec="libx264", pix_fmt="yuv420p")
    with av.open(str(folder / "cam1.mkv")) as source, av.open(str(folder / "cam2.mkv"), "w") as target:
        target.metadata["title"] = "copied"
        copied = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = copied
                target.mux(packet)
    (found,) = [f for f in check(folder) if f.severity == "error"]
    assert found.camera == "cam2"
    assert "same pictures as camera 'cam1'" in found.message
    with pytest.raises(CaptureError, match="same pictures"):
        ingest(folder)


def test_what_was_found_is_told_again_from_the_cache(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = bench_capture(kit, tmp_path / "c", [(1.0, 1.0, 1.0)] * 3 + [(2.2, 2.2, 2.2)])

    def told() -> list[str]:
        events: list[object] = []
        ingest(folder, workdir=tmp_path / "work", on_event=events.append)
        return [event.message for event in events if type(event).__name__ == "Warned"]

    first = told()
    assert len(first) == 1
    assert told() == first
