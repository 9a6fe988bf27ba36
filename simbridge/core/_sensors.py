"""Splat cameras of many worlds."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from recon4d.errors import ConfigError
from recon4d.raster import WorldCache, WorldCameras, WorldSplats, render_worlds
from simbridge.core._physics import Physics
from simbridge.core._randomise import Draw, Randomisation
from simbridge.types import WORLD, BodySplats, Bundle, BundleCamera

Pictures = dict[str, dict[str, np.ndarray]]
"""By camera, then by kind: "rgb" uint8 [n, H, W, 3], "depth" float32 [n, H, W] metres, "segmentation" int64 [n, H, W],
the index in ``Sensors.bodies``, -1 where nothing is."""


@dataclass(frozen=True, kw_only=True)
class SensorConfig:
    """How worlds are seen."""

    cameras: tuple[str, ...] = ()
    """Names, in the order of the observation; all of the bundle's when empty."""
    image_size: tuple[int, int] | None = None
    """Width and height; the fields of view stay. None keeps each camera's own."""
    kinds: tuple[str, ...] = ("rgb",)
    """Any of "rgb", "depth", "segmentation"."""
    device: str = "cpu"
    backend: str = "auto"
    memory_mib: int = 1024


class Sensors:
    """Draws worlds through cameras. Splats are there once, whatever the number of worlds."""

    def __init__(
        self,
        bundle: Bundle,
        extra: Sequence[BodySplats],
        physics: Physics,
        config: SensorConfig,
        randomisation: Randomisation,
    ) -> None:
        parts = [*bundle.splats, *extra]
        self.bodies = tuple(part.body for part in parts)
        self.cameras = tuple(_sized(camera, config.image_size) for camera in _chosen(bundle, config.cameras))
        self._background = bundle.background
        self._colour = bundle.colour
        self._parts, self._physics, self._config = parts, physics, config
        self._randomisation = randomisation
        self._numbers = [0 if body == WORLD else physics.body(body) for body in self.bodies]
        self._carriers = [0 if c.body == WORLD else physics.body(c.body) for c in self.cameras]
        self._draws: list[Draw | None] = [None] * physics.count
        self._noise: list[np.random.Generator | None] = [None] * physics.count
        self._late: list[deque[dict[str, np.ndarray]]] = [deque() for _ in range(physics.count)]
        self._splats: WorldSplats | None = None
        self._caches: dict[str, WorldCache] = {}

    def begin(self, world: int, drawn: Draw, noise: np.random.Generator) -> None:
        """Takes up what was drawn for a world's episode."""
        self._draws[world], self._noise[world] = drawn, noise
        self._late[world].clear()

    def draw(self, ids: np.ndarray) -> Pictures:
        """Fresh pictures of worlds ``ids`` [n] as they are now, late and noisy as their episodes want it."""
        bodies = self._physics.poses(self._numbers, ids)
        pictures = {
            camera.name: self._draw_one(index, camera, bodies, ids) for index, camera in enumerate(self.cameras)
        }
        if self._randomisation.latency_steps:
            self._delay(pictures, ids)
        if self._randomisation.noise:
            self._add_noise(pictures, ids)
        return pictures

    def offload(self) -> None:
        """Frees what lies on the device; the next picture brings it back."""
        self._splats = None
        self._caches.clear()

    def _draw_one(self, index: int, camera: BundleCamera, bodies: np.ndarray, ids: np.ndarray) -> dict[str, np.ndarray]:
        shared = camera.body == WORLD and not self._randomisation.moves_cameras
        drawn = render_worlds(
            self._splats_there(),
            bodies,
            self._world_cameras(index, camera, ids, shared),
            outputs=self._config.kinds,
            background=self._background,
            cache=self._caches.setdefault(camera.name, WorldCache()) if shared else None,
            memory_mib=self._config.memory_mib,
            backend=self._config.backend,
            dtype=torch.uint8 if self._colour is None else torch.float32,
        )
        pictures = {}
        for kind in self._config.kinds:
            value = getattr(drawn, kind)
            assert value is not None
            value = value[:, 0]
            if kind == "rgb" and self._colour is not None:
                value = _corrected(value, self._colour)
            pictures[kind] = value.cpu().numpy()
        return pictures

    def _world_cameras(self, index: int, camera: BundleCamera, ids: np.ndarray, shared: bool) -> WorldCameras:
        """The camera in each of the worlds, or once when it is the same in all."""
        count = 1 if shared else len(ids)
        T_world_body = np.broadcast_to(np.eye(4), (count, 4, 4))
        if camera.body != WORLD:
            T_world_body = self._physics.poses([self._carriers[index]], ids)[:, 0]
        K, T_body_cam = np.repeat(camera.K[None], count, 0), np.repeat(camera.T_body_cam[None], count, 0)
        exposures = np.full(len(ids), camera.exposure)
        for row, world in enumerate(ids):
            episode = self._draws[world]
            if episode is None:
                continue
            mine = episode.cameras[index]
            exposures[row] *= mine.exposure
            if not shared:
                K[row, [0, 1], [0, 1]] *= mine.focal
                T_body_cam[row] = T_body_cam[row] @ mine.T_cam_moved
        viewmats = np.linalg.inv(T_world_body @ T_body_cam)
        same = shared and bool((exposures == exposures[0]).all())
        return WorldCameras(
            viewmats=torch.from_numpy(viewmats[:, None]),
            Ks=torch.from_numpy(K[:, None]),
            width=camera.width,
            height=camera.height,
            exposures=torch.from_numpy((exposures[:1] if same else exposures)[:, None]),
        )

    def _splats_there(self) -> WorldSplats:
        if self._splats is None:
            groups = [(index, part.splats) for index, part in enumerate(self._parts)]
            self._splats = WorldSplats.of(groups, bodies=len(self._parts), device=self._config.device)
        return self._splats

    def _delay(self, pictures: Pictures, ids: np.ndarray) -> None:
        """Exchanges each world's pictures for those of some steps ago; the oldest there are at the beginning."""
        for row, world in enumerate(ids):
            episode, late = self._draws[world], self._late[world]
            now = {
                f"{camera}/{kind}": value[row].copy()
                for camera, kinds in pictures.items()
                for kind, value in kinds.items()
            }
            late.append(now)
            latency = episode.latency if episode is not None else 0
            while len(late) > latency + 1:
                late.popleft()
            for camera, kinds in pictures.items():
                for kind, value in kinds.items():
                    value[row] = late[0][f"{camera}/{kind}"]

    def _add_noise(self, pictures: Pictures, ids: np.ndarray) -> None:
        for camera in pictures.values():
            if "rgb" not in camera:
                continue
            for row, world in enumerate(ids):
                generator = self._noise[world]
                assert generator is not None
                noise = generator.normal(0, 255 * self._randomisation.noise, camera["rgb"].shape[1:])
                camera["rgb"][row] = np.clip(np.rint(camera["rgb"][row] + noise), 0, 255).astype(np.uint8)


