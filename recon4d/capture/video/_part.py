"""One stretch of a longer video as a file of its own, without decoding and encoding it again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from av.error import FFmpegError

from recon4d.capture._findings import Finding, Inspection, Subject
from recon4d.capture.video._container import choose_stream, open_video
from recon4d.capture.video._video import presented
from recon4d.errors import CaptureError


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some frames in a row of a longer video."""

    video: Path
    times_s: np.ndarray
    """[F] float64, F > 1: the frames' presentation times in that video."""


def cut(part: Part, target: Path, camera: str) -> None:
    """Writes the part as an MP4 whose first frame is presented at 0 s; its packets are copied as they are.

    Copying begins at the keyframe before the first frame; what that one needs but does not show is hidden by an edit
    list. The result is read once to see that it shows exactly the wanted frames.

    Args:
        part: What to cut out.
        target: The file to write, ``.mp4``.
        camera: Whose video it is, for messages.

    Raises:
        CaptureError: the video cannot be read, or does not hold the frames at those times.
    """
    video = Inspection(_raise).about(camera, part.video.name)
    try:
        _copy(part, target, video)
    except (FFmpegError, ValueError) as error:
        video.error(f"its packets cannot be copied to an MP4 ({error})", "write this part to a file of its own")
    wanted = part.times_s - part.times_s[0]
    shown = np.array([np.nan if t is None else t for t, _ in presented(target, video)])
    quarter_s = np.diff(wanted).min() / 4
    if len(shown) != len(wanted) or not (np.abs(shown - wanted) < quarter_s).all():
        target.unlink()
        said = f"{len(shown)} frames" if len(shown) != len(wanted) else "frames at other times"
        video.error(
            f"shows {said} from {part.times_s[0]:.4f} to {part.times_s[-1]:.4f} s; {len(wanted)} are named there",
            "check the dataset's timestamps against its videos",
        )


def _copy(part: Part, target: Path, video: Subject) -> None:
    with open_video(part.video, video) as source, av.open(f"file:{target}", "w", format="mp4") as sink:
        stream = choose_stream(source, video)
        base = stream.time_base
        assert base is not None  # Every stream of an opened container has one.
        first, last = (round(float(t) / base) for t in part.times_s[[0, -1]])
        margin = round(float(np.diff(part.times_s).min()) / 2 / base)
        # Opaque: the decoder may be of a library that encodes nothing, as AV1's is.
        copied = sink.add_stream_from_template(stream, opaque=True)
        source.seek(first + margin, stream=stream)
        for packet in source.demux(stream):
            if packet.size == 0:
                continue  # It tells a decoder that the end is reached.
            if packet.pts is None or packet.dts is None:
                video.error("has packets without times", "write it as MP4")
            if packet.is_keyframe and packet.pts > last + margin:
                return
            packet.pts, packet.dts = packet.pts - first, packet.dts - first
            packet.stream = copied
            sink.mux(packet)


def _raise(finding: Finding) -> None:
    if finding.severity == "error":
        raise CaptureError(finding.text, camera=finding.camera, file=finding.file)
