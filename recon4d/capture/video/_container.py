"""Opening a video: which kinds of file are let in, which stream is meant, where it should end.

Captures are uploaded by strangers too. So only containers that hold their pictures themselves are opened, never
playlists that name other files; and a header is not believed where believing it costs memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import av
import av.container
import av.stream
import av.video.stream
from av.error import FFmpegError

from recon4d.capture._findings import Subject

MAX_PIXELS = 2**26
"""Of one picture: 8192x8192. A header of a few bytes can claim gigabytes."""

_CONTAINERS = (
    "mov", "matroska", "avi", "mpegts", "mpeg", "mxf", "asf", "flv", "ogg", "nut", "dv", "ivf", "obu", "wtv",
    "h264", "hevc", "vvc", "av1", "m4v", "mpegvideo", "mjpeg", "yuv4mpegpipe",
)  # fmt: skip
_OPTIONS = {
    "format_whitelist": ",".join(_CONTAINERS),
    "protocol_whitelist": "file",
    "max_pixels": str(MAX_PIXELS),
}
_DURATION = re.compile(r"(\d{1,6}):(\d\d):(\d\d(?:\.\d+)?)\0*")
"""How Matroska's writers tag a track's length: hours, minutes, seconds."""
_BOXES = (b"moov", b"trak", b"mdia", b"minf", b"stbl")
"""On the way to an MP4's sample sizes (ISO/IEC 14496-12)."""


def open_video(path: Path, video: Subject) -> av.container.InputContainer:
    """Opens the file, or refuses what is missing, empty, damaged, of another kind, or out to take all memory."""
    try:
        if not path.exists():
            video.error("the video file is missing", "add it, or correct 'video' in capture.json")
        if not path.is_file():
            video.error("is no file", "give the path of a video file")
        size = path.stat().st_size
        if size == 0:
            video.error("the video file is empty", "copy or upload it again")
        claimed = _claimed_samples(path)
        if claimed > size:
            video.error(f"claims {claimed} samples in {size} bytes", "it is damaged; copy or upload it again")
        return av.open(f"file:{path}", options=_OPTIONS, metadata_errors="replace")
    except (FFmpegError, OSError) as error:
        video.error(
            f"is no video that can be opened ({error.strerror or error})",
            "it is damaged, was cut off while copied, or is no video; copy or upload it again",
        )


def choose_stream(container: av.container.InputContainer, video: Subject) -> av.video.stream.VideoStream:
    """The first stream of moving pictures, with its decoder set up; cover pictures are no video."""
    cover = av.stream.Disposition.attached_pic
    moving = [s for s in container.streams.video if not s.disposition & cover]
    if not moving:
        kinds = sorted({s.type for s in container.streams})
        if not kinds:
            video.error(
                "holds nothing that plays", "it was cut off while copied, or is damaged; copy or upload it again"
            )
        video.error(f"holds no video stream; it holds {', '.join(kinds)}", "give the video file")
    streams = [s for s in moving if s.codec_context is not None]
    if not streams:
        video.error("is in a codec that FFmpeg does not know here", "convert it to H.264, HEVC or AV1")
    if len(streams) > 1:
        sizes = ", ".join(f"{s.width}x{s.height}" for s in streams)
        video.warn(
            f"holds {len(streams)} video streams ({sizes}); the first is used",
            "write the one that is meant to a file of its own if it is another",
        )
    stream = streams[0]
    if not 0 < stream.width * stream.height <= MAX_PIXELS:  # Beyond the limit the size is read as 0.
        video.error(
            f"holds no picture, or larger ones than the {MAX_PIXELS} pixels that are decoded",
            "it is damaged, or must be scaled down",
        )
    stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
    stream.thread_type = "AUTO"
    return stream


def seconds(ticks: int, stream: av.video.stream.VideoStream) -> float:
    """A time of a stream in seconds."""
    base = stream.time_base
    assert base is not None  # Every stream of an opened container has one.
    return ticks * base.numerator / base.denominator


def promised_end(container: av.container.InputContainer, stream: av.video.stream.VideoStream) -> float | None:
    """Where the video should end, on the clock of its presentation times; None when nobody says."""
    start_s = 0.0 if stream.start_time is None else seconds(stream.start_time, stream)
    matroska = _DURATION.fullmatch(stream.metadata.get("DURATION", ""))  # Measured from zero.
    if matroska is not None:
        hours, minutes, rest = map(float, matroska.groups())
        return 3600 * hours + 60 * minutes + rest
    if stream.duration is not None:
        return start_s + seconds(stream.duration, stream)
    if container.duration is not None and not container.streams.audio:
        return start_s + container.duration / av.time_base
    return None


def announced_frames(path: Path) -> int:
    """How many frames the container claims; 0 when it does not say or cannot be opened. For progress only."""
    try:
        if not path.is_file() or _claimed_samples(path) > path.stat().st_size:
            return 0
        with av.open(f"file:{path}", options=_OPTIONS, metadata_errors="replace") as container:
            return int(container.streams.video[0].frames) if container.streams.video else 0
    except (FFmpegError, OSError):
        return 0


def _claimed_samples(path: Path) -> int:
    """The largest number of samples that a track of an MP4 claims, each of which takes a byte at least; else 0.

    The demuxer makes an index of as many entries before it looks at any of them.
    """
    with path.open("rb") as file:
        head = file.read(12)
        if head[4:8] not in (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"):
            return 0
        return max(_sample_counts(file, 0, path.stat().st_size), default=0)


def _sample_counts(file: BinaryIO, at: int, end: int) -> Iterator[int]:
    """Sample counts of the boxes ``stsz`` in a span of the file, however deep they lie in known boxes."""
    while at + 8 <= end:
        file.seek(at)
        head = file.read(20)
        length, kind = int.from_bytes(head[:4], "big"), head[4:8]
        body = at + 8
        if length == 1:  # The length follows, with 64 bits.
            length, body = int.from_bytes(head[8:16], "big"), at + 16
        stop = min(at + length, end) if length else end
        if kind == b"stsz":
            yield int.from_bytes(head[16:20], "big")
        elif kind in _BOXES:
            yield from _sample_counts(file, body, stop)
        if stop <= at + 7:
            return  # Damaged: no box is shorter than its head.
        at = stop
