"""RLinf: worlds as the environment that its ``EnvWorker`` drives.

Set ``RLINF_EXT_MODULE=simbridge.adapters.rlinf`` where RLinf's driver starts; every worker process then imports this
module and calls :func:`register`. In the configuration of the environment write ``env_type: isaaclab``, the one type
whose table of environments is open to others and whose actions arrive as they are, and under ``init_params``:

    id: simbridge          # the class below
    bundle: path/to/bundle
    task: reach
    task_options: {}       # of the task
    main_camera: cam0      # the bundle's first camera when left out
    wrist_camera: wrist    # none when left out
    extra_cameras: []
    image_size: [224, 224] # width, height; the cameras' own when left out
    control: ee_delta
    control_hz: 10
    device: cpu            # an accelerator's name, or "worker" for the one that RLinf gave this worker

Neither torch nor RLinf is imported before it is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recon4d.accelerators import resolve
from recon4d.errors import ConfigError, MissingExtraError
from simbridge.bundle import load
from simbridge.core import SensorConfig, Step, Worlds, WorldsConfig
from simbridge.errors import ActionError
from simbridge.tasks import make_task

ID = "simbridge"
_KNOWN = {
    "id", "bundle", "task", "task_options", "main_camera", "wrist_camera", "extra_cameras", "image_size", "control",
    "control_hz", "device",
}  # fmt: skip
_EPISODES = 2**31  # Reset ids are drawn below this.


def register() -> None:
    """Adds ``simbridge`` to the environments that RLinf makes for ``env_type: isaaclab``.

    Raises:
        MissingExtraError: RLinf is not installed, or has no such table.
    """
    for place in ("rlinf.envs.isaaclab", "rlinf.envs.sim.isaaclab"):
        try:
            table = importlib.import_module(place).REGISTER_ISAACLAB_ENVS
        except (ImportError, AttributeError):
            continue
        table[ID] = SplatRLinfEnv
        return
    raise MissingExtraError("rlinf", "sim", "simbridge.adapters.rlinf")


class SplatRLinfEnv:
    """What ``EnvWorker`` calls: reset, step, chunk_step, update_reset_state_ids, offload.

    Args:
        cfg: RLinf's ``env.train`` or ``env.eval``.
        num_envs: worlds of this worker and pipeline stage.
        seed_offset: number of this instance among all; added to the seed.
        total_num_processes: how many instances there are.
        worker_info: RLinf's facts about the worker; ``device: worker`` takes its accelerator.
    """

    def __init__(
        self, cfg: Any, num_envs: int, seed_offset: int = 0, total_num_processes: int = 1, worker_info: Any = None
    ) -> None:
        options = _plain(cfg.init_params)
        unknown = sorted(set(options) - _KNOWN)
        if unknown:
            raise ConfigError(f"init_params has no field '{unknown[0]}'; there are {', '.join(sorted(_KNOWN))}")
        bundle = load(Path(options["bundle"]))
        task = make_task(options.get("task", "reach"), **options.get("task_options", {}))
        names = [camera.name for camera in bundle.cameras]
        self._main = options.get("main_camera") or names[0]
        self._wrist = options.get("wrist_camera")
        self._extra = list(options.get("extra_cameras", []))
        size = options.get("image_size")
        self.auto_reset, self.ignore_terminations = bool(cfg.auto_reset), bool(cfg.ignore_terminations)
        config = WorldsConfig(
            sensors=SensorConfig(
                cameras=tuple(dict.fromkeys(n for n in (self._main, self._wrist, *self._extra) if n)),
                image_size=tuple(size) if size else None,
                device=_device(options.get("device", "cpu"), worker_info),
            ),
            control=options.get("control", "ee_delta"),
            control_hz=float(options.get("control_hz", 10)),
            max_steps=cfg.max_episode_steps,
            end_on_success=not self.ignore_terminations,
        )
        self.cfg, self.num_envs, self.is_start = cfg, num_envs, True
        self.seed = int(cfg.seed) + seed_offset
        # The same episode whichever process plays it: what differs are the reset ids.
        self._worlds = Worlds(bundle, task, num_envs, seed=int(cfg.seed), config=config)
        self.metadata = {"render_fps": config.control_hz}
        self._rng = np.random.default_rng([self.seed, 1])
        self._number, self._instances = seed_offset, total_num_processes
        self._epoch = 0
        self._reset_ids = self._draw_ids(np.arange(num_envs))

    @property
    def task_descriptions(self) -> list[str]:
        """The task in words, once a world."""
        return [self._worlds.task.description()] * self.num_envs

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begins the episodes of the present reset ids in all worlds."""
        if seed is not None:
            self._rng = np.random.default_rng([seed, 1])
            self._reset_ids = self._draw_ids(self._worlds.all)
        self.is_start = False
        return self._observation(self._worlds.reset(self._worlds.all, self._reset_ids.tolist())), {}

    def step(self, actions: Any, auto_reset: bool = True) -> tuple[Any, ...]:
        """One control step: observation, reward [N], terminated [N], truncated [N], infos."""
        observations, rewards, terminated, truncated, infos = self._chunk(_numbers(actions)[:, None], auto_reset)
        return observations[0], rewards[:, 0], terminated[:, 0], truncated[:, 0], infos[0]

    def chunk_step(self, chunk_actions: Any) -> tuple[Any, ...]:
        """K control steps [N, K, A], of which the last alone is drawn.

        Returns:
            One observation; rewards, terminations and truncations [N, K]; one infos.
        """
        return self._chunk(_numbers(chunk_actions), self.auto_reset)

    def update_reset_state_ids(self) -> None:
        """Goes on to the next beginnings."""
        self._epoch += 1
        self._reset_ids = self._draw_ids(self._worlds.all)

    def offload(self) -> None:
        """Frees device memory; the next reset or step takes it again."""
        self._worlds.offload()

    def close(self) -> None:
        """Lets go of the worlds."""
        self._worlds.close()

    def _chunk(self, actions: np.ndarray, auto_reset: bool) -> tuple[Any, ...]:
        if actions.ndim != 3 or len(actions) != self.num_envs:
            raise ActionError(f"chunk actions must be [{self.num_envs}, K, A]; they have shape {actions.shape}")
        shape = actions.shape[:2]
        rewards, terminated, truncated = np.zeros(shape, np.float32), np.zeros(shape, bool), np.zeros(shape, bool)
        going = np.ones(self.num_envs, bool)
        for k in range(shape[1]):
            ids = np.flatnonzero(going)
            if not len(ids):
                break
            step = self._worlds.step(ids, actions[ids, k], render=False)
            rewards[ids, k], terminated[ids, k], truncated[ids, k] = step.rewards, step.terminated, step.truncated
            going[ids] = ~(step.terminated | step.truncated)
        now = self._worlds.look(self._worlds.all)
        observation, told = self._observation(now), _told(now)
        if auto_reset and not going.all():
            observation, told = self._begin_again(~going, observation, told)
        if self.auto_reset or self.ignore_terminations:
            terminated, truncated = _in_the_last_column(terminated), _in_the_last_column(truncated)
        as_tensors = (torch.from_numpy(value) for value in (rewards, terminated, truncated))
        return [observation], *as_tensors, [told]

    def _begin_again(
        self, ended: np.ndarray, observation: dict[str, Any], told: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """New episodes in the worlds that have ended, and beside them what those last saw and were."""
        ids = np.flatnonzero(ended)
        self._reset_ids[ids] = self._draw_ids(ids)
        new = self._observation(self._worlds.reset(ids, self._reset_ids[ids].tolist()))
        mask = torch.from_numpy(ended)
        final = {"final_observation": observation, "final_info": told, "_final_info": mask, "_final_observation": mask}
        now = dict(observation)
        for name in ("main_images", "wrist_images", "extra_view_images", "states"):
            if now[name] is not None:
                now[name] = now[name].clone()
                now[name][ids] = new[name]
        return now, {**told, **final}

    def _observation(self, step: Step) -> dict[str, Any]:
        """The five keys that RLinf hands to policies."""
        assert step.pictures is not None
        picture = {name: torch.from_numpy(kinds["rgb"]) for name, kinds in step.pictures.items()}
        extra = [picture[name] for name in self._extra]
        return {
            "main_images": picture[self._main],
            "wrist_images": picture[self._wrist] if self._wrist else None,
            "extra_view_images": torch.stack(extra, 1) if extra else None,
            "states": torch.from_numpy(step.states),
            "task_descriptions": self.task_descriptions,
        }

    def _draw_ids(self, worlds: np.ndarray) -> np.ndarray:
        """[n] reset ids of worlds; those of a group are equal where the configuration fixes them."""
        cfg = self.cfg
        specific = cfg.get("specific_reset_id", None)
        if specific is not None:
            return np.full(len(worlds), int(specific), np.int64)
        group = int(cfg.get("group_size", 1) or 1)
        if cfg.get("use_ordered_reset_state_ids", False) or cfg.get("is_eval", False):
            first = self._epoch * self.num_envs * self._instances + self._number * self.num_envs
            return first + worlds.astype(np.int64)
        if cfg.get("use_fixed_reset_state_ids", False):
            rows = np.random.default_rng([self.seed, 2, self._epoch]).integers(_EPISODES, size=self.num_envs // group)
            return np.repeat(rows, group)[worlds]
        return self._rng.integers(_EPISODES, size=len(worlds))


def _told(step: Step) -> dict[str, Any]:
    """RLinf's infos: what it averages over episodes, and how long they are."""
    infos, length = step.infos, np.maximum(step.infos["elapsed_steps"], 1)
    facts = {
        "success_once": infos["success_once"],
        "success_at_end": infos["success"],
        "return": infos["return"].astype(np.float32),
        "episode_len": infos["elapsed_steps"],
        "reward": (infos["return"] / length).astype(np.float32),
    }
    episode = {name: torch.from_numpy(value) for name, value in facts.items()}
    return {"episode": episode, "_elapsed_steps": torch.from_numpy(infos["elapsed_steps"].copy())}


def _in_the_last_column(flags: np.ndarray) -> np.ndarray:
    """Whether any was set in a chunk, told in its last column: the one that RLinf looks at."""
    told = np.zeros_like(flags)
    told[:, -1] = flags.any(1)
    return told


def _numbers(actions: Any) -> np.ndarray:
    if isinstance(actions, torch.Tensor):
        actions = actions.detach().cpu().numpy()
    return np.asarray(actions, np.float64)


def _plain(config: Any) -> dict[str, Any]:
    """A configuration of OmegaConf or a mapping as a dictionary."""
    if isinstance(config, Mapping) and not hasattr(config, "_metadata"):
        return dict(config)
    made = importlib.import_module("omegaconf").OmegaConf.to_container(config, resolve=True)
    assert isinstance(made, dict)
    return {str(name): value for name, value in made.items()}


def _device(wanted: str, worker_info: Any) -> str:
    """A torch device; visible devices are isolated, so a worker's own accelerator has index 0."""
    if wanted != "worker":
        return resolve(wanted).torch_device
    kind = str(getattr(worker_info, "accelerator_type", "NO_ACCEL") or "NO_ACCEL").rpartition(".")[2]
    if kind == "NO_ACCEL":
        return "cpu"
    from recon4d.accelerators import accelerators

    for status in accelerators().values():
        if status.rlinf_type == kind and status.count:
            return status.devices[0].torch_device
    raise ConfigError(f"RLinf gave this worker an accelerator of type {kind}, and none is there; set device: cpu")
