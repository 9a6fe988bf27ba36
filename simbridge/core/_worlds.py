"""The batched core that all skins share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import mujoco
import numpy as np

from recon4d.errors import ConfigError
from simbridge.core._control import Control, Controller
from simbridge.core._physics import Physics
from simbridge.core._randomise import Draw, Randomisation, draw
from simbridge.core._sensors import Pictures, SensorConfig, Sensors, blank
from simbridge.core._task import Start, Task, View, to_info
from simbridge.errors import BundleError, TaskError
from simbridge.mjcf import geom_splats
from simbridge.types import Bundle, RobotSpec


@dataclass(frozen=True, kw_only=True)
class WorldsConfig:
    """How worlds run."""

    sensors: SensorConfig = field(default_factory=SensorConfig)
    randomisation: Randomisation = field(default_factory=Randomisation)
    control: Control = "joint_delta"
    control_hz: float = 10.0
    """Actions a second; a whole number of physics steps each."""
    placements: Literal["drawn", "bundle"] = "drawn"
    """Where objects begin: as the task draws them, or as the bundle's ``initial_conditions.json`` lists them, episode
    by episode and then from the first again. Goals are drawn in either case."""
    home_noise: float = 0.02
    """Half-width of each joint's place at the beginning, as a share of its actuator's range."""
    max_steps: int | None = None
    """Control steps of an episode; the task's own when None."""
    end_on_success: bool = True
    """Whether success ends an episode."""
    threads: int = 0
    """Of the physics; 0 takes all CPUs."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What n worlds give after a step. All arrays are fresh."""

    pictures: Pictures | None
    """None when nothing was to be drawn."""
    states: np.ndarray
    """[n, D] float32."""
    rewards: np.ndarray
    """[n] float32."""
    terminated: np.ndarray
    """[n] bool."""
    truncated: np.ndarray
    """[n] bool."""
    success: np.ndarray
    """[n] bool, at this step."""
    infos: dict[str, np.ndarray]
    """[n, ...] by name. ``blank`` [n, C], where something was drawn: the camera sees one colour alone, as from within a
    thing or away from the scene."""


