"""Replay: recorded real actions played in simulation, and how far the two motions differ.

This is the first gate: where the same actions do not give the same motion, success rates of policies will not agree for
a reason. Poses are ``T_world_x`` [T, 4, 4], one a step, in metres and the same world on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from simbridge.errors import EvaluationError

MEAN_LIMIT = 0.15
"""Mean pose error above which a replay is said to be off."""
INITIAL_LIMIT = 0.02
"""Pose error of the first step above which the two did not begin alike."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One recorded motion, on the control clock."""

    T_world_ee: np.ndarray
    """[T, 4, 4] pose of the end effector."""
    joints: np.ndarray | None = None
    """[T, J] rad; prismatic joints in metres."""
    objects: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """By name: poses [T, 4, 4], and points of the model in its own frame [K, 3]."""
    success: bool | None = None
    """Whether the task was done at the end."""


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How far simulation is behind; ``steps`` is NaN, with ``reason`` saying why, when that cannot be told."""

    steps: float
    seconds: float
    correlation: float
    """Of the velocities at that shift, -1 to 1."""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ReplayErrors:
    """How far a replay is from what it replays."""

    steps: int
    pose_mean: float
    """Metres and half radians, added: :func:`pose_error`."""
    pose_initial: float
    pose_max: float
    position_rmse_m: float
    angle_mean_rad: float
    joint_rmse: float | None
    """Over joints and steps; rad where all joints turn."""
    joint_rmse_each: tuple[float, ...]
    lag: Lag
    add_m: dict[str, float]
    """By object: :func:`average_distance`, mean over steps."""
    same_outcome: bool | None
    """Whether success or failure is the same; None where a side does not say."""
    warnings: tuple[str, ...]


def geodesic_angle(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Angle of the rotation between orientations, rad, [0, pi].

    Args:
        first: rotations [..., 3, 3].
        second: rotations of the same shape.

    Returns:
        [...]: 2 arcsin(|R1 - R2| / (2 sqrt 2)), which stays exact for small angles.
    """
    chord = np.linalg.norm(np.asarray(first) - np.asarray(second), axis=(-2, -1))
    return 2 * np.arcsin(np.clip(chord / (2 * math.sqrt(2)), 0, 1))


def pose_error(*, sim: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Error of every step, as SIMPLER tunes controllers by: metres of distance plus half the angle in radians.

    Args:
        sim: poses [T, 4, 4].
        real: poses of the same steps.

    Returns:
        [T].

    Raises:
        EvaluationError: shapes differ, or a matrix is not a rigid pose.
    """
    a, b = _poses("sim", sim), _poses("real", real)
    _same_steps(len(a), len(b))
    return np.linalg.norm(a[:, :3, 3] - b[:, :3, 3], axis=-1) + geodesic_angle(a[:, :3, :3], b[:, :3, :3]) / 2


def position_rmse(*, sim: np.ndarray, real: np.ndarray) -> float:
    """Root mean square distance of positions [T, 3], in their unit.

    Raises:
        EvaluationError: shapes differ or a value is not finite.
    """
    a, b = _signals(sim, real)
    return float(np.sqrt(np.mean(np.sum((a - b) ** 2, axis=1))))


def joint_rmse(*, sim: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Root mean square error of every joint, [J], of positions [T, J]. Angles are not wrapped: turns count.

    Raises:
        EvaluationError: shapes differ or a value is not finite.
    """
    a, b = _signals(sim, real)
    return np.sqrt(np.mean((a - b) ** 2, axis=0))


def average_distance(points: np.ndarray, *, sim: np.ndarray, real: np.ndarray) -> np.ndarray:
    """ADD: mean distance of a model's points between its two poses, metres, for every step.

    Args:
        points: [K, 3] in the object's frame, metres.
        sim: poses [T, 4, 4].
        real: poses of the same steps.

    Returns:
        [T].

    Raises:
        EvaluationError: shapes are wrong, or a matrix is not a rigid pose.
    """
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points) or not np.isfinite(points).all():
        raise EvaluationError(f"the points have shape {points.shape}; they must be finite and [K, 3], in metres")
    a, b = _poses("sim", sim), _poses("real", real)
    _same_steps(len(a), len(b))
    moved = [points @ T[:, :3, :3].transpose(0, 2, 1) + T[:, None, :3, 3] for T in (a, b)]
    return np.linalg.norm(moved[0] - moved[1], axis=-1).mean(axis=-1)


