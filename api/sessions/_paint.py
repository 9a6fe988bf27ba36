"""The process that draws: scenes stay loaded, the least recently used ones go."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from api.sessions._channel import Channel, pack, unpack
from recon4d.errors import ConfigError, Recon4DError
from recon4d.export import ExportOptions, export
from recon4d.geometry import look_at
from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.scene import load
from recon4d.types import Camera, Cameras, Scene4D

DEPTH_UNIT_M = 0.001
"""What one step of a depth picture is; 0 is nothing, 65535 is that far or farther."""
_ROOM_BYTES = 1 << 30  # For models of scenes that stay loaded.
_JPEG_QUALITY = 90
_LARGEST_PICTURE = 1 << 23  # Pixels.


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    scene: Scene4D
    model: Gaussians4D

    @property
    def size(self) -> int:
        # The scene's own tensors are about as large as the model's.
        return 2 * self.model.params.nbytes


def paint(channel: Channel) -> None:
    """Answers orders until the other end closes."""
    studio = Studio()
    while (data := channel.receive()) is not None:
        order = unpack(data)
        try:
            answer = {"data": studio.export(order) if order["format"] == "ply" else studio.picture(order)}
        except (Recon4DError, ValueError) as error:
            answer = {"refused": str(error)}
        except Exception:
            logging.getLogger("api.sessions").exception("drawing scene %s failed", order["scene"])
            answer = {"failed": True}
        channel.send(pack(answer))


class Studio:
    """Loaded scenes, drawn on request.

    Args:
        room: bytes of models that stay loaded; the scene in use stays whatever its size.
    """

    def __init__(self, room: int = _ROOM_BYTES) -> None:
        self._room = room
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()

    @property
    def scenes(self) -> list[str]:
        """Those that are loaded, the next to go first."""
        return list(self._loaded)

    @property
    def room_taken(self) -> int:
        """Bytes."""
        return sum(loaded.size for loaded in self._loaded.values())

    def picture(self, order: dict[str, Any]) -> bytes:
        """A PNG or JPEG file of what a camera sees; depth as 16-bit PNG in steps of :data:`DEPTH_UNIT_M`."""
        loaded = self._get(order)
        camera = _camera(loaded.scene, order["view"], order["width"], order["height"])
        output = "depth" if order["format"] == "depth" else "rgb"
        drawn = rasterize(
            loaded.model.at(_instant(loaded.scene, order["t"])),
            Cameras.of(camera),
            background=loaded.scene.background,
            antialiased=loaded.scene.antialiased,
            outputs=(output,),
        )
        values = getattr(drawn, output)[0].numpy()
        if output == "depth":
            return _file(".png", np.rint(values / DEPTH_UNIT_M).clip(0, 65535).astype(np.uint16))
        rgb = (values * 255 + 0.5).clip(0, 255).astype(np.uint8)
        bgr = np.ascontiguousarray(rgb[..., ::-1])
        if order["format"] == "jpeg":
            return _file(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
        return _file(".png", bgr)

    def export(self, order: dict[str, Any]) -> bytes:
        """Writes the scene at an instant to the order's file, for other programs; nothing comes back."""
        scene = self._get(order).scene
        export(scene, Path(order["file"]), order["format"], ExportOptions(time_s=_instant(scene, order["t"])))
        return b""

    def _get(self, order: dict[str, Any]) -> _Loaded:
        name = order["scene"]
        if name not in self._loaded:
            scene = load(Path(order["folder"]))
            self._loaded[name] = _Loaded(scene=scene, model=Gaussians4D.from_scene(scene))
        self._loaded.move_to_end(name)
        while len(self._loaded) > 1 and self.room_taken > self._room:
            self._loaded.popitem(last=False)
        return self._loaded[name]


def _camera(scene: Scene4D, view: dict[str, Any], width: int | None, height: int | None) -> Camera:
    """The camera that a view means, at the size asked for; one given alone keeps the picture's proportions."""
    rig = {camera.name: camera for camera in scene.cameras}
    name = view["camera"] or next(iter(rig), None)
    if name is None or name not in rig:
        raise ConfigError(f"the scene's rig has no camera '{name}'; it has {', '.join(rig) or 'none'}")
    lens = rig[name]
    if width is None and height is None:
        width, height = lens.width, lens.height
    elif width is None or height is None:
        share = lens.width / lens.height
        width, height = width or max(1, round((height or 0) * share)), height or max(1, round((width or 0) / share))
    if width * height > _LARGEST_PICTURE:
        raise ConfigError(f"a picture may have {_LARGEST_PICTURE} pixels; this one has {width} x {height}")
    sized = lens.resized(width, height)
    T_cam_world = _pose(view)
    if T_cam_world is None:
        return sized
    return Camera(name="free", width=width, height=height, K=sized.K, T_cam_world=T_cam_world)


def _pose(view: dict[str, Any]) -> np.ndarray | None:
    """[4, 4] world to camera; None for the camera's own."""
    if view["pose"] is not None:
        return np.array(view["pose"], np.float64).reshape(4, 4)
    if view["position"] is None:
        return None
    position, target = np.array(view["position"], np.float64), np.array(view["look_at"], np.float64)
    if np.linalg.norm(target - position) < 1e-9:
        raise ConfigError("position and look_at are the same point; a camera must look somewhere")
    return look_at(position, target)


def _instant(scene: Scene4D, time_s: float | None) -> float:
    if time_s is None:
        return scene.duration_s / 2
    if not 0 <= time_s <= scene.duration_s:
        raise ConfigError(f"t must lie in [0, {scene.duration_s:g}] seconds; it is {time_s:g}")
    return time_s


def _file(suffix: str, values: np.ndarray, options: list[int] | None = None) -> bytes:
    done, data = cv2.imencode(suffix, values, options or [])
    if not done:
        raise ValueError(f"a picture of shape {values.shape} has no {suffix} form")
    return data.tobytes()
