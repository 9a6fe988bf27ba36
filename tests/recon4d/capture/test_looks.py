"""Orientation, pixel shape, interlacing and odd sizes: pictures as they are meant to be seen."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import av.filter
import numpy as np
import pytest

from recon4d.capture import Finding, check, frames, ingest
from recon4d.errors import CalibrationError, CaptureError
from tests.bench import turned

ORIENTATIONS = {
    (1, 0, 0, 1): lambda p: p,
    (1, 0, 0, -1): lambda p: p[::-1],
    (-1, 0, 0, 1): lambda p: p[:, ::-1],
    (-1, 0, 0, -1): lambda p: np.rot90(p, 2),
    (0, 1, -1, 0): lambda p: np.rot90(p, -1),
    (0, -1, 1, 0): lambda p: np.rot90(p, 1),
    (0, 1, 1, 0): lambda p: p.transpose(1, 0, 2),
    (0, -1, -1, 0): lambda p: np.rot90(p, 2).transpose(1, 0, 2),
}
"""By a, b, c, d what the display matrix asks for."""


def read(path: Path) -> tuple[list[float | None], np.ndarray, list[Finding]]:
    findings: list[Finding] = []
    times, pictures = zip(*frames(path, camera="a", on_finding=findings.append), strict=True)
    return list(times), np.stack(pictures), findings


def marked(height: int = 48, width: int = 64) -> np.ndarray:
    """A picture that no turning and no mirroring maps to itself: brightest in the upper left, then clockwise."""
    picture = np.empty((height, width, 3), np.uint8)
    h, w = height // 2, width // 2
    picture[:h, :w], picture[:h, w:], picture[h:, w:], picture[h:, :w] = 220, 160, 100, 40
    return picture


def marked_mp4(kit: SimpleNamespace, path: Path, **encoder: object) -> Path:
    options = {"codec": "libx264", "pix_fmt": "yuv420p", "options": {"crf": "5"}} | encoder
    return kit.encode(path, [marked()] * 3, **options)


@pytest.mark.parametrize("linear", ORIENTATIONS, ids=str)
def test_each_of_the_eight_orientations_is_undone_once(
    kit: SimpleNamespace, tmp_path: Path, linear: tuple[int, int, int, int]
) -> None:
    path = turned(marked_mp4(kit, tmp_path / "v.mp4"), linear)
    _, pictures, findings = read(path)
    assert np.abs(pictures[0].astype(int) - ORIENTATIONS[linear](marked())).max() <= 3
    assert [f.severity for f in findings] == ["note"] * (linear != (1, 0, 0, 1))


@pytest.mark.parametrize("linear", [(0.7071, 0.7071, -0.7071, 0.7071), (2, 0, 0, 1)], ids=["angle", "scale"])
def test_any_other_display_matrix_is_refused(kit: SimpleNamespace, tmp_path: Path, linear: tuple[float, ...]) -> None:
    with pytest.raises(CaptureError, match=r"turned at an angle or scaled.*without it"):
        read(turned(marked_mp4(kit, tmp_path / "v.mp4"), linear))


def capture_of(kit: SimpleNamespace, folder: Path, video: Path, width: int, height: int, fx: float = 60.0) -> Path:
    """A capture whose camera cam1 is the given video, calibrated at the given size."""

    def edit(manifest: dict) -> None:
        del manifest["bench_plane"]  # Colours are not the subject here.
        manifest["cameras"][1] |= {
            "video": video.name,
            "width": width,
            "height": height,
            "K": [[fx, 0, width / 2], [0, 60.0, height / 2], [0, 0, 1]],
        }

    folder = kit.make_capture(folder, frames=3, edit=edit)
    (folder / "cam1.mkv").unlink()
    video.rename(folder / video.name)
    return folder


def test_a_calibration_of_the_upright_picture_fits(kit: SimpleNamespace, tmp_path: Path) -> None:
    video = turned(marked_mp4(kit, tmp_path / "phone.mp4"), (0, 1, -1, 0))
    folder = capture_of(kit, tmp_path / "c", video, 48, 64)
    assert [(f.severity, f.camera) for f in check(folder)] == [("note", "cam1")]
    frame = ingest(folder).clip("cam1").frames[0]
    assert np.abs(frame.astype(int) - np.rot90(marked(), -1)).max() <= 3


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((64, 48), r"is 48x64.*for 64x48; that is the picture as stored.*-display_rotation 0"),
        ((96, 128), r"is 48x64.*for 96x128.*scaled by 2, multiply K's first two rows by 0.5"),
        ((48, 60), r"is 48x64.*for 48x60; the shapes differ"),
    ],
)
def test_a_calibration_of_another_size_is_refused_with_a_way_out(
    kit: SimpleNamespace, tmp_path: Path, size: tuple[int, int], words: str
) -> None:
    video = turned(marked_mp4(kit, tmp_path / "phone.mp4"), (0, 1, -1, 0))
    with pytest.raises(CalibrationError, match=words):
        ingest(capture_of(kit, tmp_path / "c", video, *size))


def test_swapped_width_and_height_are_named(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = capture_of(kit, tmp_path / "c", marked_mp4(kit, tmp_path / "v.mp4"), 48, 64)
    with pytest.raises(CalibrationError, match="width and height are swapped"):
        ingest(folder)


WIDE = Fraction(4, 3)
"""A pixel's width over its height in the tests below: 64x48 stored is 85x48 or 64x36 when pixels are square."""


