"""From a policy's numbers in [-1, 1] to what actuators are told."""

from __future__ import annotations

from typing import Literal

import numpy as np

from simbridge.core._physics import Physics
from simbridge.errors import ActionError, ConfigError
from simbridge.types import RobotSpec

Control = Literal["joint_delta", "joint_position", "ee_delta"]

_JOINT_SHARE = 0.04  # Of an actuator's range, that a full action moves its target by.
_REACH_M = 0.03  # That a full action moves the end effector by, along each axis.
_DAMPING = 0.05  # Metres per radian below which a direction counts as one that the arm cannot go.


class Controller:
    """Targets of the actuators, one row a world.

    - ``joint_delta``: each action moves an actuator's target by up to a share of its range.
    - ``joint_position``: each action is a target, -1 and 1 being the limits.
    - ``ee_delta``: three actions move the end effector along the world's axes by damped least squares (Wampler
      1986); actuators must be position servos of the robot's joints, in the same order.
    """

    def __init__(self, robot: RobotSpec, physics: Physics, mode: Control) -> None:
        if mode not in ("joint_delta", "joint_position", "ee_delta"):
            raise ConfigError(f"control is '{mode}'; it may be 'joint_delta', 'joint_position' or 'ee_delta'")
        if mode == "ee_delta" and len(robot.joints) != len(robot.actuators):
            raise ConfigError(
                f"control 'ee_delta' needs one actuator a joint; the robot has {len(robot.joints)} joints and"
                f" {len(robot.actuators)} actuators: use 'joint_delta'"
            )
        self._robot, self._physics, self._mode = robot, physics, mode
        self._slots = np.array(physics.actuators(robot.actuators), np.int64)
        self._low, self._high = np.array(robot.limits, np.float64).T
        self.targets = np.zeros((physics.count, physics.model.nu))

    @property
    def width(self) -> int:
        """How many numbers an action has."""
        return 3 if self._mode == "ee_delta" else len(self._slots)

    def home(self, ids: np.ndarray, joints: np.ndarray) -> None:
        """Sets the targets of worlds ``ids`` [n] to where their joints [n, J] are."""
        self.targets[ids] = 0
        if joints.shape[1] == len(self._slots):
            self.targets[ids[:, None], self._slots] = np.clip(joints, self._low, self._high)

    def check(self, actions: np.ndarray, count: int) -> np.ndarray:
        """[n, A] float64, the actions as numbers.

        Raises:
            ActionError: the shape is another, or a number is not finite.
        """
        actions = np.asarray(actions, np.float64)
        if actions.shape != (count, self.width):
            raise ActionError(f"actions must have shape {(count, self.width)}; they have {actions.shape}")
        bad = ~np.isfinite(actions).all(1)
        if bad.any():
            world = int(np.flatnonzero(bad)[0])
            raise ActionError(f"the action of world {world} is not finite: {actions[world].tolist()}")
        return actions

    def act(self, ids: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moves the targets of worlds ``ids`` [n].

        Returns:
            Control [n, nu], and [n] bool, whose action left [-1, 1] and was cut off there.
        """
        outside = np.any(np.abs(actions) > 1, axis=1)
        actions = np.clip(actions, -1, 1)
        rows = ids[:, None], self._slots
        span = self._high - self._low
        if self._mode == "joint_position":
            wanted = self._low + (actions + 1) / 2 * span
        elif self._mode == "joint_delta":
            wanted = self.targets[rows] + actions * _JOINT_SHARE * span
        else:
            wanted = self.targets[rows] + self._joint_steps(ids, actions * _REACH_M)
        self.targets[rows] = np.clip(wanted, self._low, self._high)
        return self.targets[ids], outside

    def _joint_steps(self, ids: np.ndarray, steps_m: np.ndarray) -> np.ndarray:
        """[n, J] changes of joints that move the end effector by [n, 3] metres."""
        J = self._physics.jacobian(self._robot.site, self._robot.joints, ids)
        squared = J @ J.transpose(0, 2, 1) + _DAMPING**2 * np.eye(3)
        return (J.transpose(0, 2, 1) @ np.linalg.solve(squared, steps_m[..., None]))[..., 0]