def _chosen(bundle: Bundle, names: tuple[str, ...]) -> list[BundleCamera]:
    known = {camera.name: camera for camera in bundle.cameras}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"the bundle has no camera '{unknown[0]}'; it has {', '.join(known)}")
    return [known[name] for name in names or known]


def _sized(camera: BundleCamera, size: tuple[int, int] | None) -> BundleCamera:
    if size is None or size == (camera.width, camera.height):
        return camera
    K = np.diag([size[0] / camera.width, size[1] / camera.height, 1.0]) @ camera.K
    return replace(camera, width=size[0], height=size[1], K=K)


def _corrected(rgb: torch.Tensor, colour: np.ndarray) -> torch.Tensor:
    """uint8 pictures in the real cameras' colours."""
    powers = [rgb, torch.ones_like(rgb[..., :1])]
    if len(colour) == 7:
        powers.insert(0, rgb.square())
    mapped = torch.cat(powers, -1) @ torch.from_numpy(colour.astype(np.float32)).to(rgb.device)
    return (mapped.clamp(0, 1) * 255).round().to(torch.uint8)


def blank(rgb: np.ndarray) -> np.ndarray:
    """[n] bool: whether pictures uint8 [n, H, W, 3] are of one colour. Every fourth pixel is looked at."""
    few = rgb[:, ::4, ::4].reshape(len(rgb), -1, 3)
    return (few == few[:, :1]).all((1, 2))
