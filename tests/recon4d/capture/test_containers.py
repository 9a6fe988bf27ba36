"""Codecs, containers, what lies in them beside the video, files out to do harm, and paths."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import unicodedata
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest

from recon4d.capture import Finding, check, frames, ingest
from recon4d.errors import CaptureError


def read(path: Path) -> tuple[list[float | None], np.ndarray, list[Finding]]:
    findings: list[Finding] = []
    times, pictures = zip(*frames(path, camera="a", on_finding=findings.append), strict=True)
    return list(times), np.stack(pictures), findings


def steps(count: int = 12) -> np.ndarray:
    """uint8 [count, 48, 64, 3]: smooth pictures, each brighter than the one before."""
    y, x = np.mgrid[:48, :64]
    ground = np.stack([60 + x, 50 + y, 80 + x - y // 2], -1)
    return (ground + 4 * np.arange(count)[:, None, None, None]).astype(np.uint8)


@pytest.mark.parametrize(
    ("codec", "pix_fmt", "suffix", "options"),
    [
        ("libx264", "yuv420p", "mp4", {"crf": "8"}),
        ("libx265", "yuv420p10le", "mp4", {"x265-params": "log-level=none:crf=8"}),
        ("libsvtav1", "yuv420p", "mp4", {"crf": "20", "preset": "12"}),
        ("libvpx-vp9", "yuv420p", "webm", {"crf": "12", "b": "0"}),
        ("mpeg4", "yuv420p", "avi", {"q": "2"}),
        ("mjpeg", "yuvj420p", "avi", {"q": "2"}),
        ("prores_ks", "yuv422p10le", "mov", {}),
        ("mpeg2video", "yuv420p", "ts", {"q": "2"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_common_codecs_keep_order_count_and_times(
    kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, pix_fmt: str, suffix: str,
    options: dict[str, str],
) -> None:  # fmt: skip
    monkeypatch.setenv("SVT_LOG", "1")
    written = steps()
    path = tmp_path / f"v.{suffix}"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, pix_fmt
        if "q" in options:
            stream.codec_context.flags |= 2  # A fixed quantiser.
            stream.codec_context.bit_rate = 4_000_000
        for index, picture in enumerate(written):
            frame = av.VideoFrame.from_ndarray(picture).reformat(format=pix_fmt, threads=1)
            frame.pts, frame.time_base = index, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    times, pictures, findings = read(path)
    assert len(pictures) == len(written)
    assert np.diff(times) == pytest.approx(np.full(11, 0.04), abs=1.1e-3)  # MKV's and WebM's clock ticks in ms.
    assert np.abs(pictures.astype(int).mean((1, 2, 3)) - written.mean((1, 2, 3))).max() <= 2
    assert findings == []


def test_variable_rate_keeps_its_times_in_every_container(kit: SimpleNamespace, tmp_path: Path) -> None:
    at = [0.0, 0.033, 0.067, 0.2, 0.21, 0.5, 0.533, 0.6]
    for suffix in ("mp4", "mkv", "mov"):
        path = kit.encode(tmp_path / f"v.{suffix}", steps(8), at, codec="libx264", pix_fmt="yuv420p")
        assert read(path)[0] == pytest.approx(at, abs=1e-3)


def test_a_video_that_begins_late_keeps_its_time(kit: SimpleNamespace, tmp_path: Path) -> None:
    """MP4 writes an empty edit for it; MKV has the time as it is."""
    for suffix in ("mp4", "mkv"):
        path = kit.encode(
            tmp_path / f"v.{suffix}", steps(4), [0.5, 0.54, 0.58, 0.62], codec="libx264", pix_fmt="yuv420p"
        )
        assert read(path)[0] == pytest.approx([0.5, 0.54, 0.58, 0.62], abs=1e-3)


def test_an_edit_list_hides_what_it_cuts_off(kit: SimpleNamespace, tmp_path: Path) -> None:
    source = kit.encode(tmp_path / "whole.mp4", steps(12), codec="libx264", pix_fmt="yuv420p", options={"bf": "0"})
    path = tmp_path / "trimmed.mp4"
    with av.open(str(source)) as whole, av.open(str(path), "w") as trimmed:
        stream = whole.streams.video[0]
        copied = trimmed.add_stream_from_template(stream)
        shift = round(Fraction(5 * 40, 1000) / stream.time_base)
        for packet in whole.demux(stream):
            if packet.size:
                packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, copied
                trimmed.mux(packet)
    times, pictures, findings = read(path)
    assert times == pytest.approx(np.arange(7) * 0.04, abs=1e-6)
    assert np.array_equal(pictures, read(source)[1][5:])
    (note,) = findings
    assert note.severity == "note"
    assert "an edit list hides 5 of 12 frames; the 7 that it shows are used" in note.message


def test_a_count_that_does_not_hold_is_told(tmp_path: Path) -> None:
    path = tmp_path / "v.avi"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        for picture in steps(20):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode(None))
    data = bytearray(path.read_bytes())
    at = data.index(b"strh") + 8 + 32  # The stream header's length in frames.
    assert struct.unpack("<I", data[at : at + 4]) == (20,)
    data[at : at + 4] = struct.pack("<I", 21)
    path.write_bytes(data)
    (note,) = read(path)[2]
    assert note.message == "its header declares 21 frames; it holds 20, which are used"


def test_a_stream_that_lost_its_first_keyframe_is_told(kit: SimpleNamespace, tmp_path: Path) -> None:
    options = {"g": "10", "bf": "0"}
    source = kit.encode(tmp_path / "a.mkv", steps(20), codec="libx264", pix_fmt="yuv420p", options=options)
    path = tmp_path / "b.mkv"
    with av.open(str(source)) as whole, av.open(str(path), "w") as cut:
        copied = cut.add_stream_from_template(whole.streams.video[0])
        for index, packet in enumerate(whole.demux(video=0)):
            if packet.size and index:
                packet.stream = copied
                cut.mux(packet)
    _, pictures, findings = read(path)
    assert len(pictures) == 10
    assert "holds 19 frames, of which 10 decode" in findings[0].message


def test_cover_art_sound_and_data_are_passed_over(kit: SimpleNamespace, tmp_path: Path) -> None:
    source = kit.encode(tmp_path / "v.mp4", steps(4), codec="libx264", pix_fmt="yuv420p")
    path = tmp_path / "phone.mp4"
    with av.open(str(source)) as plain, av.open(str(path), "w") as container:
        cover = container.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 320, 240, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        sound = container.add_stream("aac", rate=8000)
        video = container.add_stream_from_template(plain.streams.video[0])
        picture = av.VideoFrame.from_ndarray(np.full((240, 320, 3), 99, np.uint8))
        container.mux(cover.encode(picture))
        container.mux(cover.encode(None))
        noise = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        noise.sample_rate = 8000
        container.mux(sound.encode(noise))
        container.mux(sound.encode(None))
        for packet in plain.demux(video=0):
            if packet.size:
                packet.stream = video
                container.mux(packet)
    with av.open(str(path)) as container:
        covers = [s for s in container.streams.video if s.disposition & av.stream.Disposition.attached_pic]
        assert len(covers) == 1
        assert len(container.streams.audio) == 1
    _, pictures, findings = read(path)
    assert np.array_equal(pictures, read(source)[1])
    assert findings == []


def test_of_two_video_streams_the_first_is_used_and_said(kit: SimpleNamespace, tmp_path: Path) -> None:
    path = tmp_path / "two.mkv"
    with av.open(str(path), "w") as container:
        streams = []
        for width, height in ((64, 48), (128, 96)):
            stream = container.add_stream("ffv1", rate=25)
            stream.width, stream.height, stream.pix_fmt = width, height, "bgr0"
            streams.append(stream)
        for index in range(3):
            for stream, level in zip(streams, (80, 160), strict=True):
                frame = av.VideoFrame.from_ndarray(np.full((stream.height, stream.width, 3), level, np.uint8))
                frame.pts, frame.time_base = index, Fraction(1, 25)
                container.mux(stream.encode(frame))
        for stream in streams:
            container.mux(stream.encode(None))
    _, pictures, findings = read(path)
    assert (pictures == 80).all()
    assert "holds 2 video streams (64x48, 128x96); the first is used" in findings[0].message


def test_raw_h264_needs_a_timestamp_file(kit: SimpleNamespace, tmp_path: Path) -> None:
    options = {"bf": "2"}
    folder = kit.make_capture(tmp_path / "c", times_s=[np.arange(12) * 0.04] * 3)
    kit.encode(folder / "cam1.h264", steps(12), codec="libx264", pix_fmt="yuv420p", options=options)
    (folder / "cam1.mkv").unlink()
    manifest = json.loads((folder / "capture.json").read_text())
    manifest["cameras"][1]["video"] = "cam1.h264"
    (folder / "capture.json").write_text(json.dumps(manifest))
    with pytest.raises(CaptureError, match=r"cam1\.h264: frame 0 carries no presentation time.*add a timestamp file"):
        ingest(folder)
    manifest["cameras"][1]["timestamps"] = "t.txt"
    (folder / "t.txt").write_text("\n".join(str(0.04 * i) for i in range(12)))
    (folder / "capture.json").write_text(json.dumps(manifest))
    levels = [frame.mean() for frame in ingest(folder).clip("cam1").frames]
    assert levels == pytest.approx([picture.mean() for picture in steps(12)], abs=3)


def hostile_mp4(kit: SimpleNamespace, path: Path, samples: int) -> Path:
    """Claims a number of samples that only a table of gigabytes could index."""
    kit.encode(path, steps(4), codec="libx264", pix_fmt="yuv420p")
    data = bytearray(path.read_bytes())
    at = data.index(b"stsz")
    data[at + 8 : at + 16] = struct.pack(">II", 1, samples)
    at = data.index(b"stsc")
    data[at + 8 : at + 24] = struct.pack(">IIII", 1, 1, samples, 1)
    path.write_bytes(data)
    return path


def test_a_count_of_samples_is_not_believed(kit: SimpleNamespace, tmp_path: Path) -> None:
    path = hostile_mp4(kit, tmp_path / "v.mp4", 40_000_000)
    with pytest.raises(CaptureError, match=r"claims 40000000 samples in \d+ bytes"):
        read(path)


def test_the_boxes_of_sound_files_are_walked(kit: SimpleNamespace, tmp_path: Path) -> None:
    """What writers produce passes: the header behind or before, in fragments, and cut off anywhere."""
    for flags in ("", "faststart", "frag_keyframe+empty_moov"):
        path = tmp_path / f"v{len(flags)}.mp4"
        with av.open(str(path), "w", options={"movflags": flags} if flags else {}) as container:
            stream = container.add_stream("libx264", rate=25)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            for picture in steps(6):
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
            container.mux(stream.encode(None))
        assert len(read(path)[1]) == 6
    data = path.read_bytes()
    for length in range(1, len(data), 97):
        path.write_bytes(data[:length])
        with contextlib.suppress(CaptureError):  # Anything else is a failure.
            read(path)


def test_a_size_beyond_all_cameras_is_refused(kit: SimpleNamespace, tmp_path: Path) -> None:
    path = kit.encode(tmp_path / "v.avi", steps(2), codec="rawvideo", pix_fmt="bgr24")
    data = bytearray(path.read_bytes())
    at = data.index(b"strf") + 12  # The bitmap header's width and height.
    assert struct.unpack("<ii", data[at : at + 8]) in [(64, 48), (64, -48)]
    data[at : at + 8] = struct.pack("<ii", 12000, 12000)
    path.write_bytes(data)
    with pytest.raises(CaptureError, match="holds no picture, or larger ones than the 67108864 pixels"):
        read(path)


def test_an_unknown_codec_is_named(kit: SimpleNamespace, tmp_path: Path) -> None:
    path = kit.encode(tmp_path / "v.avi", steps(2), codec="mjpeg", pix_fmt="yuvj420p")
    path.write_bytes(path.read_bytes().replace(b"MJPG", b"QQQQ"))
    with pytest.raises(CaptureError, match="codec that FFmpeg does not know"):
        read(path)


def test_bytes_that_were_changed_end_in_frames_or_a_refusal(kit: SimpleNamespace, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    h264 = {"codec": "libx264", "pix_fmt": "yuv420p"}
    seeds = [
        kit.encode(tmp_path / "a.mp4", steps(6), **h264),
        kit.encode(tmp_path / "b.mkv", steps(6), **h264),
        kit.encode(tmp_path / "c.avi", steps(6), codec="mjpeg", pix_fmt="yuvj420p"),
        kit.encode(tmp_path / "d.ts", steps(6), **h264),
    ]
    refused = 0
    for round_ in range(400):
        seed = seeds[round_ % len(seeds)]
        data = bytearray(seed.read_bytes())
        for at in rng.integers(0, min(len(data), 3000), 8):
            data[at : at + 4] = rng.choice([0, 0x7F, 0x80, 0xFF], 4).astype(np.uint8).tobytes()
        path = tmp_path / f"changed{seed.suffix}"
        path.write_bytes(data)
        try:
            read(path)
        except CaptureError:
            refused += 1
    assert 0 < refused < 400


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.mp4", "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:9,\nother.mp4\n#EXT-X-ENDLIST\n"),
        ("list.mkv", "ffconcat version 1.0\nfile other.mp4\n"),
        ("list.mov", "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n"),
    ],
)
def test_a_list_of_other_files_is_no_video(kit: SimpleNamespace, tmp_path: Path, name: str, content: str) -> None:
    kit.encode(tmp_path / "other.mp4", steps(3), codec="libx264", pix_fmt="yuv420p")
    (tmp_path / name).write_text(content)
    with pytest.raises(CaptureError, match="no video that can be opened"):
        read(tmp_path / name)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    with pytest.raises(CaptureError, match="is no file"):
        read(tmp_path / "pipe.mp4")


def test_names_with_colons_are_no_addresses(
    kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kit.encode(tmp_path / "v.mkv", steps(3)).rename(tmp_path / "http:%03d.mkv")
    assert len(read(Path("http:%03d.mkv"))[1]) == 3


@pytest.mark.parametrize(("written", "named"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_composed_and_decomposed_names_are_one(kit: SimpleNamespace, tmp_path: Path, written: str, named: str) -> None:
    name = "Kamera Süd é.mkv"

    def edit(manifest: dict) -> None:
        manifest["cameras"][1]["video"] = unicodedata.normalize(named, name)

    folder = kit.make_capture(tmp_path, edit=edit)
    (folder / "cam1.mkv").rename(folder / unicodedata.normalize(written, name))
    assert check(folder) == ()
    assert len(ingest(folder).clip("cam1")) == 8


@pytest.mark.parametrize(
    "name", ["v" * 300 + ".mkv", "a/" * 600 + "v.mkv", "\ud800.mkv", "v\0.mkv"], ids=["name", "path", "half", "zero"]
)
@pytest.mark.parametrize("field", ["video", "timestamps"])
def test_names_that_no_file_can_have_are_refused(kit: SimpleNamespace, tmp_path: Path, name: str, field: str) -> None:
    folder = kit.make_capture(tmp_path, edit=lambda manifest: manifest["cameras"][1].update({field: name}))
    (found,) = [f for f in check(folder) if f.severity == "error"]
    assert found.camera == "cam1"
    assert f"cameras[1].{field}' must be the path of a file inside" in found.message


def test_a_name_of_greatest_length(kit: SimpleNamespace, tmp_path: Path) -> None:
    name = "ж" * 125 + ".mkv"  # 254 bytes.
    folder = kit.make_capture(tmp_path, edit=lambda manifest: manifest["cameras"][1].update(video=name))
    (folder / "cam1.mkv").rename(folder / name)
    assert check(folder) == ()
