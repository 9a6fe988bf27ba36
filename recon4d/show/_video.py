"""Videos of a scene."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from recon4d.errors import ConfigError, Stopped
from recon4d.events import Finished, OnEvent, Progress, Saved, ShouldStop, Started, ignore, never
from recon4d.show._film import film
from recon4d.show._painter import Painter, colour_depth, depth_range
from recon4d.show._paths import Arc, instant, rig_camera
from recon4d.types import Camera, Scene4D

VideoKind = Literal["rig", "orbit", "frozen", "depth"]
_STAGE = "video"


@dataclass(frozen=True, kw_only=True)
class VideoConfig:
    """How a video is drawn and encoded."""

    fps: int = 30
    """Frames per second of the video; the scene has no frame rate of its own."""
    camera: str | None = None
    """Rig camera of the kinds "rig" and "depth"; None takes the first."""
    time_s: float | None = None
    """Instant of the kind "frozen", seconds; None takes the middle of the clip."""
    sweep_s: float = 6.0
    """Seconds that the kind "frozen" takes to go past all cameras and back."""
    depth_range_m: tuple[float, float] | None = None
    """Depths that get the colour map's ends; None takes what the scene holds, once for the whole video."""
    crf: int = 20
    """Constant rate factor of H.264: 0 loses nothing, 51 is worst; at 20 losses are hard to see."""
    backend: str = "auto"
    """Rasterizer."""
    device: str = "cpu"
    """Torch device that renders."""

    def __post_init__(self) -> None:
        if not 1 <= self.fps <= 240:
            raise ConfigError(f"fps must lie in [1, 240]; it is {self.fps}")
        if not 0 <= self.crf <= 51:
            raise ConfigError(f"crf must lie in [0, 51]; it is {self.crf}")
        if self.sweep_s <= 0:
            raise ConfigError(f"sweep_s must be positive; it is {self.sweep_s}")


def video(
    scene: Scene4D,
    path: Path | str,
    kind: VideoKind,
    config: VideoConfig = VideoConfig(),
    *,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> Path:
    """Draws a scene as an H.264 MP4 (yuv420p, BT.709, playable while it loads).

    Args:
        scene: the scene; its rig gives the cameras.
        path: the file to write; replaced on success only.
        kind: "rig": what one camera of the rig sees while time runs. "orbit": time runs while the camera moves past
            the whole rig. "frozen": time stands still while the camera moves past the rig and back. "depth": as
            "rig", depth in colours.
        config: rate, camera, time, quality.
        on_event: hears Started, Progress, Saved and Finished of the stage "video".
        should_stop: asked before every frame.

    Returns:
        The path.

    Raises:
        ConfigError: an unknown kind or camera, or an instant outside the clip.
        OutputError: the file cannot be written.
        Stopped: on request; nothing is left behind.
    """
    began, path = time.monotonic(), Path(path)
    shots, draw = _plan(scene, kind, config)
    on_event(Started(stage=_STAGE, total=len(shots), detail=kind))

    def frames() -> Iterable[np.ndarray]:
        for step, (camera, time_s) in enumerate(shots):
            if should_stop():
                raise Stopped(f"the video {path.name} was stopped at frame {step} of {len(shots)}; it was not kept")
            yield draw(camera, time_s)
            on_event(Progress(stage=_STAGE, step=step + 1, total=len(shots)))

    film(frames(), path, fps=config.fps, crf=config.crf)
    on_event(Saved(stage=_STAGE, path=str(path)))
    on_event(Finished(stage=_STAGE, seconds=time.monotonic() - began, detail=kind))
    return path


def _plan(
    scene: Scene4D, kind: VideoKind, config: VideoConfig
) -> tuple[list[tuple[Camera, float]], Callable[[Camera, float], np.ndarray]]:
    """Camera and time of every frame, and what draws one."""
    painter = Painter(scene, backend=config.backend, device=config.device)
    times_s = np.arange(int(np.floor(scene.duration_s * config.fps + 1e-6)) + 1) / config.fps
    if kind in ("rig", "depth"):
        camera = _even(rig_camera(scene, config.camera))
        shots = [(camera, float(time_s)) for time_s in times_s]
        if kind == "rig":
            return shots, painter.rgb
        near_far_m = config.depth_range_m or depth_range(
            [painter.depth(camera, scene.duration_s * share) for share in (0.0, 0.5, 1.0)]
        )
        return shots, lambda camera, time_s: colour_depth(painter.depth(camera, time_s), near_far_m)
    if not scene.cameras:
        raise ConfigError(f"a video of the kind '{kind}' moves along the rig's cameras; the scene has no camera")
    arc = Arc(scene.cameras, scene.plane)
    if kind == "orbit":
        shares = 0.5 - 0.5 * np.cos(np.pi * times_s / max(times_s[-1], 1e-9))
    elif kind == "frozen":
        shares = 0.5 - 0.5 * np.cos(2 * np.pi * np.linspace(0, 1, max(2, round(config.sweep_s * config.fps))))
        times_s = np.full(len(shares), instant(scene, config.time_s))
    else:
        raise ConfigError(f"there is no kind of video '{kind}'; there are rig, orbit, frozen, depth")
    return [(_even(arc.camera(u)), float(t)) for u, t in zip(shares, times_s, strict=True)], painter.rgb


def _even(camera: Camera) -> Camera:
    """The camera without its last column or row where their count is odd: yuv420p halves both."""
    return camera.crop(0, 0, max(2, camera.width // 2 * 2), max(2, camera.height // 2 * 2))
