"""A reconstructed scene as it happened, seen from any camera: nothing in it can be changed.

For open-loop evaluation: what would a policy have done at each instant of the recording, from the cameras that filmed
it or from ones that did not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from recon4d.accelerators import resolve
from recon4d.errors import ConfigError
from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.scene import load
from recon4d.types import Camera, Cameras, Scene4D

Observation = dict[str, Any]
"""``images`` by camera, uint8 [H, W, 3]; ``time_s`` float32 [1], seconds on the capture clock."""


class ReplayEnv(gymnasium.Env[Observation, np.ndarray]):
    """The recording, one instant after the other. Actions are compared by others; here they do nothing.

    Args:
        scene: a scene or its folder.
        cameras: names of the rig's cameras, or cameras of one's own; the whole rig when empty.
        control_hz: instants a second.
        action_width: numbers of an action.
        image_size: width and height; the cameras' own when None.
        device: an accelerator's name.

    Raises:
        SceneError: the scene cannot be loaded.
        ConfigError: a camera is unknown, or a number is out of range.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - gymnasium's own way.

    def __init__(
        self,
        scene: Scene4D | Path | str,
        cameras: Sequence[str | Camera] = (),
        *,
        control_hz: float = 10.0,
        action_width: int = 1,
        image_size: tuple[int, int] | None = None,
        device: str = "cpu",
        render_mode: str | None = None,
    ) -> None:
        if not control_hz > 0 or action_width < 1:
            raise ConfigError(f"control_hz and action_width must be positive; they are {control_hz}, {action_width}")
        self._scene = scene if isinstance(scene, Scene4D) else load(Path(scene))
        self._device = torch.device(resolve(device).torch_device)
        self._model = Gaussians4D.from_scene(self._scene).to(self._device)
        chosen = [self._named(c) if isinstance(c, str) else c for c in cameras] or list(self._scene.cameras)
        self._cameras = [c if image_size is None else c.resized(*image_size) for c in chosen]
        self._hz, self._step = control_hz, 0
        self.render_mode = render_mode
        self.observation_space = spaces.Dict(
            {
                "images": spaces.Dict(
                    {c.name: spaces.Box(0, 255, (c.height, c.width, 3), np.uint8) for c in self._cameras}
                ),
                "time_s": spaces.Box(0, self._scene.duration_s + 1 / control_hz, (1,), np.float32),
            }
        )
        self.action_space = spaces.Box(-1, 1, (action_width,), np.float32)

    @property
    def steps(self) -> int:
        """How many steps there are until the recording ends."""
        return int(np.floor(self._scene.duration_s * self._hz + 1e-6))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict]:
        """Goes to the beginning, or to ``options["time_s"]``."""
        super().reset(seed=seed)
        begin = float((options or {}).get("time_s", 0.0))
        if not 0 <= begin <= self._scene.duration_s:
            raise ConfigError(f"time_s must lie in [0, {self._scene.duration_s:.3f}]; it is {begin}")
        self._step = round(begin * self._hz)
        return self._observe(), {"time_s": self._time_s}

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._step += 1
        return self._observe(), 0.0, False, self._step >= self.steps, {"time_s": self._time_s}

    def render(self) -> np.ndarray | None:  # type: ignore[reportIncompatibleMethodOverride] - gymnasium's is generic.
        if self.render_mode != "rgb_array":
            return None
        return self._draw(self._cameras[0])

    @property
    def _time_s(self) -> float:
        return min(self._step / self._hz, self._scene.duration_s)

    def _observe(self) -> Observation:
        images = {camera.name: self._draw(camera) for camera in self._cameras}
        return {"images": images, "time_s": np.array([self._time_s], np.float32)}

    def _draw(self, camera: Camera) -> np.ndarray:
        drawn = rasterize(
            self._model.at(self._time_s),
            Cameras.of(camera, device=self._device),
            background=self._scene.background,
            antialiased=self._scene.antialiased,
            outputs=("rgb",),
        )
        assert drawn.rgb is not None
        return (drawn.rgb[0].clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()

    def _named(self, name: str) -> Camera:
        known = {camera.name: camera for camera in self._scene.cameras}
        if name not in known:
            raise ConfigError(f"the scene's rig has no camera '{name}'; it has {', '.join(known)}")
        return known[name]
