"""Bring the end effector to a ball that only the cameras show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from simbridge.core import Start, View
from simbridge.errors import TaskError
from simbridge.tasks._area import TRIES, Area, bench_height, free_place, goal_area, standing
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
    clearance_m: float = 0.02
    """Least gap between the goal and what stands on the bench: a goal inside a block is neither seen nor reached."""
    heights_m: tuple[float, float] = (0.04, 0.04)
    """Range of the goals' heights above the bench."""
    color: tuple[float, float, float] = (0.9, 0.1, 0.75)
    """Few things on a bench are magenta."""
    max_steps: int = 50

    name = "reach"

    def prepare(self, spec: mujoco.MjSpec, bundle: Bundle) -> tuple[str, ...]:
        self._area = goal_area(bundle, self.area, self.name)
        self._objects = bundle.objects
        self._standing = standing(spec, bundle)
        self._goal(np.random.default_rng(0), {})
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

    def start(self, bundle: Bundle, rng: np.random.Generator, placed: Mapping[str, np.ndarray]) -> Start:
        xy = self._goal(rng, placed)
        goal = np.array([*xy, bench_height(bundle, xy) + rng.uniform(*self.heights_m)])
        return Start(mocap={_GOAL: np.array([*goal, 1.0, 0.0, 0.0, 0.0])}, facts={"goal": goal})

    def states(self, view: View) -> np.ndarray:
        return np.concatenate([view.joints(self._joints), view.site(self._site)], 1)

    def success(self, view: View) -> np.ndarray:
        return self._distance(view) <= self.tolerance_m

    def reward(self, view: View, success: np.ndarray) -> np.ndarray:
        return success - self._distance(view)

    def description(self) -> str:
        return "move the tip of the arm to the magenta ball"

    def _goal(self, rng: np.random.Generator, placed: Mapping[str, np.ndarray]) -> np.ndarray:
        """[2] where a goal lies, metres."""
        things = self._standing.copy()
        for row, thing in enumerate(self._objects):
            if thing.joint in placed:
                things[row, :2] = placed[thing.joint][:2]
        xy = free_place(self._area, things, self.radius_m + self.clearance_m, rng)
        if xy is None:
            (x0, x1), (y0, y1) = self._area
            raise TaskError(
                f"task '{self.name}': {TRIES} goals drawn from x {x0:g} to {x1:g}, y {y0:g} to {y1:g} all met something"
                f" that stands there: widen the area, or lower clearance_m ({self.clearance_m:g})"
            )
        return xy

    def _distance(self, view: View) -> np.ndarray:
        return np.linalg.norm(view.site(self._site) - view.facts["goal"], axis=1)
