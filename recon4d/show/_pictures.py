"""Pictures of the report: truth, render and their difference; depth."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from recon4d.show._painter import Painter, colour_depth, depth_range
from recon4d.types import Capture

_WIDEST_PX = 640
"""Wider pictures are shrunk to this: the page holds dozens."""
_GAIN = 4


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One scored frame, beside its render."""

    camera: str
    time_s: float
    psnr: float
    psnr_moving: float | None
    worst: bool
    """Whether it is the worst of its camera and set."""
    truth: str
    """Data URI, as the next two."""
    render: str
    difference: str


@dataclass(frozen=True, kw_only=True)
class DepthPicture:
    """Depth in colours, from a camera of the rig."""

    camera: str
    picture: str
    near_m: float
    far_m: float


def comparisons(
    painter: Painter, heldout: Capture, per_time: Sequence[dict[str, Any]], which: str, count: int
) -> list[Comparison]:
    """For every camera of a set: its worst frame, and others spread evenly over the clip, in order of time."""
    chosen: list[Comparison] = []
    for clip in heldout.clips:
        rows = [row for row in per_time if row["set"] == which and row["camera"] == clip.camera.name]
        if not rows:
            continue
        worst = min(rows, key=lambda row: row["psnr"] if row["psnr_moving"] is None else row["psnr_moving"])
        spread = [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, max(count - 1, 1)).round().astype(int))]
        picked = {row["time_s"]: row for row in [*spread, worst]}
        for time_s, row in sorted(picked.items()):
            truth = clip.frames[clip.nearest(time_s)]
            render = painter.rgb(clip.camera, time_s)
            difference = np.abs(truth.astype(np.int16) - render.astype(np.int16)) * _GAIN
            difference[~clip.valid] = 0
            chosen.append(
                Comparison(
                    camera=clip.camera.name,
                    time_s=time_s,
                    psnr=row["psnr"],
                    psnr_moving=row["psnr_moving"],
                    worst=row is worst,
                    truth=jpeg(truth),
                    render=jpeg(render),
                    difference=jpeg(difference.clip(0, 255).astype(np.uint8)),
                )
            )
    return chosen


def depths(painter: Painter) -> list[DepthPicture]:
    """Depth in the middle of the clip from every camera of the rig, all in one range of colours."""
    scene = painter.scene
    drawn = [(camera.name, painter.depth(camera, scene.duration_s / 2)) for camera in scene.cameras]
    if not drawn:
        return []
    near_m, far_m = depth_range([depth for _, depth in drawn])
    return [
        DepthPicture(camera=name, picture=jpeg(colour_depth(depth, (near_m, far_m))), near_m=near_m, far_m=far_m)
        for name, depth in drawn
    ]


def jpeg(image: np.ndarray, quality: int = 85) -> str:
    """A data URI of an RGB image."""
    if image.shape[1] > _WIDEST_PX:
        height = max(1, round(image.shape[0] * _WIDEST_PX / image.shape[1]))
        image = cv2.resize(image, (_WIDEST_PX, height), interpolation=cv2.INTER_AREA)
    done, data = cv2.imencode(".jpg", np.ascontiguousarray(image[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise ValueError(f"an image of shape {image.shape} and type {image.dtype} has no JPEG form")
    return data_uri(data.tobytes(), "image/jpeg")


def data_uri(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
