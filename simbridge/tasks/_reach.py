"""Bring the end effector to a ball that only the cameras show."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from simbridge.core import Start, View
from simbridge.tasks._area import Area, bench_height, goal_area, place
from simbridge.types import Bundle

_GOAL = "goal"


@dataclass
class Reach:
    """The end effector's site within ``tolerance_m`` of the goal's centre."""

    tolerance_m: float = 0.025
    radius_m: float = 0.02
    """Of the goal that is shown."""
    area: Area | None = None
    """Where goals lie; the box around all places where objects may begin when None."""
    heights_m: tuple[float, float] = (0.04, 0.04)
    """Range of the goals' heights above the bench."""
    color: tuple[float, float, float] = (0.1, 0.85, 0.2)
    max_steps: int = 50

    name = "reach"

    def prepare(self, spec: mujoco.MjSpec, bundle: Bundle) -> tuple[str, ...]:
        goal_area(bundle, self.area, self.name)
        assert bundle.robot is not None
        self._site, self._joints = bundle.robot.site, bundle.robot.joints
        body = spec.worldbody.add_body(name=_GOAL, mocap=True)
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=[self.radius_m, 0, 0],
            rgba=[*self.color, 1],
            contype=0,
            conaffinity=0,
        )
        return (_GOAL,)

    def start(self, bundle: Bundle, rng: np.random.Generator) -> Start:
        xy = place(goal_area(bundle, self.area, self.name), rng)
        goal = np.array([*xy, bench_height(bundle, xy) + rng.uniform(*self.heights_m)])
        return Start(mocap={_GOAL: np.array([*goal, 1.0, 0.0, 0.0, 0.0])}, facts={"goal": goal})

    def states(self, view: View) -> np.ndarray:
        return np.concatenate([view.joints(self._joints), view.site(self._site)], 1)

    def success(self, view: View) -> np.ndarray:
        return self._distance(view) <= self.tolerance_m

    def reward(self, view: View, success: np.ndarray) -> np.ndarray:
        return success - self._distance(view)

    def description(self) -> str:
        return "move the tip of the arm to the green ball"

    def _distance(self, view: View) -> np.ndarray:
        return np.linalg.norm(view.site(self._site) - view.facts["goal"], axis=1)
