"""What a task is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import mujoco
import numpy as np

from simbridge.core._physics import Physics
from simbridge.types import Bundle


@dataclass(frozen=True, kw_only=True)
class Start:
    """How one episode begins."""

    joints: dict[str, np.ndarray] = field(default_factory=dict)
    """Positions by joint; a free joint's are xyz and wxyz."""
    mocap: dict[str, np.ndarray] = field(default_factory=dict)
    """[7] xyz and wxyz by mocap body."""
    facts: dict[str, np.ndarray | float] = field(default_factory=dict)
    """What the task needs again to judge, and ``info`` tells."""


@dataclass(frozen=True)
class View:
    """What a task sees of n worlds."""

    physics: Physics
    ids: np.ndarray
    """[n] int64, which worlds."""
    facts: Mapping[str, np.ndarray]
    """[n, ...] by name, from the worlds' beginnings."""

    def position(self, body: str) -> np.ndarray:
        """[n, 3] metres."""
        return self.physics.position(body, self.ids)

    def site(self, name: str) -> np.ndarray:
        """[n, 3] metres."""
        return self.physics.site(name, self.ids)

    def joints(self, names: tuple[str, ...]) -> np.ndarray:
        """[n, J] rad or m."""
        return self.physics.joints(names, self.ids)


class Task(Protocol):
    """One thing to do, on any bundle that has what it needs. Add one: a module in ``simbridge.tasks``."""

    name: str
    max_steps: int
    """Control steps after which an episode is cut off."""

    def prepare(self, spec: mujoco.MjSpec, bundle: Bundle) -> tuple[str, ...]:
        """Adds what the task shows or needs to the model. Returns the bodies added, which are drawn as they look.

        Raises:
            TaskError: the bundle lacks something.
        """
        ...

    def start(self, bundle: Bundle, rng: np.random.Generator, placed: Mapping[str, np.ndarray]) -> Start:
        """Draws the beginning of an episode.

        Args:
            placed: [7] xyz and wxyz by joint of objects whose beginnings are given; the task may place the others.
        """
        ...

    def states(self, view: View) -> np.ndarray:
        """[n, D] float32, what the robot knows of itself. Nothing of what only its cameras could tell."""
        ...

    def success(self, view: View) -> np.ndarray:
        """[n] bool."""
        ...

    def reward(self, view: View, success: np.ndarray) -> np.ndarray:
        """[n] float32, of one control step."""
        ...

    def description(self) -> str:
        """The task in words, for a policy that is told."""
        ...


def to_info(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as ``info`` holds them: copies."""
    return {name: np.array(value, copy=True) for name, value in facts.items()}
