"""Which frames a fit looks at, and how."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from recon4d.capture import statistics
from recon4d.geometry import unproject
from recon4d.points import Foreground, StaticView, Workspace
from recon4d.train._backdrop import uncover
from recon4d.train._config import StaticConfig
from recon4d.train._optimize import View
from recon4d.types import Camera, Capture, Clip, ClipStatistics

Box = tuple[int, int, int, int]
"""x0, y0, x1, y1 in pixels, ends not included."""
Picture = TypeVar("Picture", np.ndarray, Tensor)

_RESIDENT_BYTES = 4 * 2**30  # Of frames that are kept on an accelerator.
_BEYOND = 1.5  # Distance of what counts as behind the workspace, over the workspace's own.
_ENOUGH = 0.01  # Share of all pixels that must look past the bench to tell the colour there.


def clip_statistics(capture: Capture) -> list[ClipStatistics]:
    return [statistics(clip) for clip in capture.clips]


def key_frames(clip: Clip, rate_hz: float) -> np.ndarray:
    """[F] int64: the frame nearest to each instant k / rate, none twice and none farther than half the spacing.

    Frames are picked, never resampled; where the clip has a gap there is no key frame.
    """
    instants = np.arange(np.floor(clip.times[0] * rate_hz), np.ceil(clip.times[-1] * rate_hz) + 1) / rate_hz
    right = (
        np.searchsorted(clip.times, instants).clip(1, len(clip) - 1) if len(clip) > 1 else np.zeros(len(instants), int)
    )
    left = np.maximum(right - 1, 0)
    nearest = np.where(instants - clip.times[left] <= clip.times[right] - instants, left, right)
    near = np.abs(clip.times[nearest] - instants) <= 0.5 / rate_hz + 1e-9
    return np.unique(nearest[near])


def static_views(capture: Capture, stats: Sequence[ClipStatistics], config: StaticConfig) -> list[StaticView]:
    """Median images, weighted by how settled each pixel is; past the bench, the backdrop behind what covers it."""
    views = []
    for clip, statistic in zip(capture.clips, stats, strict=True):
        weight = 1 / (1 + (statistic.spread / config.settled_spread) ** 2)
        weight = np.maximum(weight, config.least_weight) * clip.valid
        view = StaticView(
            camera=clip.camera,
            image=statistic.median.astype(np.float32) / 255,
            weight=np.ascontiguousarray(weight, np.float32),
        )
        views.append(uncover(clip, view, _beyond_bench(clip.camera, capture), config.settled_spread))
    return views


def background_color(capture: Capture) -> tuple[float, float, float]:
    """What is shown where no Gaussian is: the usual colour of the medians beyond the bench, where a plane is known and
    some pixels look past it; their mean colour otherwise. In [0, 1]."""
    medians, beyond = [], []
    for clip, statistic in zip(capture.clips, clip_statistics(capture), strict=True):
        medians.append(statistic.median[clip.valid])
        beyond.append(statistic.median[clip.valid & _beyond_bench(clip.camera, capture)])
    if sum(map(len, beyond)) >= _ENOUGH * sum(map(len, medians)):
        color = np.median(np.concatenate(beyond), axis=0)
    else:
        color = np.mean([median.mean(0) for median in medians], axis=0)
    red, green, blue = (color / 255).round(4).tolist()
    return red, green, blue


def _beyond_bench(camera: Camera, capture: Capture) -> np.ndarray:
    """[H, W] bool: rays that pass over the bench plane, or meet it far behind the workspace. None without a plane."""
    if capture.plane is None:
        return np.zeros((camera.height, camera.width), bool)
    workspace = Workspace.of(capture.cameras, capture.plane)
    pixels = np.stack(np.meshgrid(np.arange(camera.width), np.arange(camera.height)), -1) + 0.5
    rays = unproject(pixels, np.ones(pixels.shape[:2]), camera.K, camera.T_cam_world) - camera.center_w
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    height = float(workspace.height_above_plane(camera.center_w))
    return height + _BEYOND * workspace.distance_m * (rays @ capture.plane[:3]) > 0


class FrameSampler:
    """Random training views of the joint fit: a frame of a camera, whole or cropped to what moves.

    Args:
        foreground: masks of the training clips.
        rate_hz: frames a second that may be visited.
        whole_every: every how many draws the whole image is taken.
        rng: decides camera and frame of each draw.
    """

    def __init__(
        self,
        foreground: Foreground,
        *,
        rate_hz: float,
        whole_every: int,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        self._clips = foreground.clips
        self._frames = [key_frames(clip, rate_hz) for clip in self._clips]
        self._boxes = [[foreground.box(c, int(f)) for f in frames] for c, frames in enumerate(self._frames)]
        self._valid = [
            None if clip.valid.all() else torch.from_numpy(clip.valid.astype(np.float32)).to(device)
            for clip in self._clips
        ]
        self._pictures = _Pictures(self._clips, device)
        self._whole_every = whole_every
        self._rng = rng

    def draw(self, step: int) -> View:
        camera = int(self._rng.integers(len(self._clips)))
        number = int(self._rng.integers(len(self._frames[camera])))
        box = self._boxes[camera][number] if step % self._whole_every else None
        return self._view(camera, int(self._frames[camera][number]), box)

    def whole(self, camera: int, share: float) -> View:
        """The whole frame at a share in [0, 1] of a camera's list; for progress figures."""
        frames = self._frames[camera]
        return self._view(camera, int(frames[int(share * (len(frames) - 1))]), None)

    @property
    def cameras(self) -> int:
        return len(self._clips)

    def _view(self, camera: int, frame: int, box: Box | None) -> View:
        clip, valid = self._clips[camera], self._valid[camera]
        seen = clip.camera
        if box is not None:
            x0, y0, x1, y1 = box
            seen = clip.camera.crop(*box)
            valid = valid[y0:y1, x0:x1].contiguous() if valid is not None else None
        return View(
            camera=seen,
            time_s=float(clip.times[frame]),
            target=self._pictures.part(camera, frame, box),
            weight=valid,
            pixels=clip.camera.width * clip.camera.height,
        )


class _Pictures:
    """Frames as uint8 on a device. On an accelerator each is brought there whole, once, while there is room."""

    def __init__(self, clips: Sequence[Clip], device: torch.device) -> None:
        self._clips = clips
        self._device = device
        self._there: OrderedDict[tuple[int, int], Tensor] = OrderedDict()
        self._room = _RESIDENT_BYTES

    def part(self, camera: int, frame: int, box: Box | None) -> Tensor:
        """[h, w, 3] uint8, a frame or a box of it."""
        if self._device.type == "cpu":
            image = self._clips[camera].frames[frame]
            return torch.from_numpy(_cut(image, box).copy())
        return _cut(self._whole(camera, frame), box).contiguous()

    def _whole(self, camera: int, frame: int) -> Tensor:
        key = camera, frame
        if key not in self._there:
            image = self._clips[camera].frames[frame]
            while self._there and image.nbytes > self._room:
                self._room += self._there.popitem(last=False)[1].numel()
            self._there[key] = torch.from_numpy(image.copy()).to(self._device)
            self._room -= image.nbytes
        self._there.move_to_end(key)
        return self._there[key]


def _cut(image: Picture, box: Box | None) -> Picture:
    if box is None:
        return image
    x0, y0, x1, y1 = box
    return image[y0:y1, x0:x1]
