"""Pictures to a film."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter
from av.video.stream import VideoStream

from recon4d.errors import OutputError
from recon4d.files import replacing

_BT709 = 1
"""The number of BT.709 in MP4's and H.264's tables of primaries, transfer and matrix."""


def film(frames: Iterable[np.ndarray], path: Path | str, *, fps: int = 30, crf: int = 20) -> Path:
    """Writes an H.264 MP4 (yuv420p, BT.709, playable while it loads), whole or not at all.

    Args:
        frames: uint8 [H, W, 3] of one size, H and W even.
        path: the file to write; replaced on success only.
        fps: frames per second.
        crf: constant rate factor of H.264: 0 loses nothing, 51 is worst.

    Returns:
        The path.

    Raises:
        OutputError: the file cannot be written or the frames cannot be encoded.
    """
    path = Path(path)
    with replacing(path) as temporary:
        try:
            _encode(frames, temporary, fps, crf)
        except FFmpegError as error:
            raise OutputError(f"cannot encode {path}: {error}") from error
    return path


def _encode(frames: Iterable[np.ndarray], path: Path, fps: int, crf: int) -> None:
    converter = VideoReformatter()
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream: VideoStream | None = None
        for number, frame in enumerate(frames):
            if stream is None:
                stream = container.add_stream("libx264", rate=fps, options={"crf": str(crf)})
                stream.height, stream.width = frame.shape[:2]
                stream.pix_fmt = "yuv420p"
                context = stream.codec_context
                context.color_primaries = context.color_trc = context.colorspace = _BT709
                context.color_range = ColorRange.MPEG
            picture = converter.reformat(
                av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24"),
                format="yuv420p",
                dst_colorspace=Colorspace.ITU709,
                src_color_range=ColorRange.JPEG,
                dst_color_range=ColorRange.MPEG,
            )
            picture.pts, picture.time_base = number, Fraction(1, fps)
            container.mux(stream.encode(picture))
        if stream is not None:
            container.mux(stream.encode())
