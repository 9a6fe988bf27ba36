"""Decoding: every frame of a video in order of presentation, as RGB, with the time it is presented at."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import NoReturn

import av
import av.container
import av.stream
import av.video.frame
import av.video.stream
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from recon4d.capture._findings import Finding, Inspection

# Numbers of ITU-T H.273: matrix coefficients, and the transfer functions of high dynamic range.
_MATRIX = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    5: Colorspace.ITU601,
    6: Colorspace.ITU601,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
}
_UNSPECIFIED_MATRIX = (0, 2, 3)
_HDR = {16: "PQ", 18: "HLG"}
_FULL_RANGE = 2
_HD_ROWS = 720
_QUARTER_TURNS = {(1, 0, 0, 1): 0, (0, -1, 1, 0): 1, (-1, 0, 0, -1): 2, (0, 1, -1, 0): 3}
"""A display matrix's linear part to counter-clockwise quarter turns."""


def announced_frames(path: Path) -> int:
    """How many frames the container claims; 0 when it does not say or cannot be opened. For progress only."""
    try:
        with av.open(str(path)) as container:
            return int(container.streams.video[0].frames) if container.streams.video else 0
    except (FFmpegError, OSError):
        return 0


def frames(
    video: Path | str, *, camera: str = "", on_finding: Callable[[Finding], None] | None = None
) -> Generator[tuple[float | None, np.ndarray], None, None]:
    """Every frame of one video to its end, as ``ingest`` reads it but neither undistorted nor on a common clock.

    Args:
        video: The file.
        camera: Its name, for messages.
        on_finding: Gets warnings and notes; they are dropped when None.

    Yields:
        Presentation time in seconds (None where the container has none) and uint8 [H, W, 3] RGB, turned upright.

    Raises:
        CaptureError: the video cannot be read to its end.
    """

    def refuse(finding: Finding) -> None:
        if finding.severity == "error":
            raise finding.as_error()
        if on_finding is not None:
            on_finding(finding)

    video = Path(video)
    yield from decode(video, camera, video.name, Inspection(refuse))


def decode(
    path: Path, camera: str, file: str, inspection: Inspection
) -> Generator[tuple[float | None, np.ndarray], None, None]:
    """Yields (presentation time in seconds or None, uint8 [H, W, 3] RGB) of every frame, to the end.

    Frames are turned upright as the display matrix says. The colour matrix is the one the stream is tagged with;
    an untagged stream is read as players do: BT.601 below 720 rows, BT.709 from there on, limited range unless
    the pixel format says full.
    """
    reader = _Reader(camera, file, inspection)
    with reader.open(path) as container:
        stream = reader.stream(container)
        yield from reader.frames(container, stream)


