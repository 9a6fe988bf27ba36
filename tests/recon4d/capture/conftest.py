"""Tiny captures, encoded on the spot."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

from recon4d.geometry import look_at

WIDTH, HEIGHT = 64, 48
SPACING_S = 0.04
"""Between the frames of a video, unless a test says otherwise."""


def pictures(count: int, seed: int = 0, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """uint8 [count, H, W, 3]: noise around grey, so no two frames and no two seeds are equal."""
    return np.random.default_rng(seed).integers(90, 150, (count, height, width, 3), dtype=np.uint8)


def encode(
    path: Path,
    frames: Sequence[np.ndarray] | np.ndarray,
    times_s: Sequence[float] | np.ndarray | None = None,
    *,
    codec: str = "ffv1",
    pix_fmt: str = "bgr0",
    source: str = "rgb24",
    **encoder: Any,
) -> Path:
    """Writes a video with the given presentation times, exact to a millisecond. The default codec is lossless.

    Args:
        source: The layout of ``frames``; with the one of ``pix_fmt`` nothing is converted.
        encoder: Attributes of the encoder, such as ``colorspace`` and ``options``.
    """
    times_s = np.arange(len(frames)) * SPACING_S if times_s is None else times_s
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options=encoder.pop("options", {}))
        planar = source == "yuv444p"
        stream.height, stream.width = frames[0].shape[1:] if planar else frames[0].shape[:2]
        stream.pix_fmt = pix_fmt
        stream.codec_context.time_base = Fraction(1, 1000)
        for key, value in encoder.items():
            setattr(stream.codec_context, key, value)
        for picture, time_s in zip(frames, times_s, strict=True):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format=source)
            if source != pix_fmt:  # On one thread: several damage pixels where rows have odd lengths.
                frame = frame.reformat(format=pix_fmt, threads=1)
            frame.pts, frame.time_base = round(time_s * 1000), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def camera_entry(index: int, count: int, name: str, video: str) -> dict[str, Any]:
    """One of ``count`` cameras on a ring of 1 m, all looking at the origin's surroundings."""
    angle = 2 * np.pi * index / (2 * count)
    pose = look_at(np.array([np.cos(angle), np.sin(angle), 0.6]), np.array([0.0, 0.0, 0.05]))
    return {
        "name": name,
        "video": video,
        "width": WIDTH,
        "height": HEIGHT,
        "K": [[60.0, 0, WIDTH / 2], [0, 60.0, HEIGHT / 2], [0, 0, 1]],
        "pose": {"convention": "T_cam_world", "axes": "opencv", "matrix": pose.tolist()},
        "pixel_center": "half",
    }


Edit = Callable[[dict[str, Any]], None]


def make_capture(
    folder: Path,
    *,
    count: int = 3,
    frames: int = 8,
    times_s: Sequence[Sequence[float] | np.ndarray] | None = None,
    edit: Edit | None = None,
    videos: Sequence[np.ndarray] | None = None,
) -> Path:
    """Writes a sound capture of cameras cam0, cam1, …; ``edit`` may then spoil its ``capture.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for index in range(count):
        times = np.arange(frames) * SPACING_S if times_s is None else times_s[index]
        images = pictures(len(times), seed=index) if videos is None else videos[index]
        encode(folder / f"cam{index}.mkv", images, times)
        entries.append(camera_entry(index, count, f"cam{index}", f"cam{index}.mkv"))
    manifest: dict[str, Any] = {"version": 1, "bench_plane": [0, 0, 1, 0], "cameras": entries}
    if edit is not None:
        edit(manifest)
    (folder / "capture.json").write_text(json.dumps(manifest), "utf-8")
    return folder


@pytest.fixture
def kit() -> SimpleNamespace:
    """The makers above."""
    return SimpleNamespace(
        WIDTH=WIDTH, HEIGHT=HEIGHT, SPACING_S=SPACING_S, pictures=pictures, encode=encode, make_capture=make_capture
    )
