"""Decoding: order, times, colour, rotation, damage."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from recon4d.capture._findings import Finding, Inspection
from recon4d.capture.video import announced_frames, decode
from recon4d.errors import CaptureError

PATCHES = np.array(
    [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [0, 0, 0], [128, 128, 128], [200, 120, 40], [30, 90, 180]],
    np.uint8,
)
KR_KB = {1: (0.2126, 0.0722), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}
"""Luma weights of red and blue: BT.709, BT.601, BT.2020 (ITU-T H.273)."""


def read(path: Path) -> tuple[list[float | None], list[np.ndarray], list[Finding]]:
    findings: list[Finding] = []

    def on_finding(finding: Finding) -> None:
        if finding.severity == "error":
            raise finding.as_error()
        findings.append(finding)

    times, frames = [], []
    for time_s, frame in decode(path, Inspection(on_finding).about("a", path.name)):
        times.append(time_s)
        frames.append(frame)
    return times, frames, findings


def patch_image(height: int = 48) -> np.ndarray:
    """[height, 64, 3]: the eight patches in two rows of four."""
    return np.repeat(np.repeat(PATCHES.reshape(2, 4, 3), height // 2, 0), 16, 1)


def to_yuv(rgb: np.ndarray, matrix: int, full: bool) -> np.ndarray:
    """uint8 [3, H, W] by the defining equations, with no library in between."""
    kr, kb = KR_KB[matrix]
    r, g, b = np.moveaxis(rgb / 255.0, -1, 0)
    y = kr * r + (1 - kr - kb) * g + kb * b
    cb, cr = (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
    scale = (255, 255, 0) if full else (219, 224, 16)
    planes = [y * scale[0] + scale[2], cb * scale[1] + 128, cr * scale[1] + 128]
    return np.clip(np.stack(planes).round(), 0, 255).astype(np.uint8)


def patch_error(frame: np.ndarray) -> int:
    height = frame.shape[0]
    centres = frame[height // 4 :: height // 2, 8::16].reshape(-1, 3).astype(int)
    return int(np.abs(centres - PATCHES).max())


def test_order_and_times_of_a_lossless_variable_rate_video(kit: SimpleNamespace, tmp_path: Path) -> None:
    written, at = kit.pictures(5), [0.0, 0.04, 0.1, 0.5, 0.52]
    path = kit.encode(tmp_path / "v.mkv", written, at)
    times, frames, findings = read(path)
    assert times == pytest.approx(at, abs=1e-9)
    assert all(np.array_equal(f, w) for f, w in zip(frames, written, strict=True))
    assert not findings


def test_b_frames_come_in_order_of_presentation(kit: SimpleNamespace, tmp_path: Path) -> None:
    levels = np.linspace(30, 220, 24).round().astype(np.uint8)
    written = np.broadcast_to(levels[:, None, None, None], (24, 48, 64, 3))
    at = np.cumsum(np.tile([0.02, 0.05, 0.033], 8))
    options = {"bf": "3", "b-adapt": "0", "crf": "10"}
    path = kit.encode(tmp_path / "v.mp4", written, at, codec="libx264", pix_fmt="yuv420p", options=options)
    times, frames, _ = read(path)
    assert np.diff(times) == pytest.approx(np.diff(at), abs=1e-3 + 1e-9)  # Written with a clock of 1 ms.
    assert np.array([f.mean() for f in frames]) == pytest.approx(levels.astype(float), abs=3)
    assert announced_frames(path) == 24


@pytest.mark.parametrize("matrix", [1, 6, 9], ids=["bt709", "bt601", "bt2020"])
@pytest.mark.parametrize("full", [False, True], ids=["limited", "full"])
def test_tagged_colour_is_honoured(kit: SimpleNamespace, tmp_path: Path, matrix: int, full: bool) -> None:
    planes = to_yuv(patch_image(), matrix, full)
    tags = {"colorspace": matrix, "color_range": 2 if full else 1, "color_primaries": 1}
    path = kit.encode(tmp_path / "v.mkv", [planes] * 2, pix_fmt="yuv444p", source="yuv444p", **tags)
    _, frames, findings = read(path)
    assert patch_error(frames[0]) <= 4  # Measured worst case 1, of rounding to 8-bit YUV and back.
    assert not findings


@pytest.mark.parametrize(("height", "matrix"), [(48, 6), (720, 1)])
def test_untagged_colour_goes_by_the_rows(kit: SimpleNamespace, tmp_path: Path, height: int, matrix: int) -> None:
    planes = to_yuv(patch_image(height), matrix, full=False)
    path = kit.encode(tmp_path / "v.mkv", [planes], pix_fmt="yuv444p", source="yuv444p")
    assert patch_error(read(path)[1][0]) <= 4  # Measured worst case 1; the other matrix is off by 22 and more.


def test_subsampled_lossy_colour(kit: SimpleNamespace, tmp_path: Path) -> None:
    planes = to_yuv(patch_image(), 1, full=False)
    tags = {"colorspace": 1, "color_range": 1, "options": {"crf": "1"}}
    path = kit.encode(tmp_path / "v.mp4", [planes] * 2, codec="libx264", pix_fmt="yuv420p", source="yuv444p", **tags)
    assert patch_error(read(path)[1][0]) <= 4  # Measured worst case 2.


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_cut_off_file_is_refused(kit: SimpleNamespace, tmp_path: Path, suffix: str) -> None:
    options = {"crf": "10", "g": "5"}
    path = kit.encode(tmp_path / f"v.{suffix}", kit.pictures(60), codec="libx264", pix_fmt="yuv420p", options=options)
    if suffix == "mp4":  # The header must come first, or the cut takes it away.
        path = faststart(path)
    assert len(read(path)[1]) == 60
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    with pytest.raises(CaptureError, match=r"v\.m.*(cut off|damaged|decoding stops)"):
        read(path)


def faststart(path: Path) -> Path:
    import av

    out = path.with_name("fast.mp4")
    with av.open(str(path)) as source, av.open(str(out), "w", options={"movflags": "faststart"}) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    return out.rename(path)


def test_a_file_without_its_header_is_refused(kit: SimpleNamespace, tmp_path: Path) -> None:
    path = kit.encode(tmp_path / "v.mp4", kit.pictures(10), codec="libx264", pix_fmt="yuv420p")
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"moov") - 4])
    with pytest.raises(CaptureError, match="cut off while copied"):
        read(path)
