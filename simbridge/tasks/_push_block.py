"""Push a block onto a disc."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from simbridge.core import Start, View
from simbridge.errors import TaskError
from simbridge.tasks._area import (
    TRIES,
    Area,
    bench_height,
    first_object,
    footprint,
    goal_area,
    place,
    resting_pose,
)
from simbridge.types import Bundle

_GOAL = "goal"
_LIFT_M = 0.0015  # Of the disc's top above the bench, so that it is seen.


@dataclass
class PushBlock:
    """A block's centre within ``tolerance_m`` of the goal's, seen from above."""

    block: str | None = None
    """Body of the block; the bundle's first object when None."""
    tolerance_m: float = 0.04
    radius_m: float = 0.045
    """Of the disc that is shown."""
    least_way_m: float = 0.12
    """Between the block's beginning and the goal."""
    area: Area | None = None
    """Where goals lie; the box around all places where objects may begin when None."""
    color: tuple[float, float, float] = (0.9, 0.1, 0.75)
    max_steps: int = 120

    name = "push_block"

    def prepare(self, spec: mujoco.MjSpec, bundle: Bundle) -> tuple[str, ...]:
        self._block = first_object(bundle, self.block, self.name)
        (x0, x1), (y0, y1) = goal_area(bundle, self.area, self.name)
        if np.hypot(x1 - x0, y1 - y0) < self.least_way_m:
            raise TaskError(
                f"task '{self.name}': goals lie within {np.hypot(x1 - x0, y1 - y0):.2f} m of each other, and"
                f" least_way_m is {self.least_way_m}: widen the area, or lower least_way_m"
            )
        assert bundle.robot is not None
        self._site, self._joints = bundle.robot.site, bundle.robot.joints
        body = spec.worldbody.add_body(name=_GOAL, mocap=True)
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            size=[self.radius_m, _LIFT_M, 0],
            rgba=[*self.color, 1],
            contype=0,
            conaffinity=0,
        )
        return (_GOAL,)

    def start(self, bundle: Bundle, rng: np.random.Generator, placed: Mapping[str, np.ndarray]) -> Start:
        given = placed.get(self._block.joint)
        block = place(self._block.spawn, rng) if given is None else given[:2]
        area = goal_area(bundle, self.area, self.name)
        goals = [place(area, rng) for _ in range(TRIES)]
        goal = next((g for g in goals if np.linalg.norm(g - block) >= self.least_way_m), goals[-1])
        pose = resting_pose(bundle, self._block, block, rng.uniform(-np.pi, np.pi)) if given is None else given
        taken = [(block, self._block.size_m), (goal, (2 * self.radius_m,) * 3)]
        others = {} if placed else self._others(bundle, taken, rng)
        centre = np.array([*goal, bench_height(bundle, goal)])
        return Start(
            joints={self._block.joint: pose, **others},
            mocap={_GOAL: np.array([*centre, 1.0, 0.0, 0.0, 0.0])},
            facts={"goal": centre, "block_start": pose[:3]},
        )

    def states(self, view: View) -> np.ndarray:
        return np.concatenate([view.joints(self._joints), view.site(self._site)], 1)

    def success(self, view: View) -> np.ndarray:
        return self._left(view) <= self.tolerance_m

    def reward(self, view: View, success: np.ndarray) -> np.ndarray:
        near = np.linalg.norm(view.site(self._site) - view.position(self._block.body), axis=1)
        return success - self._left(view) - 0.3 * near

    def description(self) -> str:
        return f"push the {self._block.body} onto the magenta disc"

    def _left(self, view: View) -> np.ndarray:
        """[n] metres on the bench between block and goal."""
        return np.linalg.norm((view.position(self._block.body) - view.facts["goal"])[:, :2], axis=1)

    def _others(
        self, bundle: Bundle, taken: list[tuple[np.ndarray, tuple[float, ...]]], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Beginnings of the other objects, apart from each other; one for which there is no room is left where it
        is in the model."""
        placed = {}
        for thing in bundle.objects:
            if thing.body == self._block.body:
                continue
            for _ in range(TRIES):
                xy = place(thing.spawn, rng)
                if all(np.linalg.norm(xy - at) > footprint(thing.size_m) + footprint(size) for at, size in taken):
                    taken.append((xy, thing.size_m))
                    placed[thing.joint] = resting_pose(bundle, thing, xy, rng.uniform(-np.pi, np.pi))
                    break
        return placed
