"""Gymnasium: one world as an ``Env``, many as a ``VectorEnv``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from simbridge.adapters._episodes import Episodes
from simbridge.bundle import load
from simbridge.core import Step, Task, Worlds, WorldsConfig
from simbridge.errors import ActionError
from simbridge.tasks import make_task, tasks
from simbridge.types import Bundle

Observation = dict[str, Any]
"""``state`` float32 [D], and by camera ``images`` uint8 [H, W, 3], where asked for also ``depths`` float32 [H, W] in
metres and ``segmentations`` int64 [H, W]. Batched: one more axis in front."""

_FAR = 1e4  # Metres or rad: beyond what a bench has.
_GROUPS = {"rgb": "images", "depth": "depths", "segmentation": "segmentations"}


class SplatEnv(gymnasium.Env[Observation, np.ndarray]):
    """One world.

    Args:
        bundle: a bundle or its folder.
        task: a task or its name.
        task_options: of a named task.
        config: how the world runs.
        render_mode: "rgb_array" makes ``render`` give the first camera's picture.

    Raises:
        BundleError, TaskError, ConfigError: see :class:`simbridge.core.Worlds`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - gymnasium's own way.

    def __init__(
        self,
        bundle: Bundle | Path | str,
        task: Task | str = "reach",
        *,
        task_options: dict[str, Any] | None = None,
        config: WorldsConfig | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._worlds = _worlds(bundle, task, task_options, 1, config)
        self.metadata = {**type(self).metadata, "render_fps": self._worlds.config.control_hz}
        self.render_mode = render_mode
        self._episodes = Episodes(1)
        self.observation_space = _observation_space(self._worlds)
        self.action_space = _action_space(self._worlds)
        self._picture: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self._episodes.seed(0, seed)
        ids = np.zeros(1, np.int64)
        return self._first(self._worlds.reset(ids, self._episodes.next(ids)))

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        step = self._worlds.step(np.zeros(1, np.int64), np.asarray(action)[None])
        observation, info = self._first(step)
        return observation, float(step.rewards[0]), bool(step.terminated[0]), bool(step.truncated[0]), info

    def render(self) -> np.ndarray | None:  # type: ignore[reportIncompatibleMethodOverride] - gymnasium's is generic.
        if self.render_mode != "rgb_array" or self._picture is None:
            return None
        return self._picture.copy()

    def close(self) -> None:
        self._worlds.close()

    def _first(self, step: Step) -> tuple[Observation, dict[str, Any]]:
        observation = _item(_observation(step), 0)
        self._picture = next(iter(observation.get("images", {}).values()), None)
        return observation, {name: value[0] for name, value in step.infos.items()}


class SplatVectorEnv(gymnasium.vector.VectorEnv[Observation, np.ndarray, np.ndarray]):
    """Many worlds, stepped and drawn together. Arrays that are given out are never written to again.

    Args:
        bundle: a bundle or its folder.
        task: a task or its name.
        num_envs: how many worlds.
        task_options: of a named task.
        config: how worlds run.
        autoreset_mode: when a world whose episode has ended begins its next one: at the next step, in the same
            step (the last observation is then in ``infos["final_obs"]``), or only when told by ``reset_mask``.
        render_mode: "rgb_array" makes ``render`` give the first camera's picture of every world.
    """

    def __init__(
        self,
        bundle: Bundle | Path | str,
        task: Task | str = "reach",
        num_envs: int = 1,
        *,
        task_options: dict[str, Any] | None = None,
        config: WorldsConfig | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        self._worlds = _worlds(bundle, task, task_options, num_envs, config)
        self._mode = AutoresetMode(autoreset_mode)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": self._worlds.config.control_hz,
            "autoreset_mode": self._mode,
        }
        self.single_observation_space = _observation_space(self._worlds)
        self.single_action_space = _action_space(self._worlds)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._episodes = Episodes(num_envs)
        self._ended = np.zeros(num_envs, bool)
        self._latest: Observation | None = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a new episode in every world, or in those of ``options["reset_mask"]`` [W] bool."""
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(f"there are {self.num_envs} worlds; {len(seeds)} seeds were given")
        mask = _mask((options or {}).get("reset_mask"), self.num_envs)
        ids = np.flatnonzero(mask)
        for world, own in enumerate(seeds or ()):
            if own is not None and mask[world]:
                self._episodes.seed(world, int(own))
        step = self._worlds.reset(ids, self._episodes.next(ids))
        self._ended[ids] = False
        infos = self._infos(step, mask)
        return self._keep(_observation(step), ids), infos

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        observation, *told, infos = self._advance(np.asarray(actions, np.float64)[:, None])
        rewards, terminated, truncated = (value[:, 0] for value in told)
        return observation, rewards, terminated, truncated, infos

    def chunk_step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes K control steps [W, K, A], of which the last alone is drawn.

        A world whose episode ends stands still until the chunk ends; then it begins anew as after ``step``. One that is
        to begin anew in this call does so instead of all its K steps.

        Returns:
            One observation; rewards, terminated and truncated [W, K], zero where a world stood still; infos of each
            world's last step, ``clipped`` and ``unstable`` of any.
        """
        actions = np.asarray(actions, np.float64)
        if actions.ndim != 3 or not actions.shape[1]:
            raise ActionError(f"chunk actions must be [{self.num_envs}, K, A]; they have shape {actions.shape}")
        return self._advance(actions)

    def _advance(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """K steps [W, K, A] and what the mode does after them."""
        if actions.shape[:1] != (self.num_envs,):
            raise ActionError(f"actions must have {self.num_envs} rows, one a world; they have {len(actions)}")
        if self._mode is AutoresetMode.DISABLED and self._ended.any():
            raise RuntimeError(
                f"worlds {np.flatnonzero(self._ended).tolist()} have ended: reset them with options={{'reset_mask': …}}"
            )
        anew = self._ended.copy() if self._mode is AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        going = np.flatnonzero(~anew)
        shape = actions.shape[:2]
        rewards, terminated, truncated = np.zeros(shape), np.zeros(shape, bool), np.zeros(shape, bool)
        infos: dict[str, Any] = {}
        if len(going):
            chunk = _run(self._worlds, going, actions[going])
            rewards[going], terminated[going], truncated[going] = chunk.rewards, chunk.terminated, chunk.truncated
            self._keep(_observation(chunk.last), going)
            infos = self._infos(chunk.last, ~anew)
        self._ended = np.asarray((terminated | truncated).any(1))
        if self._mode is AutoresetMode.SAME_STEP and self._ended.any():
            infos = self._with_final(infos)
            anew, self._ended = self._ended, np.zeros(self.num_envs, bool)
        if anew.any():
            ids = np.flatnonzero(anew)
            step = self._worlds.reset(ids, self._episodes.next(ids))
            self._keep(_observation(step), ids)
            infos = _merged(infos, self._infos(step, anew))
        assert self._latest is not None
        return _copied(self._latest), rewards, terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode != "rgb_array" or self._latest is None:
            return None
        return tuple(next(iter(self._latest["images"].values())).copy())

    def close_extras(self, **kwargs: Any) -> None:
        """Lets go of the worlds."""
        self._worlds.close()

    def offload(self) -> None:
        """Frees device memory until the next picture."""
        self._worlds.offload()

    def _keep(self, observation: Observation, ids: np.ndarray) -> Observation:
        """Writes rows ``ids`` into the latest observation, and gives out a copy of all of it."""
        if self._latest is None:
            self._latest = _zeros(self.observation_space)
        _write(self._latest, observation, ids)
        return _copied(self._latest)

    def _infos(self, step: Step, mask: np.ndarray) -> dict[str, Any]:
        """Facts of the worlds in the mask, with gymnasium's own masks beside them."""
        infos: dict[str, Any] = {}
        for name, value in step.infos.items():
            whole = np.zeros((self.num_envs, *value.shape[1:]), value.dtype)
            whole[mask] = value
            infos[name], infos[f"_{name}"] = whole, mask.copy()
        return infos

    def _with_final(self, infos: dict[str, Any]) -> dict[str, Any]:
        """Facts with the last observation and the facts of the worlds that have just ended."""
        assert self._latest is not None
        ended = self._ended.copy()
        final = np.full(self.num_envs, None, object)
        for world in np.flatnonzero(ended):
            final[world] = _item(_copied(self._latest), int(world))
        facts = {}
        for name, value in infos.items():
            if not name.startswith("_"):
                facts[name], facts[f"_{name}"] = (
                    np.where(_like(ended, value), value, np.zeros_like(value)),
                    ended.copy(),
                )
        return {**infos, "final_obs": final, "_final_obs": ended, "final_info": facts, "_final_info": ended.copy()}


def register() -> None:
    """Registers every task with gymnasium as ``simbridge/Name-v0``; ``bundle=`` is then an argument of ``make``."""
    for name in tasks():
        identity = f"simbridge/{name.title().replace('_', '')}-v0"
        if identity not in gymnasium.registry:
            gymnasium.register(
                identity,
                entry_point="simbridge.adapters.gymnasium:SplatEnv",
                vector_entry_point="simbridge.adapters.gymnasium:SplatVectorEnv",
                kwargs={"task": name},
            )


@dataclass(frozen=True, kw_only=True)
class _Chunk:
    """K steps of n worlds."""

    last: Step
    rewards: np.ndarray
    """[n, K], as the next two."""
    terminated: np.ndarray
    truncated: np.ndarray


def _run(worlds: Worlds, ids: np.ndarray, actions: np.ndarray) -> _Chunk:
    """Takes K steps [n, K, A] in worlds ``ids`` [n], each until its episode ends; nothing happens when one is wrong."""
    if actions.shape[1] == 1:
        step = worlds.step(ids, actions[:, 0])
        columns = (value[:, None] for value in (step.rewards, step.terminated, step.truncated))
        return _Chunk(last=step, **dict(zip(("rewards", "terminated", "truncated"), columns, strict=True)))
    for k in range(actions.shape[1]):
        worlds.controller.check(actions[:, k], len(ids))
    shape = actions.shape[:2]
    rewards, terminated, truncated = np.zeros(shape, np.float32), np.zeros(shape, bool), np.zeros(shape, bool)
    flags = {name: np.zeros(len(ids), bool) for name in ("success", "clipped", "unstable")}
    going = np.arange(len(ids))
    for k in range(shape[1]):
        step = worlds.step(ids[going], actions[going, k], render=False)
        rewards[going, k], terminated[going, k], truncated[going, k] = step.rewards, step.terminated, step.truncated
        flags["success"][going] = step.success
        for name in ("clipped", "unstable"):
            flags[name][going] |= step.infos[name]
        going = going[~(step.terminated | step.truncated)]
        if not len(going):
            break
    now = worlds.look(ids)
    last = replace(now, infos={**now.infos, **flags})
    return _Chunk(last=last, rewards=rewards, terminated=terminated, truncated=truncated)


def _worlds(
    bundle: Bundle | Path | str,
    task: Task | str,
    task_options: dict[str, Any] | None,
    count: int,
    config: WorldsConfig | None,
) -> Worlds:
    loaded = bundle if isinstance(bundle, Bundle) else load(Path(bundle))
    chosen = make_task(task, **(task_options or {})) if isinstance(task, str) else task
    return Worlds(loaded, chosen, count, config=config)


def _observation_space(worlds: Worlds) -> spaces.Dict:
    parts: dict[str, spaces.Space] = {"state": spaces.Box(-_FAR, _FAR, (worlds.state_width,), np.float32)}
    kinds: dict[str, Any] = {
        "rgb": lambda h, w: spaces.Box(0, 255, (h, w, 3), np.uint8),
        "depth": lambda h, w: spaces.Box(0, _FAR, (h, w), np.float32),
        "segmentation": lambda h, w: spaces.Box(-1, np.iinfo(np.int32).max, (h, w), np.int64),
    }
    for kind in worlds.config.sensors.kinds:
        cameras = {camera.name: kinds[kind](camera.height, camera.width) for camera in worlds.sensors.cameras}
        parts[_GROUPS[kind]] = spaces.Dict(cameras)
    return spaces.Dict(parts)


def _action_space(worlds: Worlds) -> spaces.Box:
    return spaces.Box(-1, 1, (worlds.controller.width,), np.float32)


def _observation(step: Step) -> Observation:
    observation: Observation = {"state": step.states}
    for camera, kinds in (step.pictures or {}).items():
        for kind, value in kinds.items():
            observation.setdefault(_GROUPS[kind], {})[camera] = value
    return observation


def _zeros(space: spaces.Space) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: _zeros(part) for name, part in space.spaces.items()}
    return np.zeros(space.shape or (), space.dtype)


def _write(whole: Any, part: Any, ids: np.ndarray) -> None:
    if isinstance(whole, dict):
        for name, value in part.items():
            _write(whole[name], value, ids)
    else:
        whole[ids] = part


def _copied(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: _copied(value) for name, value in observation.items()}
    return observation.copy()


def _item(observation: Any, world: int) -> Any:
    if isinstance(observation, dict):
        return {name: _item(value, world) for name, value in observation.items()}
    return observation[world]


def _merged(infos: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Facts of two sets of worlds."""
    merged = dict(infos)
    for name, value in more.items():
        if name.startswith("_") or name not in merged:
            merged[name] = merged[name] | value if name in merged else value
        else:
            merged[name] = np.where(_like(more[f"_{name}"], value), value, merged[name])
    return merged


def _like(mask: np.ndarray, value: np.ndarray) -> np.ndarray:
    return mask.reshape(-1, *[1] * (value.ndim - 1))


def _mask(mask: Any, count: int) -> np.ndarray:
    if mask is None:
        return np.ones(count, bool)
    mask = np.asarray(mask)
    if mask.shape != (count,) or mask.dtype != np.bool_ or not mask.any():
        raise ValueError(
            f"options['reset_mask'] must be bool [{count}] with a True in it; it is {mask.dtype} {mask.shape}"
        )
    return mask