def lag(*, sim: np.ndarray, real: np.ndarray, dt_s: float, max_steps: int | None = None) -> Lag:
    """How many steps simulation is behind reality, from the cross-correlation of velocities.

    Velocities, since a position that only grows looks the same at every shift. At every shift the overlap is centred
    and normalised, so that a short overlap is not taken for a poor one; a parabola finds the part of a step.

    Args:
        sim: signals [T, D], as joint positions are.
        real: the same in reality.
        dt_s: seconds between steps.
        max_steps: largest shift tried; a quarter of the steps when left out.

    Returns:
        Positive where simulation is late.

    Raises:
        EvaluationError: shapes differ, a value is not finite, or ``dt_s`` is not above 0.
    """
    a, b = (np.diff(side, axis=0) for side in _signals(sim, real))
    if not (math.isfinite(dt_s) and dt_s > 0):
        raise EvaluationError(f"dt_s is {dt_s}; the time between steps must be above 0 seconds")
    reach = len(a) // 4 if max_steps is None else min(max_steps, len(a) - 3)
    if reach < 1:
        return _no_lag(f"{len(a) + 1} steps are too few to shift")
    shifts = np.arange(-reach, reach + 1)
    found = np.array([_shifted_correlation(a, b, int(shift)) for shift in shifts])
    if np.isnan(found).any():
        return _no_lag("a signal moves at a constant speed, or not at all")
    best = int(found.argmax())
    steps = float(shifts[best])
    if best in (0, len(shifts) - 1):
        return _no_lag(f"the best shift, {steps:g} steps, is the largest that was tried")
    left, middle, right = found[best - 1 : best + 2]
    bend = left - 2 * middle + right
    steps += 0.5 * float((left - right) / bend) if bend < 0 else 0.0
    return Lag(steps=steps, seconds=steps * dt_s, correlation=float(middle))


def replay_errors(*, sim: Trace, real: Trace, dt_s: float) -> ReplayErrors:
    """Everything about one replay.

    Args:
        sim: what simulation did when given the recorded actions.
        real: what was recorded.
        dt_s: seconds between steps.

    Raises:
        EvaluationError: numbers of steps, joints or objects differ, or a value is not finite.
    """
    error = pose_error(sim=sim.T_world_ee, real=real.T_world_ee)
    T_sim, T_real = np.asarray(sim.T_world_ee, float), np.asarray(real.T_world_ee, float)
    if (sim.joints is None) != (real.joints is None):
        raise EvaluationError("only one side has joints; give them for both or for neither")
    each: tuple[float, ...] = ()
    if sim.joints is not None and real.joints is not None:
        _same_steps(len(sim.joints), len(error))
        each = tuple(joint_rmse(sim=sim.joints, real=real.joints).tolist())
        late = lag(sim=sim.joints, real=real.joints, dt_s=dt_s)
    else:
        late = lag(sim=T_sim[:, :3, 3], real=T_real[:, :3, 3], dt_s=dt_s)
    same = None if sim.success is None or real.success is None else bool(sim.success) == bool(real.success)
    mean, initial = float(error.mean()), float(error[0])
    return ReplayErrors(
        steps=len(error),
        pose_mean=mean,
        pose_initial=initial,
        pose_max=float(error.max()),
        position_rmse_m=position_rmse(sim=T_sim[:, :3, 3], real=T_real[:, :3, 3]),
        angle_mean_rad=float(geodesic_angle(T_sim[:, :3, :3], T_real[:, :3, :3]).mean()),
        joint_rmse=math.sqrt(sum(value**2 for value in each) / len(each)) if each else None,
        joint_rmse_each=each,
        lag=late,
        add_m=_object_errors(sim, real),
        same_outcome=same,
        warnings=tuple(_findings(mean, initial, late, same)),
    )


