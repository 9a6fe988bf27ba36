"""A few seconds of the sample that ships, filmed again: real pictures, poses and times for tests to spoil."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np

from recon4d.capture import ingest
from recon4d.types import Camera

SAMPLE = Path(__file__).parents[1] / "samples" / "bench"
CAMERAS = ("cam0", "cam2", "cam3", "cam4")
"""From all around: neighbours are 35 to 90 degrees apart."""


@dataclass(frozen=True, kw_only=True)
class Film:
    """One camera's true pictures, with their true times."""

    camera: Camera
    frames: np.ndarray
    """uint8 [F, H, W, 3]."""
    times: np.ndarray
    """[F] seconds, the first near 0."""


@cache
def films(every: int = 4) -> dict[str, Film]:
    """The first two seconds of four cameras, every so many frames of them."""
    clips = {clip.camera.name: clip for clip in ingest(SAMPLE).clips}
    made = {}
    for name in CAMERAS:
        clip = clips[name]
        chosen = np.flatnonzero(clip.times <= 2.0)[::every]
        made[name] = Film(camera=clip.camera, frames=np.asarray(clip.frames)[chosen], times=clip.times[chosen])
    return made


def encode(
    path: Path,
    frames: np.ndarray,
    times: np.ndarray,
    *,
    codec: str = "libx264",
    pix_fmt: str = "yuv444p",
    crf: int = 8,
    **tags: Any,
) -> Path:
    """Writes a video whose frames are presented at their times, to a tenth of a millisecond."""
    path.parent.mkdir(parents=True, exist_ok=True)
    x265 = {"x265-params": "log-level=error"} if codec == "libx265" else {}
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=15, options={"crf": str(crf), "preset": "veryfast", **x265})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = pix_fmt
        stream.codec_context.time_base = Fraction(1, 10_000)
        for key, value in tags.items():
            setattr(stream.codec_context, key, value)
        for picture, time_s in zip(frames, times, strict=True):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = round(time_s * 10_000), Fraction(1, 10_000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def turned(path: Path, linear: tuple[float, ...]) -> Path:
    """The MP4 with another display matrix in its track header."""
    a, b, c, d = (round(value * 65536) for value in linear)
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 4 + 20 + 16
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    return path


def entry(camera: Camera, video: str) -> dict[str, Any]:
    """The camera as ``capture.json`` has it."""
    return {
        "name": camera.name,
        "video": video,
        "width": camera.width,
        "height": camera.height,
        "K": camera.K.tolist(),
        "pose": {"convention": "T_cam_world", "axes": "opencv", "matrix": camera.T_cam_world.tolist()},
        "pixel_center": "half",
    }


def write(folder: Path, edit: Callable[[dict[str, Any]], object] | None = None, **videos: Mapping[str, Any]) -> Path:
    """Writes the films as a capture folder; ``edit`` may spoil its ``capture.json``, and ``videos`` give a camera's
    arguments of ``encode``."""
    entries = []
    for name, film in films().items():
        how = {"frames": film.frames, "times": film.times, **videos.get(name, {})}
        encode(folder / f"{name}.mp4", **how)
        entries.append(entry(film.camera, f"{name}.mp4"))
    manifest: dict[str, Any] = {"version": 1, "bench_plane": [0, 0, 1, 0], "cameras": entries}
    if edit is not None:
        edit(manifest)
    (folder / "capture.json").write_text(json.dumps(manifest, ensure_ascii=False), "utf-8")
    return folder