class Worlds:
    """W worlds of a bundle in which a task is done.

    An episode is named by a whole number and is the same whichever world plays it, and however many there are: all
    that differs from another comes from a generator seeded by the core's seed and that number.

    Args:
        bundle: the scene.
        task: what is done in it.
        count: W.
        seed: of all episodes.

    Raises:
        TaskError: the bundle lacks what the task needs.
        BundleError: the model has not what the bundle says.
        ConfigError: a value is out of range.
    """

    def __init__(
        self, bundle: Bundle, task: Task, count: int, *, seed: int = 0, config: WorldsConfig | None = None
    ) -> None:
        config = config or WorldsConfig()
        if count < 1:
            raise ConfigError(f"there must be at least one world; {count} were asked for")
        self.bundle, self.task, self.count, self.seed, self.config = bundle, task, count, seed, config
        self.robot = _robot(bundle, task)
        self._placed = _placed(bundle) if config.placements == "bundle" else ({},)
        spec = mujoco.MjSpec.from_file(str(bundle.model_path))
        added = task.prepare(spec, bundle)
        model = spec.compile()
        self.substeps = _substeps(model, config.control_hz)
        self.physics = Physics(model, count, config.threads)
        self.controller = Controller(self.robot, self.physics, config.control)
        extra = [part for part in geom_splats(model, sh_degree=_degree(bundle)) if part.body in added]
        self.sensors = Sensors(bundle, extra, self.physics, config.sensors, config.randomisation)
        self.max_steps = config.max_steps or task.max_steps
        self._original = {name: getattr(model, name).copy() for name in ("body_mass", "body_inertia", "geom_friction")}
        self._episodes = np.full(count, -1, np.int64)
        self._elapsed = np.zeros(count, np.int64)
        self._returns = np.zeros(count)
        self._succeeded = np.zeros(count, bool)
        self._facts: dict[str, np.ndarray] = {}
        self._draws: list[Draw | None] = [None] * count
        self.state_width = self.reset(self.all[:1], [0], render=False).states.shape[1]

    @property
    def all(self) -> np.ndarray:
        """[W] int64, every world."""
        return np.arange(self.count)

    def reset(self, ids: np.ndarray, episodes: Sequence[int], *, render: bool = True) -> Step:
        """Puts worlds ``ids`` [n] to the beginnings of ``episodes`` [n]."""
        starts, joints, ctrl = [], [], np.zeros((len(ids), self.physics.model.nu))
        for world, episode in zip(ids, episodes, strict=True):
            start, home = self._begin(int(world), int(episode))
            starts.append(start)
            placed = self._placement(int(episode))
            joints.append(dict(zip(self.robot.joints, home[:, None], strict=True)) | placed | start.joints)
        self._set_physics(ids)
        self.physics.reset(ids, joints, [start.mocap for start in starts], ctrl)
        self.controller.home(ids, self.physics.joints(self.robot.joints, ids))
        self._episodes[ids], self._elapsed[ids] = episodes, 0
        self._returns[ids], self._succeeded[ids] = 0.0, False
        self._remember(ids, starts)
        return self.look(ids, render=render)

    def step(self, ids: np.ndarray, actions: np.ndarray, *, render: bool = True) -> Step:
        """Advances worlds ``ids`` [n] by one control step.

        Args:
            actions: [n, A], in [-1, 1]; what lies outside is cut off, which ``infos["clipped"]`` tells.
            render: whether to draw.

        Raises:
            ActionError: actions have another shape, or are not finite.
        """
        actions = self.controller.check(actions, len(ids))
        ctrl, outside = self.controller.act(ids, actions)
        unstable = self.physics.step(ids, ctrl, self.substeps)
        self._elapsed[ids] += 1
        return self._after(ids, outside, unstable, render)

    def look(self, ids: np.ndarray, *, render: bool = True) -> Step:
        """Worlds ``ids`` [n] as they are, without a step: no reward, no end."""
        view = self._view(ids)
        return self._seen(view, self.task.success(view), render)

    def _seen(self, view: View, success: np.ndarray, render: bool) -> Step:
        """A step without rewards and ends of worlds that have been judged."""
        ids, no = view.ids, np.zeros(len(view.ids), bool)
        infos = {
            **to_info(view.facts),
            "episode_id": self._episodes[ids].copy(),
            "initial_state": self._episodes[ids] % len(self._placed) if self._placed[0] else self._episodes[ids].copy(),
            "success": success.copy(),
            "success_once": self._succeeded[ids].copy(),
            "return": self._returns[ids].copy(),
            "elapsed_steps": self._elapsed[ids].copy(),
            "clipped": no.copy(),
            "unstable": no.copy(),
            **self._randomised(ids),
        }
        pictures = self.sensors.draw(ids) if render else None
        if pictures is not None and "rgb" in self.config.sensors.kinds:
            infos["blank"] = np.stack([blank(kinds["rgb"]) for kinds in pictures.values()], 1)
        return Step(
            pictures=pictures,
            states=self.task.states(view).astype(np.float32),
            rewards=np.zeros(len(ids), np.float32),
            terminated=no.copy(),
            truncated=no.copy(),
            success=success,
            infos=infos,
        )

    def offload(self) -> None:
        """Frees device memory until something is drawn again."""
        self.sensors.offload()

    def close(self) -> None:
        """Lets go of everything."""
        self.sensors.offload()
        self.physics.close()

    def _begin(self, world: int, episode: int) -> tuple[Start, np.ndarray]:
        """How the episode begins: the task's beginning and the joints [J]."""
        start_seed, draw_seed, noise_seed = np.random.SeedSequence([self.seed, episode]).spawn(3)
        rng = np.random.default_rng(start_seed)
        low, high = np.array(self.robot.limits, np.float64).T
        home = np.array(self.robot.home, np.float64)
        if len(home) == len(low):
            home = np.clip(home + rng.uniform(-1, 1, len(home)) * self.config.home_noise * (high - low), low, high)
        start = self.task.start(self.bundle, rng, self._placement(episode))
        drawn = draw(self.config.randomisation, len(self.sensors.cameras), np.random.default_rng(draw_seed))
        self._draws[world] = drawn
        self.sensors.begin(world, drawn, np.random.default_rng(noise_seed))
        return start, home

    def _placement(self, episode: int) -> dict[str, np.ndarray]:
        """Where objects begin by joint, as far as the bundle is to say."""
        return self._placed[episode % len(self._placed)]

    def _set_physics(self, ids: np.ndarray) -> None:
        """Masses and frictions of the worlds' episodes."""
        random = self.config.randomisation
        if random.mass_share:
            bodies = [self.physics.body(thing.body) for thing in self.bundle.objects]
            for name in ("body_mass", "body_inertia"):
                values = self.physics.expand(name)
                for world in ids:
                    values[world, bodies] = self._original[name][bodies] * self._drawn(world).mass
        if random.friction_share:
            values = self.physics.expand("geom_friction")
            for world in ids:
                values[world, :, 0] = self._original["geom_friction"][:, 0] * self._drawn(world).friction
        if random.mass_share:
            self.physics.set_const()

    def _drawn(self, world: int) -> Draw:
        drawn = self._draws[world]
        assert drawn is not None
        return drawn

    def _remember(self, ids: np.ndarray, starts: Sequence[Start]) -> None:
        for name in starts[0].facts:
            values = np.stack([np.asarray(start.facts[name], np.float64) for start in starts])
            if name not in self._facts:
                self._facts[name] = np.zeros((self.count, *values.shape[1:]))
            self._facts[name][ids] = values

    def _after(self, ids: np.ndarray, outside: np.ndarray, unstable: np.ndarray, render: bool) -> Step:
        """What worlds give after a step."""
        view = self._view(ids)
        success = self.task.success(view) & ~unstable
        rewards = np.where(unstable, 0, self.task.reward(view, success)).astype(np.float32)
        self._returns[ids] += rewards
        self._succeeded[ids] |= success
        terminated = success & self.config.end_on_success
        truncated = ((self._elapsed[ids] >= self.max_steps) | unstable) & ~terminated
        now = self._seen(view, success, render)
        infos = {**now.infos, "clipped": outside, "unstable": unstable}
        return replace(now, rewards=rewards, terminated=terminated, truncated=truncated, infos=infos)

    def _view(self, ids: np.ndarray) -> View:
        return View(self.physics, ids, {name: value[ids] for name, value in self._facts.items()})

    def _randomised(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """What was drawn for the worlds' episodes."""
        if self.config.randomisation == Randomisation():
            return {}
        draws = [self._drawn(world) for world in ids]
        return {
            "randomised/mass": np.array([drawn.mass for drawn in draws]),
            "randomised/friction": np.array([drawn.friction for drawn in draws]),
            "randomised/latency": np.array([drawn.latency for drawn in draws]),
            "randomised/focal": np.array([[c.focal for c in drawn.cameras] for drawn in draws]),
            "randomised/exposure": np.array([[c.exposure for c in drawn.cameras] for drawn in draws]),
            "randomised/T_cam_moved": np.array([[c.T_cam_moved for c in drawn.cameras] for drawn in draws]),
        }


def _robot(bundle: Bundle, task: Task) -> RobotSpec:
    if bundle.robot is None:
        raise TaskError(f"task '{task.name}' moves a robot, and {bundle.path} has none: give one when bundling")
    return bundle.robot


def _placed(bundle: Bundle) -> tuple[dict[str, np.ndarray], ...]:
    """[7] xyz and wxyz by joint of each of the bundle's initial conditions."""
    joints = {thing.body: thing.joint for thing in bundle.objects}
    if not bundle.initial_conditions or not joints:
        raise TaskError(
            f"{bundle.path} lists no initial conditions: use placements='drawn', or bundle again with objects and"
            " initial_conditions of at least 1"
        )
    listed = []
    for number, condition in enumerate(bundle.initial_conditions):
        poses = {}
        for name, at in condition.get("objects", {}).items():
            pose = _pose(at)
            if name not in joints or pose is None:
                raise BundleError(
                    f"{bundle.path}/initial_conditions.json: beginning {number} of '{name}' is {at}; it must name an"
                    f" object ({', '.join(joints)}) and give position [3] in metres and quat [4], wxyz of length 1"
                )
            poses[joints[name]] = pose
        listed.append(poses)
    return tuple(listed)


def _pose(at: Any) -> np.ndarray | None:
    """[7] xyz and wxyz of an entry of the list; None when it gives none."""
    try:
        pose = np.array([*at["position"], *at["quat"]], np.float64)
    except (KeyError, TypeError, ValueError):
        return None
    sound = pose.shape == (7,) and np.isfinite(pose).all() and abs(np.linalg.norm(pose[3:]) - 1) <= 1e-3
    return pose if sound else None


def _degree(bundle: Bundle) -> int:
    return round(bundle.splats[0].splats.sh.shape[1] ** 0.5) - 1


def _substeps(model: mujoco.MjModel, control_hz: float) -> int:
    if not control_hz > 0:
        raise ConfigError(f"control_hz must be positive; it is {control_hz}")
    steps = 1 / (control_hz * model.opt.timestep)
    if abs(steps - round(steps)) > 1e-6 or round(steps) < 1:
        raise ConfigError(
            f"control_hz is {control_hz:g}; one action must last a whole number of physics steps of"
            f" {model.opt.timestep:g} s, so {1 / (max(1, round(steps)) * model.opt.timestep):g} would do"
        )
    return round(steps)