def _findings(mean: float, initial: float, late: Lag, same: bool | None) -> list[str]:
    found = []
    if initial > INITIAL_LIMIT:
        found.append(
            f"the first poses differ by {initial:.3f} (limit {INITIAL_LIMIT}): bring the simulation to the recorded"
            " state before the first action"
        )
    if mean > MEAN_LIMIT:
        found.append(
            f"the mean pose error is {mean:.3f} (limit {MEAN_LIMIT}): tune the controllers' gains and delay before"
            " comparing policies"
        )
    if abs(late.steps) >= 1:
        found.append(
            f"simulation is {late.steps:+.1f} steps ({late.seconds:+.3f} s) late: model the delay of the robot"
        )
    if same is False:
        found.append("the replay does not end as the recording does: one succeeds, one fails")
    return found


def _object_errors(sim: Trace, real: Trace) -> dict[str, float]:
    if set(sim.objects) != set(real.objects):
        raise EvaluationError(
            f"objects are {sorted(sim.objects)} in sim and {sorted(real.objects)} in real; name them alike"
        )
    made = {}
    for name, (T_sim, points) in sim.objects.items():
        _same_steps(len(T_sim), len(sim.T_world_ee))
        made[name] = float(average_distance(points, sim=T_sim, real=real.objects[name][0]).mean())
    return made


def _shifted_correlation(sim: np.ndarray, real: np.ndarray, shift: int) -> float:
    """Correlation of ``sim`` with ``real`` ``shift`` steps earlier, over their overlap; NaN without motion."""
    length = len(sim) - abs(shift)
    a, b = sim[max(shift, 0) :][:length], real[max(-shift, 0) :][:length]
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    power = float(np.sqrt(np.sum(a * a) * np.sum(b * b)))
    return float(np.sum(a * b)) / power if power > 1e-15 else math.nan


def _no_lag(reason: str) -> Lag:
    return Lag(steps=math.nan, seconds=math.nan, correlation=math.nan, reason=reason)


def _same_steps(sim: int, real: int) -> None:
    if sim != real:
        raise EvaluationError(
            f"there are {sim} and {real} steps; bring both recordings onto one clock and cut them to the same length"
        )


def _signals(sim: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(sim, dtype=np.float64), np.asarray(real, dtype=np.float64)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1:] != b.shape[1:] or not a.size:
        raise EvaluationError(f"the signals have shapes {a.shape} and {b.shape}; both must be [T, D] with the same D")
    _same_steps(len(a), len(b))
    for name, values in (("sim", a), ("real", b)):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            raise EvaluationError(f"'{name}' holds {values[tuple(bad[0])]} at step {bad[0][0]}, column {bad[0][1]}")
    return a, b


def _poses(name: str, poses: np.ndarray) -> np.ndarray:
    T = np.asarray(poses, dtype=np.float64)
    if T.ndim != 3 or T.shape[1:] != (4, 4) or not len(T):
        raise EvaluationError(f"'{name}' has shape {T.shape}; poses are [T, 4, 4] with at least one step")
    bad = np.flatnonzero(~np.isfinite(T).all(axis=(1, 2)))
    if bad.size:
        raise EvaluationError(f"'{name}' is not finite at step {bad[0]}")
    R = T[:, :3, :3]
    skewed = np.abs(R @ R.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2)) > 1e-3
    other = np.abs(T[:, 3] - [0, 0, 0, 1]).max(axis=1) > 1e-6
    bad = np.flatnonzero(skewed | other | (np.linalg.det(R) < 0))
    if bad.size:
        raise EvaluationError(
            f"'{name}' holds no rigid pose at step {bad[0]}; the upper left 3 × 3 must be a rotation (columns are the"
            " axes of the moving frame), the last row (0, 0, 0, 1)"
        )
    return T
