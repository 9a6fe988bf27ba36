"""Ten bits, high dynamic range and wide gamuts, against the recommendations' own equations written out here."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest

from recon4d.capture import Finding, frames

BT2020, BT709 = (0.2627, 0.0593), (0.2126, 0.0722)
"""Luma weights of red and blue."""
TO_BT709 = np.array([[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]])
"""Linear BT.2020 to linear BT.709, as printed in ITU-R BT.2087-0."""
P3_TO_BT709 = np.array([[1.22494, -0.22494, 0.0], [-0.04206, 1.04206, 0.0], [-0.01964, -0.07864, 1.09828]])
"""Linear Display P3 to linear sRGB, as CSS Color 4 gives it."""


def codes(height: int = 48, width: int = 64) -> np.ndarray:
    """[H, W, 3] R'G'B' in 0..1: a grey ramp above, then all mixtures of eight levels."""
    ramp = np.broadcast_to(np.linspace(0, 1, width)[None, :, None], (16, width, 3))
    levels = np.linspace(0, 1, 8)
    cube = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), -1).reshape(-1, 3)
    return np.concatenate([ramp, np.resize(cube, ((height - 16) * width, 3)).reshape(height - 16, width, 3)])


def to_yuv10(rgb: np.ndarray, weights: tuple[float, float], full: bool) -> np.ndarray:
    """uint16 [3, H, W] of ten bits."""
    red, blue = weights
    r, g, b = np.moveaxis(rgb, -1, 0)
    y = red * r + (1 - red - blue) * g + blue * b
    cb, cr = (b - y) / (2 * (1 - blue)), (r - y) / (2 * (1 - red))
    luma, chroma, black = (1023, 1023, 0) if full else (876, 896, 64)
    planes = [y * luma + black, cb * chroma + 512, cr * chroma + 512]
    return np.clip(np.stack(planes).round(), 0, 1023).astype(np.uint16)


def from_yuv10(planes: np.ndarray, weights: tuple[float, float], full: bool) -> np.ndarray:
    """[H, W, 3] R'G'B' in 0..1 that the coded numbers stand for."""
    red, blue = weights
    luma, chroma, black = (1023, 1023, 0) if full else (876, 896, 64)
    y, cb, cr = (planes[0] - float(black)) / luma, (planes[1] - 512.0) / chroma, (planes[2] - 512.0) / chroma
    r, b = y + 2 * (1 - red) * cr, y + 2 * (1 - blue) * cb
    return np.clip(np.stack([r, (y - red * r - blue * b) / (1 - red - blue), b], -1), 0, 1)


