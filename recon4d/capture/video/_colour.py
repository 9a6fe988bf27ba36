"""Decoded frames to display-referred sRGB, as the stream's colour tags say (numbers of ITU-T H.273)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from recon4d.capture._findings import Subject
from recon4d.capture.video._tone import PEAK_CD_M2, WHITE_CD_M2, Curves, Transfer, curves


@dataclass(frozen=True)
class _Matrix:
    """Matrix coefficients: FFmpeg's name for them, and the luma weights of red and blue."""

    name: Colorspace
    red: float
    blue: float

    @property
    def to_rgb(self) -> np.ndarray:
        """[3, 3]: R'G'B' of Y' in 0..1 and Cb, Cr in -0.5..0.5."""
        r, b = 2 * (1 - self.red), 2 * (1 - self.blue)
        g = 1 - self.red - self.blue
        return np.array([[1, 0, r], [1, -self.blue * b / g, -self.red * r / g], [1, b, 0]])


_BT601, _BT709 = _Matrix(Colorspace.ITU601, 0.299, 0.114), _Matrix(Colorspace.ITU709, 0.2126, 0.0722)
_MATRIX = {
    1: _BT709,
    4: _Matrix(Colorspace.FCC, 0.30, 0.11),
    5: _BT601,
    6: _BT601,
    7: _Matrix(Colorspace.SMPTE240M, 0.212, 0.087),
    9: _Matrix(Colorspace.BT2020, 0.2627, 0.0593),
}
_UNSPECIFIED = (0, 2, 3)
_BT2020 = 9
_WIDE = {9: "BT.2020", 12: "P3-D65"}
"""Colour primaries whose gamut is wider than sRGB's; the others are read as sRGB's."""
_HDR: dict[int, Transfer] = {16: "PQ", 18: "HLG"}
_FULL_RANGE = 2
_HD_ROWS = 720


class Colour:
    """YUV to sRGB with the stream's own matrix, range, transfer function and primaries.

    An untagged stream is read as players do: BT.601 below 720 rows, BT.709 from there on, limited range unless the
    pixel format says full. What is neither high dynamic range nor of a wide gamut keeps its R'G'B' as it is. The
    converter is set up once per video.
    """

    def __init__(self, video: Subject) -> None:
        self._video = video
        self._reformatter = VideoReformatter()
        self._said: set[str] = set()

    def __call__(self, frame: VideoFrame) -> np.ndarray:
        """uint8 [H, W, 3]."""
        matrix = self._matrix(frame)
        full = int(frame.color_range) == _FULL_RANGE or frame.format.name.startswith("yuvj")
        transfer, primaries = _HDR.get(int(frame.color_trc), "SDR"), _primaries(frame)
        if transfer == "SDR" and primaries == "BT.709":
            return self._reformat(frame, "rgb24", matrix, full, ColorRange.JPEG).to_ndarray()
        self._tell(transfer, primaries)
        kept = ColorRange.JPEG if full else ColorRange.MPEG
        yuv = self._reformat(frame, "yuv444p16le", matrix, full, kept).to_ndarray()
        return _to_srgb(yuv, matrix, frame.format.components[0].bits if full else None, curves(transfer, primaries))

    def _matrix(self, frame: VideoFrame) -> _Matrix:
        number = int(frame.colorspace)
        if number in _MATRIX:
            return _MATRIX[number]
        if number not in _UNSPECIFIED:
            self._video.error(
                f"has the colour matrix {number} (ITU-T H.273), which is not supported",
                "convert it to BT.709, BT.601 or BT.2020",
            )
        if int(frame.color_trc) in _HDR:
            return _MATRIX[_BT2020]
        return _BT601 if frame.height < _HD_ROWS else _BT709

    def _reformat(self, frame: VideoFrame, format: str, matrix: _Matrix, full: bool, target: ColorRange) -> VideoFrame:
        return self._reformatter.reformat(
            frame,
            format=format,
            src_colorspace=matrix.name,
            dst_colorspace=matrix.name,
            src_color_range=ColorRange.JPEG if full else ColorRange.MPEG,
            dst_color_range=target,
            threads=1,  # Slices of several threads overwrite each other's first pixels where rows have odd lengths.
        )

    def _tell(self, transfer: Transfer, primaries: str) -> None:
        if (transfer + primaries) in self._said:
            return
        self._said.add(transfer + primaries)
        if transfer == "SDR":
            self._video.note(
                f"has the primaries of {primaries}; its colours are converted to sRGB's, the widest clipped"
            )
        else:
            self._video.warn(
                f"is high dynamic range ({transfer}, {primaries}); it is mapped to sRGB by the curve of ITU-R BT.2390,"
                f" from {PEAK_CD_M2:.0f} to {WHITE_CD_M2:.0f} cd/m2",
                "film in SDR: phones grade HDR frame by frame, and highlights lose their differences",
            )


def _primaries(frame: VideoFrame) -> str:
    """Primaries by their tag; untagged, those that belong to high dynamic range or to the matrix of BT.2020."""
    number = int(frame.color_primaries)
    if number in _UNSPECIFIED and (int(frame.color_trc) in _HDR or int(frame.colorspace) == _BT2020):
        return _WIDE[_BT2020]
    return _WIDE.get(number, "BT.709")


def _to_srgb(yuv: np.ndarray, matrix: _Matrix, full_bits: int | None, curves: Curves) -> np.ndarray:
    """uint8 [H, W, 3] of uint16 [H, W, 3]; ``full_bits`` is the depth of full range, None for limited range."""
    from recon4d.capture.video._tone_kernels import to_srgb  # Importing Numba takes half a second.

    if full_bits is None:
        scale, offset = np.array([219, 224, 224]) * 256, np.array([16, 128, 128]) * 256
    else:
        # FFmpeg widens full-range luma by repeating its bits, and chroma by zeros.
        chroma = (2**full_bits - 1) << (16 - full_bits)
        scale, offset = np.array([65535, chroma, chroma]), np.array([0, 32768, 32768])
    hlg = np.array([curves.system_gamma - 1, curves.scale, WHITE_CD_M2 / 10000, *curves.luma], np.float32)
    return to_srgb(
        yuv,
        (matrix.to_rgb / scale).astype(np.float32),
        offset.astype(np.float32),
        curves.light,
        hlg,
        curves.gain,
        curves.to_bt709,
        curves.code,
    )
