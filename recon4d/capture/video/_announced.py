"""What a container says of its video, for display and for choosing frames; what counts is what gets decoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from av.error import FFmpegError

from recon4d.capture._findings import Inspection
from recon4d.capture.video._container import choose_stream, open_video, seconds


def announced_times(path: Path) -> np.ndarray | None:
    """[F] seconds at which frames are to be presented, without decoding; None when nobody says."""
    quiet = Inspection(lambda finding: None)
    with quiet.part():
        try:
            with open_video(path, quiet.about(None, None)) as container:
                stream = choose_stream(container, quiet.about(None, None))
                shown = (p for p in container.demux(stream) if p.size and not p.is_discard and p.pts is not None)
                times = [seconds(packet.pts, stream) for packet in shown if packet.pts is not None]
                return np.sort(times) if times else None
        except FFmpegError:
            return None
    return None


def codec_of(path: Path) -> str | None:
    """Codec and pixel format, such as "h264 yuv420p"; None when the file holds no video."""
    quiet = Inspection(lambda finding: None)
    with quiet.part(), open_video(path, quiet.about(None, None)) as container:
        context = choose_stream(container, quiet.about(None, None)).codec_context
        return f"{context.name} {context.pix_fmt or ''}".strip()
    return None
