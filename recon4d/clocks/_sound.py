"""A video's sound as samples on the container's clock."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from pathlib import Path

import av
import numpy as np
from av.error import FFmpegError
from scipy import signal

from recon4d.errors import CaptureError

RATE_HZ = 16_000
_GAP_S = 5e-3
"""A larger step of the presentation times is a gap in the sound."""


@dataclass(frozen=True, kw_only=True)
class Sound:
    """One channel at ``RATE_HZ``."""

    start_s: float
    """When the first sample is presented."""
    samples: np.ndarray
    """[N] float32."""


def listen(video: Path, camera: str) -> Sound | None:
    """The first audio stream, channels averaged; None where there is none.

    Samples are placed by their presentation times, so an encoder's delay, which the container states, is no offset.
    Within what is continuous the samples themselves count, as some containers round times to milliseconds.

    Raises:
        CaptureError: the stream cannot be decoded.
    """
    pieces: list[tuple[float, np.ndarray]] = []
    rate, end_s = 0, -np.inf
    try:
        with av.open(str(video)) as container:
            if not container.streams.audio:
                return None
            resampler: av.AudioResampler | None = None
            for frame in container.decode(container.streams.audio[0]):
                rate = frame.sample_rate
                resampler = resampler or av.AudioResampler(format="flt", layout=frame.layout, rate=rate)
                if frame.pts is None or frame.time_base is None:
                    raise CaptureError("its sound carries no presentation times", camera=camera, file=video.name)
                due_s = float(frame.pts * frame.time_base)
                start_s = due_s if abs(due_s - end_s) > _GAP_S else end_s
                for plain in resampler.resample(frame):
                    values = plain.to_ndarray().reshape(-1, len(plain.layout.channels)).mean(1)
                    pieces.append((start_s, values))
                    start_s += len(values) / rate
                end_s = start_s
    except (FFmpegError, OSError) as error:
        raise CaptureError(f"its sound cannot be decoded ({error})", camera=camera, file=video.name) from error
    if not pieces:
        return None
    start_s = pieces[0][0]
    whole = np.zeros(max(round((at - start_s) * rate) + len(values) for at, values in pieces), np.float32)
    for at, values in pieces:
        first = max(round((at - start_s) * rate), 0)
        whole[first : first + len(values)] = values[: len(whole) - first]
    common = gcd(rate, RATE_HZ)
    return Sound(start_s=start_s, samples=signal.resample_poly(whole, RATE_HZ // common, rate // common))


def presented(video: Path, camera: str) -> np.ndarray:
    """[F] float64, presentation times of a video's frames in seconds, in order; nothing is decoded.

    Raises:
        CaptureError: the file cannot be read, or holds less than two frames with times.
    """
    try:
        with av.open(str(video)) as container:
            streams = container.streams.video
            packets = container.demux(streams[0]) if streams else ()
            times = sorted(float(p.pts * p.time_base) for p in packets if p.pts is not None and p.time_base is not None)
    except (FFmpegError, OSError) as error:
        raise CaptureError(f"cannot be read ({error})", camera=camera, file=video.name) from error
    if len(times) < 2:
        raise CaptureError(f"holds {len(times)} frames with times", camera=camera, file=video.name)
    return np.array(times)
