"""Encoding a clip."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace

CLOCK_HZ = 90_000
"""Ticks of the container's clock."""
_BT709 = 1
"""Code of primaries, transfer and matrix in the bit stream (ITU-T H.273)."""


def write_video(path: Path, frames: Iterable[np.ndarray], times_s: np.ndarray, *, fps: float, crf: int) -> None:
    """Writes uint8 [H, W, 3] sRGB frames as H.264 with full-resolution colour, tagged BT.709 limited range.

    ``times_s`` become the presentation times, from the first frame's. Chroma is not subsampled: at this resolution that
    would blur the block's edge by more than a reconstruction does. One thread, so that the bytes do not depend on the
    machine's cores.
    """
    ticks = np.round((times_s - times_s[0]) * CLOCK_HZ).astype(int)
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart", "fflags": "+bitexact"}) as container:
        options = {"crf": str(crf), "preset": "slower", "threads": "1"}
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001), options=options)
        context = stream.codec_context
        for i, image in enumerate(frames):
            if i == 0:
                stream.height, stream.width = image.shape[:2]
                stream.pix_fmt = "yuv444p"
                context.time_base = Fraction(1, CLOCK_HZ)
                context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
                context.color_primaries = context.color_trc = _BT709
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(
                format="yuv444p",
                src_colorspace=Colorspace.ITU709,
                dst_colorspace=Colorspace.ITU709,
                src_color_range=ColorRange.JPEG,
                dst_color_range=ColorRange.MPEG,
            )
            frame.pts, frame.time_base = int(ticks[i]), Fraction(1, CLOCK_HZ)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
