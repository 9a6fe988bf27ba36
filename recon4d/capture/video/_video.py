"""Decoding: every frame of a video in order of presentation, as sRGB, with the time it is presented at."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from fractions import Fraction
from pathlib import Path

import av.container
import av.video.stream
import numpy as np
from av.error import FFmpegError
from av.video.frame import VideoFrame

from recon4d.capture._findings import Finding, Inspection, Subject
from recon4d.capture.video._colour import Colour
from recon4d.capture.video._container import choose_stream, open_video, promised_end, seconds
from recon4d.capture.video._deinterlace import deinterlaced
from recon4d.capture.video._upright import Upright
from recon4d.types import Camera

_MOST_SHOWN = 0.9
"""Of the packets of a container that declares no count: some codecs have a few that show nothing."""


def frames(
    video: Path | str, *, camera: str = "", on_finding: Callable[[Finding], None] | None = None
) -> Generator[tuple[float | None, np.ndarray], None, None]:
    """Every frame of one video to its end, as ``ingest`` reads it but neither undistorted nor on a common clock.

    Args:
        video: The file.
        camera: Its name, for messages.
        on_finding: Gets warnings and notes; they are dropped when None.

    Yields:
        Presentation time in seconds (None where the container has none) and uint8 [H, W, 3] sRGB, turned upright.
        Pixels that are not square stay as they are stored.

    Raises:
        CaptureError: the video cannot be read to its end.
    """

    def refuse(finding: Finding) -> None:
        if finding.severity == "error":
            raise finding.as_error()
        if on_finding is not None:
            on_finding(finding)

    video = Path(video)
    yield from decode(video, Inspection(refuse).about(camera or None, video.name))


def decode(
    path: Path, video: Subject, camera: Camera | None = None
) -> Generator[tuple[float | None, np.ndarray], None, None]:
    """Yields (presentation time in seconds or None, uint8 [H, W, 3] sRGB) of every frame, to the end.

    Args:
        path: The file.
        video: Where findings go to.
        camera: The calibrated camera, whose size every picture must have; None when any size will do.
    """
    with open_video(path, video) as container:
        stream = choose_stream(container, video)
        colour, upright = Colour(video), Upright(_aspect(stream), camera, video)
        for time_s, frame in deinterlaced(_decoded(container, stream, video), video):
            matrix = frame.side_data.get("DISPLAYMATRIX")
            yield time_s, upright(colour(frame), None if matrix is None else bytes(matrix))


def presented(path: Path, video: Subject) -> Iterator[tuple[float | None, VideoFrame]]:
    """As ``decode``, but the frames as they are stored."""
    with open_video(path, video) as container:
        yield from _decoded(container, choose_stream(container, video), video)


def _decoded(
    container: av.container.InputContainer, stream: av.video.stream.VideoStream, video: Subject
) -> Iterator[tuple[float | None, VideoFrame]]:
    """Every frame as the decoder gives it. The stream must keep what its header promises."""
    packets, hidden, count = 0, 0, 0
    first_s, last_s = None, 0.0
    try:
        for packet in container.demux(stream):
            packets += packet.size > 0
            hidden += packet.size > 0 and packet.is_discard
            for frame in packet.decode():
                if frame.is_corrupt:
                    video.error(f"frame {count} is damaged", "copy or upload the video again")
                time_s = None if frame.pts is None else seconds(frame.pts, stream)
                if time_s is not None:
                    first_s, last_s = time_s if first_s is None else first_s, time_s
                yield time_s, frame
                count += 1
    except FFmpegError as error:
        video.error(
            f"decoding stops after {count} frames ({error.strerror or error})", "copy or upload the video again"
        )
    if count == 0:
        video.error("holds no frame that decodes", "copy or upload the video again")
    # A file that was cut off decodes without an error up to the cut: compare with what its header promises. A trimmed
    # MP4 keeps frames that an edit list hides, so a lower count alone is no damage.
    step_s = (last_s - (first_s or 0.0)) / max(count - 1, 1)
    promised_s = promised_end(container, stream)
    short = promised_s is not None and last_s + step_s < promised_s - max(0.05, 1.5 * step_s)
    if short and (stream.frames == 0 or packets < stream.frames):
        of = f" of {stream.frames}" if stream.frames else ""
        video.error(
            f"ends after {count}{of} frames at {last_s:.3f} s; its header promises {promised_s:.3f} s",
            "it was cut off; copy or upload it again",
        )
    if hidden:
        video.note(f"an edit list hides {hidden} of {packets} frames; the {count} that it shows are used")
    _compare_counts(stream.frames, packets, hidden, count, video)


def _compare_counts(declared: int, packets: int, hidden: int, count: int, video: Subject) -> None:
    """Says when not all that the container holds decodes, or when it holds another number than it declares."""
    held = packets - hidden
    if count < (held if declared else _MOST_SHOWN * held):
        video.warn(
            f"holds {held} frames, of which {count} decode",
            "those are used; check that none was lost when it was recorded or converted",
        )
    elif declared not in (0, packets):
        video.note(f"its header declares {declared} frames; it holds {packets}, which are used")


def _aspect(stream: av.video.stream.VideoStream) -> Fraction:
    """Width of a stored pixel over its height: what the container says, else the codec; 1 when nobody does."""
    return stream.sample_aspect_ratio or stream.codec_context.sample_aspect_ratio or Fraction(1)