class _Reader:
    """One pass over one video; where its complaints go to is bound once."""

    def __init__(self, camera: str, file: str, inspection: Inspection) -> None:
        self._camera = camera
        self._file = file
        self._inspection = inspection
        self._colour = _Colour()

    def open(self, path: Path) -> av.container.InputContainer:
        if not path.exists():
            self._error("the video file is missing", "add it, or correct 'video' in capture.json")
        if path.stat().st_size == 0:
            self._error("the video file is empty", "copy or upload it again")
        try:
            return av.open(str(path))
        except (FFmpegError, OSError) as error:
            self._error(
                f"is no video that can be opened ({error.strerror or error})",
                "it is damaged or was cut off while copied; copy or upload it again",
            )

    def stream(self, container: av.container.InputContainer) -> av.video.stream.VideoStream:
        cover = av.stream.Disposition.attached_pic
        streams = [s for s in container.streams.video if not s.disposition & cover]
        if not streams:
            kinds = sorted({s.type for s in container.streams}) or ["nothing"]
            self._error(f"holds no video stream; it holds {', '.join(kinds)}", "give the video file")
        if len(streams) > 1:
            self._warn(f"holds {len(streams)} video streams; the first is used")
        stream = streams[0]
        stream.thread_type = "AUTO"
        return stream

    def frames(
        self, container: av.container.InputContainer, stream: av.video.stream.VideoStream
    ) -> Generator[tuple[float | None, np.ndarray], None, None]:
        packets, count, first_s, last_s = 0, 0, None, 0.0
        try:
            for packet in container.demux(stream):
                packets += packet.size > 0
                for frame in packet.decode():
                    if frame.is_corrupt:
                        self._error(f"frame {count} is damaged", "copy or upload the video again")
                    if count == 0:
                        self._first(frame)
                    time_s = None if frame.pts is None else _seconds(frame.pts, stream)
                    if time_s is not None:
                        first_s, last_s = time_s if first_s is None else first_s, time_s
                    yield time_s, self._upright(frame)
                    count += 1
        except FFmpegError as error:
            self._error(
                f"decoding stops after {count} frames ({error.strerror or error})", "copy or upload the video again"
            )
        if count == 0:
            self._error("holds no frame that decodes", "copy or upload the video again")
        step_s = (last_s - (first_s or 0.0)) / max(count - 1, 1)
        promised_s = _promised_end(container, stream)
        # A file that was cut off decodes without an error up to the cut: compare with what its header promises.
        # A trimmed MP4 keeps frames that an edit list hides, so a lower count alone is no damage.
        short = promised_s is not None and last_s + step_s < promised_s - max(0.05, 1.5 * step_s)
        if short and (stream.frames == 0 or packets < stream.frames):
            of = f" of {stream.frames}" if stream.frames else ""
            self._error(
                f"ends after {count}{of} frames at {last_s:.3f} s; its header promises {promised_s:.3f} s",
                "it was cut off; copy or upload it again",
            )

    def _first(self, frame: av.video.frame.VideoFrame) -> None:
        """Refuses what cannot be shown as display-referred SDR colour."""
        if frame.color_trc in _HDR:
            self._error(
                f"is high dynamic range ({_HDR[frame.color_trc]}), which is not display-referred sRGB",
                "convert it to SDR (BT.709) first",
            )
        matrix = int(frame.colorspace)
        if matrix not in _MATRIX and matrix not in _UNSPECIFIED_MATRIX:
            self._error(
                f"has the colour matrix {matrix} (ITU-T H.273), which is not supported",
                "convert it to BT.709, BT.601 or BT.2020",
            )
        if matrix == 9:
            self._warn("is BT.2020; its matrix is undone, its wider primaries are read as sRGB's")
        if frame.interlaced_frame:
            self._warn("is interlaced: moving edges are combed", "deinterlace it first")

    def _upright(self, frame: av.video.frame.VideoFrame) -> np.ndarray:
        rgb = self._colour(frame)
        matrix = frame.side_data.get("DISPLAYMATRIX")
        if matrix is None:
            return rgb
        # Nine 32-bit numbers, the first two columns with 16 fractional bits; the picture's axes map by a, b, c, d.
        linear = np.frombuffer(bytes(matrix), np.int32)[[0, 1, 3, 4]] / 65536
        turns = _QUARTER_TURNS.get(tuple(linear.tolist()))
        if turns is None:
            self._error(
                f"is to be shown mirrored or turned at an angle (display matrix {linear.tolist()})",
                "only quarter turns are supported; write the video again without it",
            )
        return np.ascontiguousarray(np.rot90(rgb, turns)) if turns else rgb

    def _error(self, message: str, advice: str = "") -> NoReturn:
        self._inspection.error(message, advice, camera=self._camera, file=self._file)

    def _warn(self, message: str, advice: str = "") -> None:
        self._inspection.warn(message, advice, camera=self._camera, file=self._file)


class _Colour:
    """YUV to RGB with the stream's own matrix and range; the converter is set up once per video."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def __call__(self, frame: av.video.frame.VideoFrame) -> np.ndarray:
        default = Colorspace.ITU601 if frame.height < _HD_ROWS else Colorspace.ITU709
        matrix = _MATRIX.get(int(frame.colorspace), default)
        full = int(frame.color_range) == _FULL_RANGE or frame.format.name.startswith("yuvj")
        rgb = self._reformatter.reformat(
            frame,
            format="rgb24",
            src_colorspace=matrix,
            dst_colorspace=matrix,
            src_color_range=ColorRange.JPEG if full else ColorRange.MPEG,
            dst_color_range=ColorRange.JPEG,
        )
        return rgb.to_ndarray()


def _seconds(ticks: int, stream: av.video.stream.VideoStream) -> float:
    base = stream.time_base
    assert base is not None  # Every stream of an opened container has one.
    return ticks * base.numerator / base.denominator


def _promised_end(container: av.container.InputContainer, stream: av.video.stream.VideoStream) -> float | None:
    """Where the video should end, on the clock of its presentation times; None when nobody says."""
    start_s = 0.0 if stream.start_time is None else _seconds(stream.start_time, stream)
    if "DURATION" in stream.metadata:  # Matroska: hours:minutes:seconds, measured from zero.
        hours, minutes, seconds = stream.metadata["DURATION"].split(":")
        return 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    if stream.duration is not None:
        return start_s + _seconds(stream.duration, stream)
    if container.duration is not None and not container.streams.audio:
        return start_s + container.duration / av.time_base
    return None