def wide(kit: SimpleNamespace, path: Path) -> Path:
    return marked_mp4(kit, path, sample_aspect_ratio=WIDE)


def test_pixels_that_are_not_square_stay_as_stored(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = capture_of(kit, tmp_path / "c", wide(kit, tmp_path / "w.mp4"), 64, 48, fx=45.0)
    (note,) = check(folder)
    assert (note.severity, note.camera) == ("note", "cam1")
    assert "not square (4:3); they are used as stored, 64x48" in note.message
    assert np.abs(ingest(folder).clip("cam1").frames[0].astype(int) - marked()).max() <= 3


def test_square_focal_lengths_for_such_pixels_are_warned_of(kit: SimpleNamespace, tmp_path: Path) -> None:
    folder = capture_of(kit, tmp_path / "c", wide(kit, tmp_path / "w.mp4"), 64, 48, fx=60.0)
    warning = check(folder)[-1]
    assert warning.severity == "warning"
    assert "fx / fy should be about 0.750; K has 1.000" in warning.message


@pytest.mark.parametrize("size", [(85, 48), (64, 36)], ids=str)
def test_a_calibration_of_square_pixels_gets_them(kit: SimpleNamespace, tmp_path: Path, size: tuple[int, int]) -> None:
    folder = capture_of(kit, tmp_path / "c", wide(kit, tmp_path / "w.mp4"), *size)
    (note,) = check(folder)
    assert f"resampled to the calibration's {size[0]}x{size[1]}" in note.message
    frame = ingest(folder).clip("cam1").frames[0].astype(int)
    width, height = size
    assert frame.shape == (height, width, 3)
    quarters = [frame[y, x].mean() for y, x in ((2, 2), (2, -3), (-3, -3), (-3, 2))]
    assert quarters == pytest.approx([220, 160, 100, 40], abs=3)
    # The edge between the two upper quarters: half of the width, to half a pixel.
    edge = (frame[4, :, 0] > 190).sum()
    assert abs(edge - width / 2) <= 0.75


def test_the_aspect_turns_with_the_picture(kit: SimpleNamespace, tmp_path: Path) -> None:
    video = turned(wide(kit, tmp_path / "w.mp4"), (0, 1, -1, 0))
    assert ingest(capture_of(kit, tmp_path / "c", video, 48, 85)).clip("cam1").frames[0].shape == (85, 48, 3)


def combed(count: int, bottom_first: bool) -> tuple[np.ndarray, np.ndarray]:
    """Frames of two fields each, a bar moving 4 pixels a field over a gradient; and the scene at the first fields."""

    def scene(field: int) -> np.ndarray:
        picture = np.broadcast_to(np.linspace(60, 120, 96)[:, None, None], (96, 128, 3)).astype(np.uint8).copy()
        picture[20:76, 8 + 4 * field : 24 + 4 * field] = 220
        return picture

    woven, first = [], []
    for frame in range(count):
        early, late = scene(2 * frame), scene(2 * frame + 1)
        picture, first_rows = early.copy(), slice(1, None, 2) if bottom_first else slice(0, None, 2)
        picture[:] = late
        picture[first_rows] = early[first_rows]
        woven.append(picture)
        first.append(early)
    return np.stack(woven), np.stack(first)


def encode_fields(path: Path, woven: np.ndarray, times_s: list[float], bottom_first: bool) -> Path:
    """As H.264 with the fields marked."""
    marker = av.filter.Graph()
    height, width = woven.shape[1:3]
    marker.link_nodes(
        marker.add_buffer(width=width, height=height, format="yuv420p", time_base=Fraction(1, 1000)),
        marker.add("setfield", "bff" if bottom_first else "tff"),
        marker.add("buffersink"),
    ).configure()
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "2", "flags": "+ildct"})
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for picture, time_s in zip(woven, times_s, strict=True):
            frame = av.VideoFrame.from_ndarray(picture).reformat(format="yuv420p", threads=1)
            frame.pts, frame.time_base = round(time_s * 1000), Fraction(1, 1000)
            marker.vpush(frame)
            container.mux(stream.encode(marker.vpull()))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("bottom_first", [False, True], ids=["tff", "bff"])
