"""What a camera's video is, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recon4d.capture._decode import Decoded
from recon4d.capture._survey import Filmed
from recon4d.capture.video import codec_of


@dataclass(frozen=True, kw_only=True)
class CameraFacts:
    """One camera, as ``capture.json`` and its video have it; None where the video could not be read."""

    camera: str
    video: str
    """Path relative to the capture folder."""
    width: int
    height: int
    """Pixels, as the calibration means them."""
    codec: str | None = None
    """Codec and pixel format, such as "h264 yuv420p"."""
    frames: int | None = None
    """How many were decoded."""
    usual_hz: float | None = None
    """One over the median interval between frames."""
    first_s: float | None = None
    last_s: float | None = None
    """Of the first and last frame, on the common clock."""
    brightness: float | None = None
    """Mean level out of 255."""


def facts_of(source: Filmed, decoded: Decoded | None) -> CameraFacts:
    """The facts of one camera, decoded or not."""
    camera = source.entry.camera
    known = CameraFacts(
        camera=camera.name,
        video=source.entry.video,
        width=camera.width,
        height=camera.height,
        codec=codec_of(source.path),
    )
    if decoded is None:
        return known
    times = decoded.times
    return CameraFacts(
        **{
            **vars(known),
            "frames": len(times),
            "usual_hz": 1 / float(np.median(np.diff(times))) if len(times) > 1 else None,
            "first_s": float(times[0]),
            "last_s": float(times[-1]),
            "brightness": decoded.looks.brightness,
        }
    )
