"""Drawing with MuJoCo's OpenGL renderer."""

from __future__ import annotations

import importlib
import os
import sys
from types import TracebackType
from typing import Any

import numpy as np

from bench_generator._config import BenchConfig, NoGraphicsError
from bench_generator._motion import Motion
from bench_generator._rig import RigCamera
from bench_generator._world import BLOCK_GEOM, World


def _import_mujoco() -> Any:
    """MuJoCo binds its OpenGL when it is first imported, so the choice is made here and not by the caller's import."""
    if sys.platform.startswith("linux"):
        os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        return importlib.import_module("mujoco")
    except ModuleNotFoundError as error:
        raise NoGraphicsError("the generator draws with MuJoCo; install it: pip install 'recon4d[sim]'") from error
    except (ImportError, AttributeError, RuntimeError) as error:
        raise NoGraphicsError(_advice(error)) from error


def _advice(error: BaseException) -> str:
    return (
        f"MuJoCo cannot draw with MUJOCO_GL={os.environ.get('MUJOCO_GL', '(unset)')}: {error}. On Debian or Ubuntu:"
        " apt-get install libegl1 libegl-mesa0 (MUJOCO_GL=egl), or apt-get install libosmesa6 (MUJOCO_GL=osmesa)"
    )


class Stage:
    """One world, ready to be drawn at any time by any camera of the rig. A context manager: it holds OpenGL memory.

    Raises:
        NoGraphicsError: there is no MuJoCo or no OpenGL.
    """

    def __init__(self, config: BenchConfig, world: World, motion: Motion, rig: tuple[RigCamera, ...]) -> None:
        self._mujoco = _import_mujoco()
        self._config, self._motion = config, motion
        self._model = self._mujoco.MjModel.from_xml_string(world.xml, world.assets)
        self._data = self._mujoco.MjData(self._model)
        self._block_geom = self._model.geom(BLOCK_GEOM).id
        width, height = rig[0].drawn_size
        try:
            self._renderer = self._mujoco.Renderer(self._model, height, width)
        except (RuntimeError, AttributeError, ImportError, self._mujoco.FatalError) as error:
            raise NoGraphicsError(_advice(error)) from error

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._renderer.close()

    def colour(self, camera: RigCamera, time_s: float) -> np.ndarray:
        """[H, W, 3] float64 in [0, 1]: mean of the samples of each pixel, before exposure and noise."""
        samples = self._draw(camera, time_s).astype(np.float64) / 255
        s = self._config.supersample
        return samples.reshape(self._config.height, s, self._config.width, s, 3).mean((1, 3))

    def depth(self, camera: RigCamera, time_s: float) -> np.ndarray:
        """[H, W] float32, camera-z in metres at pixel centres."""
        self._renderer.enable_depth_rendering()
        depth = self._centres(self._draw(camera, time_s))
        self._renderer.disable_depth_rendering()
        return depth

    def block_mask(self, camera: RigCamera, time_s: float) -> np.ndarray:
        """[H, W] bool, the pixels at whose centre the block is the first surface."""
        self._renderer.enable_segmentation_rendering()
        labels = self._centres(self._draw(camera, time_s))
        self._renderer.disable_segmentation_rendering()
        is_geom = labels[..., 1] == int(self._mujoco.mjtObj.mjOBJ_GEOM)
        return is_geom & (labels[..., 0] == self._block_geom)

    def _draw(self, camera: RigCamera, time_s: float) -> np.ndarray:
        self._data.qpos[:] = self._motion.joints(time_s)
        position, yaw = self._motion.block(time_s)
        self._data.mocap_pos[0] = position
        self._data.mocap_quat[0] = [np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]
        self._mujoco.mj_forward(self._model, self._data)
        self._renderer.update_scene(self._data, camera.name)
        (x, y), s = camera.crop, self._config.supersample
        return self._renderer.render()[y : y + s * self._config.height, x : x + s * self._config.width]

    def _centres(self, samples: np.ndarray) -> np.ndarray:
        s = self._config.supersample
        return samples[s // 2 :: s, s // 2 :: s].copy()