def test_interlaced_frames_become_their_first_field(tmp_path: Path, bottom_first: bool) -> None:
    woven, first = combed(8, bottom_first)
    at = [0.0, 0.04, 0.08, 0.16, 0.2, 0.24, 0.28, 0.32]  # One frame was dropped: times must stay with their pictures.
    path = encode_fields(tmp_path / "i.mkv", woven, at, bottom_first)
    times, pictures, findings = read(path)
    assert times == pytest.approx(at, abs=1e-9)
    (note,) = findings
    assert note.severity == "note"
    assert "interlaced" in note.message
    combing = np.abs(woven.astype(int) - first).max()
    assert combing > 90
    rows = slice(24, 72)  # Away from the bar's upper and lower end, where lines are estimated across an edge.
    inner = np.abs(pictures[1:-1, rows].astype(int) - first[1:-1, rows])
    assert inner.max() <= 40  # Chroma and compression at the bar's edges; what was combed was off by 100 and more.
    assert inner.mean() <= 1.5


def test_turned_interlaced_frames_are_turned(kit: SimpleNamespace, tmp_path: Path) -> None:
    options = {"crf": "2", "x264-params": "tff=1"}
    path = marked_mp4(kit, tmp_path / "v.mp4", options=options)
    _, pictures, findings = read(turned(path, (-1, 0, 0, 1)))
    assert pictures.shape == (3, 48, 64, 3)
    assert np.abs(pictures[:, 4:20, 4:28].astype(int) - 160).max() <= 3
    assert len(findings) == 2


@pytest.mark.parametrize(
    ("codec", "pix_fmt", "suffix", "tolerance"),
    [
        ("ffv1", "bgr0", "mkv", 0),
        ("mjpeg", "yuvj420p", "avi", 16),
        ("libvpx-vp9", "yuv420p", "webm", 16),
        ("ffv1", "yuv422p10le", "mkv", 2),
    ],
)
def test_odd_sizes_keep_their_last_row_and_column(
    kit: SimpleNamespace, tmp_path: Path, codec: str, pix_fmt: str, suffix: str, tolerance: int
) -> None:
    y, x = np.mgrid[:479, :641]
    picture = np.stack([60 + x * 0.2] * 3, -1) + (y * 0.1)[..., None]
    picture = picture.round().astype(np.uint8)
    path = kit.encode(tmp_path / f"v.{suffix}", [picture] * 2, [0, 0.04], codec=codec, pix_fmt=pix_fmt)
    _, pictures, _ = read(path)
    assert pictures.shape == (2, 479, 641, 3)
    assert np.abs(pictures[0].astype(int) - picture).max() <= tolerance
