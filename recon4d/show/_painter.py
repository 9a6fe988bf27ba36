"""Draws a scene at a time through a camera, as images to look at."""

from __future__ import annotations

import cv2
import numpy as np

from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.types import Camera, Cameras, Scene4D


class Painter:
    """A scene that is ready to be drawn."""

    def __init__(self, scene: Scene4D, *, backend: str = "auto", device: str = "cpu") -> None:
        self.scene = scene
        self._model = Gaussians4D.from_scene(scene).to(device)
        self._backend = backend
        self._device = device

    def rgb(self, camera: Camera, time_s: float) -> np.ndarray:
        """uint8 [H, W, 3], sRGB."""
        return (self._draw(camera, time_s, "rgb") * 255 + 0.5).clip(0, 255).astype(np.uint8)

    def depth(self, camera: Camera, time_s: float) -> np.ndarray:
        """float32 [H, W], camera-z in metres; 0 where nothing is."""
        return self._draw(camera, time_s, "depth")

    def _draw(self, camera: Camera, time_s: float, output: str) -> np.ndarray:
        drawn = rasterize(
            self._model.at(time_s),
            Cameras.of(camera, device=self._device),
            background=self.scene.background,
            antialiased=self.scene.antialiased,
            backend=self._backend,
            outputs=(output,),
        )
        return getattr(drawn, output)[0].cpu().numpy()


def depth_range(depths: list[np.ndarray]) -> tuple[float, float]:
    """Nearest and farthest depth worth colouring, metres: the 2nd and 98th percentile of what there is."""
    present = np.concatenate([depth[depth > 0] for depth in depths])
    if not len(present):
        return 0.0, 1.0
    near, far = np.percentile(present, [2, 98])
    return float(near), float(max(far, near + 1e-3))


def colour_depth(depth: np.ndarray, near_far_m: tuple[float, float]) -> np.ndarray:
    """uint8 [H, W, 3] in the turbo colour map: near is red, far is blue, nothing is black."""
    near, far = near_far_m
    level = np.clip((far - depth) / (far - near), 0, 1)
    coloured = cv2.applyColorMap((level * 255).astype(np.uint8), cv2.COLORMAP_TURBO)[..., ::-1]
    return np.where(depth[..., None] > 0, coloured, 0).astype(np.uint8)