def write10(path: Path, planes: np.ndarray, **tags: int) -> Path:
    """One lossless frame of 10-bit 4:4:4, exactly these numbers."""
    _, height, width = planes.shape
    frame = av.VideoFrame(width, height, "yuv444p10le")
    for plane, values in zip(frame.planes, planes, strict=True):
        padded = np.zeros((height, plane.line_size // 2), np.uint16)
        padded[:, :width] = values
        plane.update(padded.tobytes())
    frame.pts, frame.time_base = 0, Fraction(1, 25)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv444p10le"
        for key, value in tags.items():
            setattr(stream.codec_context, key, value)
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def read(path: Path) -> tuple[np.ndarray, list[Finding]]:
    findings: list[Finding] = []
    ((_, picture),) = frames(path, on_finding=findings.append)
    return picture.astype(int), findings


def srgb(light: np.ndarray) -> np.ndarray:
    light = np.clip(light, 0, 1)
    return 255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def pq(light: np.ndarray) -> np.ndarray:
    """Code of light in cd/m2 (BT.2100 table 4)."""
    y = (light / 10000) ** 0.1593017578125
    return ((0.8359375 + 18.8515625 * y) / (1 + 18.6875 * y)) ** 78.84375


def pq_inverse(code: np.ndarray) -> np.ndarray:
    e = code ** (1 / 78.84375)
    return 10000 * (np.maximum(e - 0.8359375, 0) / (18.8515625 - 18.6875 * e)) ** (1 / 0.1593017578125)


def tone_mapped(light: np.ndarray) -> np.ndarray:
    """[H, W, 3] cd/m2 of a display of 1000 to one of 203, by the largest component (BT.2390 5.4.1)."""
    largest = light.max(-1, keepdims=True)
    top, white = pq(np.array(1000.0)), pq(np.array(203.0))
    e1 = np.minimum(pq(largest) / top, 1)
    peak = white / top
    knee = 1.5 * peak - 0.5
    t = (e1 - knee) / (1 - knee)
    e2 = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (-2 * t**3 + 3 * t**2) * peak
    target = pq_inverse(np.where(e1 < knee, e1, e2) * top)
    return light * target / np.maximum(largest, 1e-9)


def hlg_light(rgb: np.ndarray) -> np.ndarray:
    """Display light in cd/m2 of HLG codes on a display of 1000 (BT.2100 table 5)."""
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    scene = np.where(rgb <= 0.5, rgb**2 / 3, (np.exp((rgb - c) / a) + b) / 12)
    return 1000 * (scene @ [0.2627, 0.6780, 0.0593])[..., None] ** 0.2 * scene


@pytest.mark.parametrize("full", [False, True], ids=["limited", "full"])
def test_ten_bits_are_rounded_not_cut(tmp_path: Path, full: bool) -> None:
    planes = to_yuv10(codes(), BT709, full)
    picture, findings = read(write10(tmp_path / "v.mkv", planes, colorspace=1, color_range=2 if full else 1))
    error = picture - 255 * from_yuv10(planes, BT709, full)
    assert not findings
    # Measured 0.51 limited; 1.26 full, which FFmpeg takes to end at 1020. Cutting two bits off would bias it by -0.4.
    assert np.abs(error).max() <= (1.3 if full else 0.6)
    assert -0.1 < error.mean() < 0.5


@pytest.mark.parametrize(("transfer", "name"), [(16, "PQ"), (18, "HLG")], ids=["PQ", "HLG"])
@pytest.mark.parametrize("full", [False, True], ids=["limited", "full"])
def test_high_dynamic_range_is_tone_mapped(tmp_path: Path, transfer: int, name: str, full: bool) -> None:
    planes = to_yuv10(codes(), BT2020, full)
    tags = {"colorspace": 9, "color_primaries": 9, "color_trc": transfer, "color_range": 2 if full else 1}
    picture, findings = read(write10(tmp_path / "v.mkv", planes, **tags))
    rgb = from_yuv10(planes, BT2020, full)
    light = pq_inverse(rgb) if name == "PQ" else hlg_light(rgb)
    expected = srgb(tone_mapped(light) / 203 @ TO_BT709.T)
    assert np.abs(picture - expected).max() <= 1.0
    (warning,) = findings
    assert warning.severity == "warning"
    assert f"high dynamic range ({name}, BT.2020)" in warning.message


def test_the_anchors_of_the_tone_curve(tmp_path: Path) -> None:
    """Black stays black, the white of HDR video becomes light grey, 1000 cd/m2 and more become white; order is kept."""
    levels = np.array([0.0, 26.0, 203.0, 1000.0, 4000.0])
    planes = to_yuv10(np.repeat(np.repeat(pq(levels)[None, :, None], 16, 1), 3, 2).repeat(16, 0), BT2020, False)
    picture, _ = read(write10(tmp_path / "v.mkv", planes, colorspace=9, color_primaries=9, color_trc=16, color_range=1))
    black, grey, white, top, beyond = picture[8, 8::16, 1]
    assert (black, top, beyond) == (0, 255, 255)
    assert abs(grey - srgb(np.array(26 / 203))) <= 1  # Below the knee nothing changes.
    assert 220 <= white <= 235


def test_untagged_primaries_of_high_dynamic_range_are_wide(tmp_path: Path) -> None:
    planes = to_yuv10(codes(), BT2020, False)
    tagged, _ = read(write10(tmp_path / "a.mkv", planes, colorspace=9, color_primaries=9, color_trc=18, color_range=1))
    bare, _ = read(write10(tmp_path / "b.mkv", planes, color_trc=18, color_range=1))
    assert np.array_equal(tagged, bare)


@pytest.mark.parametrize(
    ("tags", "weights", "matrix", "name"),
    [
        ({"colorspace": 9, "color_primaries": 9, "color_trc": 14}, BT2020, TO_BT709, "BT.2020"),
        ({"colorspace": 9}, BT2020, TO_BT709, "BT.2020"),
        ({"colorspace": 1, "color_primaries": 12, "color_trc": 1}, BT709, P3_TO_BT709, "P3-D65"),
    ],
    ids=["bt2020", "matrix alone", "p3"],
)
def test_wide_gamuts_are_brought_to_srgb(
    tmp_path: Path, tags: dict[str, int], weights: tuple[float, float], matrix: np.ndarray, name: str
) -> None:
    planes = to_yuv10(codes(), weights, False)
    picture, findings = read(write10(tmp_path / "v.mkv", planes, color_range=1, **tags))
    rgb = from_yuv10(planes, weights, False)
    light = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    assert np.abs(picture - srgb(light @ matrix.T)).max() <= 1.0
    grey = picture[:16]
    assert np.ptp(grey, axis=-1).max() <= 1
    (note,) = findings
    assert note.severity == "note"
    assert name in note.message


def test_ten_bit_hevc_of_a_phone(kit: SimpleNamespace, tmp_path: Path) -> None:
    """HLG in HEVC Main 10 with subsampled chroma, in a MOV: the greys come out as the equations say."""
    ramp = codes()[:16].repeat(3, 0)
    planes = to_yuv10(ramp, BT2020, False)
    frame = av.VideoFrame(64, 48, "yuv444p10le")
    for plane, values in zip(frame.planes, planes, strict=True):
        padded = np.zeros((48, plane.line_size // 2), np.uint16)
        padded[:, :64] = values
        plane.update(padded.tobytes())
    path = tmp_path / "IMG_0001.MOV"
    with av.open(str(path), "w", format="mov") as container:
        stream = container.add_stream("libx265", rate=30, options={"x265-params": "log-level=none:crf=1"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p10le"
        context = stream.codec_context
        context.colorspace, context.color_primaries, context.color_trc, context.color_range = 9, 9, 18, 1
        for index in range(3):
            picture = frame.reformat(format="yuv420p10le", threads=1)
            picture.pts, picture.time_base = index, Fraction(1, 30)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    findings: list[Finding] = []
    pictures = [picture for _, picture in frames(path, on_finding=findings.append)]
    assert len(pictures) == 3
    assert [f.severity for f in findings] == ["warning"]
    expected = srgb(tone_mapped(hlg_light(ramp)) / 203 @ TO_BT709.T)
    assert np.abs(pictures[1].astype(int) - expected).max() <= 4  # Of HEVC's own loss at dark codes.
