"""A tiny world with known geometry: a patterned bench, a resting ball and a ball that crosses it.

Images are ray-cast here in a few lines of NumPy, so that nothing under test draws its own ground truth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from recon4d.geometry import look_at
from recon4d.types import Camera, Capture, Clip, SplitRule

PLANE = np.array([0.0, 0.0, 1.0, 0.0])
RADIUS_M = 0.07
SPEED_M_S = 0.25


@dataclass(frozen=True)
class ListFrames:
    """Frames in memory that remember which of them were read."""

    images: np.ndarray
    reads: set[int]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int, /) -> np.ndarray:
        self.reads.add(int(index))
        return self.images[index]


def ring(count: int = 4, width: int = 96, height: int = 72) -> list[Camera]:
    """Cameras around the bench, a metre away, looking at its middle."""
    cameras = []
    for i in range(count):
        azimuth = 2 * np.pi * i / count + 0.3
        center = np.array([0.8 * np.cos(azimuth), 0.8 * np.sin(azimuth), 0.6 + 0.05 * i])
        K = np.array([[1.1 * width, 0, width / 2 + 0.7 * i], [0, 1.1 * width, height / 2 - 0.4], [0, 0, 1]])
        cameras.append(Camera(name=f"c{i}", width=width, height=height, K=K, T_cam_world=look_at(center, np.zeros(3))))
    return cameras


def ball_center(time_s: float) -> np.ndarray:
    """[3] where the moving ball is: along x, resting on the bench."""
    return np.array([-0.2 + SPEED_M_S * time_s, 0.05, RADIUS_M])


def image(camera: Camera, time_s: float | None) -> np.ndarray:
    """[H, W, 3] uint8; without the moving ball when the time is None. Four rays a pixel."""
    parts = [_cast(camera, time_s, dx, dy) for dx in (0.25, 0.75) for dy in (0.25, 0.75)]
    return np.rint(np.mean(parts, axis=0) * 255).astype(np.uint8)


def capture(
    *,
    cameras: int = 4,
    seconds: float = 1.6,
    rate_hz: float = 20.0,
    moving: bool = True,
    split: SplitRule | None = None,
) -> Capture:
    """The world, filmed by a ring of cameras whose clocks tick at different moments."""
    clips = []
    for number, camera in enumerate(ring(cameras)):
        times = np.arange(0, seconds, 1 / rate_hz) + 0.004 * number
        images = np.stack([image(camera, t if moving else None) for t in times])
        valid = np.ones(images.shape[1:3], bool)
        clips.append(Clip(camera=camera, times=times, frames=ListFrames(images, set()), valid=valid))
    return Capture(
        name="tiny",
        clips=tuple(clips),
        duration_s=seconds,
        plane=PLANE,
        split=split or SplitRule(),
        input_hash=f"tiny-{cameras}-{seconds}-{rate_hz}-{moving}",
    )


def write_capture(source: Capture, folder: Path) -> Path:
    """Writes a capture as a folder that can be ingested: ``capture.json`` and an H.264 video a camera."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for clip in source.clips:
        camera = clip.camera
        _encode(folder / f"{camera.name}.mp4", clip)
        entries.append(
            {
                "name": camera.name,
                "video": f"{camera.name}.mp4",
                "width": camera.width,
                "height": camera.height,
                "K": camera.K.tolist(),
                "pose": {"convention": "T_cam_world", "axes": "opencv", "matrix": camera.T_cam_world.tolist()},
                "pixel_center": "half",
            }
        )
    heldout = {"cameras": list(source.split.heldout_cameras)}
    manifest = {"version": 1, "bench_plane": PLANE.tolist(), "heldout": heldout, "cameras": entries}
    (folder / "capture.json").write_text(json.dumps(manifest), "utf-8")
    return folder


def _encode(path: Path, clip: Clip) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=20, options={"crf": "10"})
        stream.width, stream.height, stream.pix_fmt = clip.camera.width, clip.camera.height, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 90_000)
        for index, time_s in enumerate(clip.times):
            frame = av.VideoFrame.from_ndarray(clip.frames[index], format="rgb24")
            frame.pts, frame.time_base = round(time_s * 90_000), Fraction(1, 90_000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _cast(camera: Camera, time_s: float | None, dx: float, dy: float) -> np.ndarray:
    v, u = np.mgrid[: camera.height, : camera.width]
    K = camera.K
    directions = np.stack([(u + dx - K[0, 2]) / K[0, 0], (v + dy - K[1, 2]) / K[1, 1], np.ones(u.shape)], -1)
    directions = directions @ camera.T_cam_world[:3, :3]
    origin = camera.center_w
    depth = -origin[2] / np.where(np.abs(directions[..., 2]) > 1e-6, directions[..., 2], -1e-6)
    depth = np.where(depth > 0, depth, 1e3)
    color = _bench(origin + depth[..., None] * directions)
    balls = [(np.array([0.1, -0.25, RADIUS_M]), np.array([0.2, 0.35, 0.8]))]
    if time_s is not None:
        balls.append((ball_center(time_s), np.array([0.95, 0.35, 0.1])))
    for center, tint in balls:
        hit, at = _sphere(origin, directions, center)
        nearer = hit & (at < depth)
        normal = (origin + at[..., None] * directions - center) / RADIUS_M
        shade = 0.75 + 0.2 * normal[..., 2:3] + 0.12 * np.sin(6 * normal[..., 0:1] + 4 * normal[..., 1:2])
        depth = np.where(nearer, at, depth)
        color = np.where(nearer[..., None], tint * shade, color)
    return color


def _bench(points: np.ndarray) -> np.ndarray:
    x, y = points[..., 0], points[..., 1]
    waves = [np.sin(9 * x + 3 * y), np.sin(11 * y - 2 * x), np.sin(7 * (x + y) + 1)]
    fade = np.exp(-0.3 * (x * x + y * y))[..., None]
    return 0.45 + 0.2 * fade * np.stack(waves, -1)


def _sphere(origin: np.ndarray, directions: np.ndarray, center: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = (directions**2).sum(-1)
    b = directions @ (origin - center)
    root = b * b - a * (((origin - center) ** 2).sum() - RADIUS_M**2)
    return root > 0, (-b - np.sqrt(np.maximum(root, 0))) / a
