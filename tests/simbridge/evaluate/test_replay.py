"""Errors of replayed motions against values worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from simbridge.errors import EvaluationError
from simbridge.evaluate import (
    Trace,
    average_distance,
    geodesic_angle,
    joint_rmse,
    lag,
    pose_error,
    position_rmse,
    replay_errors,
)


def turn(angle: float, axis: tuple[float, float, float] = (0, 0, 1)) -> np.ndarray:
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * K + (1 - math.cos(angle)) * K @ K


def poses(count: int, angle: float = 0.0, shift: tuple[float, float, float] = (0, 0, 0)) -> np.ndarray:
    T = np.tile(np.eye(4), (count, 1, 1))
    T[:, :3, :3] = turn(angle, (1, 2, 3))
    T[:, :3, 3] = shift
    return T


@pytest.mark.parametrize("angle", [0.0, 1e-7, 0.3, 1.5, 3.0, math.pi])
def test_the_angle_is_the_angle(angle: float) -> None:
    R = turn(0.7, (3, -1, 2))
    assert geodesic_angle(R, R @ turn(angle, (1, 2, 3))) == pytest.approx(angle, abs=1e-7 if angle > 3 else 1e-12)


def test_the_pose_error_is_metres_and_half_radians() -> None:
    error = pose_error(sim=poses(3, 0.4, (0.03, 0.04, 0)), real=poses(3))
    assert error == pytest.approx([0.05 + 0.2] * 3)
    assert pose_error(sim=poses(2), real=poses(2)) == pytest.approx([0, 0], abs=1e-12)


def test_roots_of_mean_squares() -> None:
    real = np.zeros((4, 2))
    sim = np.array([[0.1, 0], [-0.1, 0], [0.1, 0], [-0.1, 0.2]])
    assert joint_rmse(sim=sim, real=real) == pytest.approx([0.1, 0.1])
    assert position_rmse(sim=np.full((5, 3), 0.1), real=np.zeros((5, 3))) == pytest.approx(0.1 * math.sqrt(3))


def test_add_is_the_mean_distance_of_points() -> None:
    points = np.array([[0.1, 0, 0], [-0.1, 0, 0], [0, 0, 0.5]])
    moved = average_distance(points, sim=poses(2, shift=(0, 0.02, 0)), real=poses(2))
    assert moved == pytest.approx([0.02, 0.02])
    half_turn = np.eye(4)[None].copy()
    half_turn[0, :3, :3] = turn(math.pi)
    # Two points swap places, the one on the axis stays.
    assert average_distance(points, sim=half_turn, real=poses(1)) == pytest.approx([0.4 / 3])


@pytest.mark.parametrize("late", [0, 1, 4, -3])
def test_lag_is_found_and_late_is_positive(late: int) -> None:
    t = np.arange(120)
    wave = np.stack([np.sin(0.11 * t) + 0.5 * np.sin(0.37 * t), np.cos(0.2 * t)], axis=1)
    found = lag(sim=np.roll(wave, late, axis=0)[10:-10], real=wave[10:-10], dt_s=0.05)
    assert found.steps == pytest.approx(late, abs=0.05)
    assert found.seconds == pytest.approx(0.05 * found.steps)
    assert found.correlation > 0.99


def test_lag_between_steps() -> None:
    t = np.arange(200.0)
    found = lag(sim=np.sin(0.09 * (t - 2.4))[:, None], real=np.sin(0.09 * t)[:, None], dt_s=1.0, max_steps=10)
    assert found.steps == pytest.approx(2.4, abs=0.05)


@pytest.mark.parametrize(
    ("signal", "word"),
    [
        (np.zeros((40, 2)), "constant speed"),
        (np.arange(40.0)[:, None], "constant speed"),
        (np.arange(3.0)[:, None] ** 2, "too few"),
    ],
)
def test_lag_that_cannot_be_told_says_why(signal: np.ndarray, word: str) -> None:
    found = lag(sim=signal, real=signal, dt_s=0.1)
    assert math.isnan(found.steps)
    assert word in found.reason


def test_lag_beyond_what_was_tried_says_so() -> None:
    wave = np.sin(0.05 * np.arange(300))[:, None]
    found = lag(sim=wave[:-20], real=wave[20:], dt_s=0.1, max_steps=5)
    assert math.isnan(found.steps)
    assert "5 steps" in found.reason


def _trace(count: int = 60, late: int = 0) -> Trace:
    t = np.arange(count) - late
    T = poses(count)
    T[:, 0, 3] = 0.2 * np.sin(0.15 * t)
    joints = np.stack([np.sin(0.15 * t), np.cos(0.3 * t)], axis=1)
    cube = np.array([[0.02, 0.02, 0.02], [-0.02, -0.02, -0.02]])
    return Trace(T_world_ee=T, joints=joints, objects={"cube": (poses(count), cube)}, success=True)


def test_a_replay_of_itself_has_no_error() -> None:
    found = replay_errors(sim=_trace(), real=_trace(), dt_s=0.1)
    figures = [found.pose_mean, found.pose_max, found.position_rmse_m, found.angle_mean_rad, found.joint_rmse]
    assert figures == pytest.approx([0] * 5, abs=1e-12)
    assert found.add_m == {"cube": pytest.approx(0)}
    assert found.lag.steps == pytest.approx(0, abs=1e-6)
    assert found.same_outcome is True
    assert found.warnings == ()


def test_warnings_name_what_is_off() -> None:
    real = _trace()
    sim = _trace(late=3)
    shifted = sim.T_world_ee + 0
    shifted[:, 2, 3] += 0.2
    found = replay_errors(sim=replace(sim, T_world_ee=shifted, success=False), real=real, dt_s=0.1)
    assert found.pose_mean > 0.2
    assert found.lag.steps == pytest.approx(3, abs=0.1)
    assert found.same_outcome is False
    for word, sentence in zip(("first poses", "mean pose", "+3.0 steps", "one fails"), found.warnings, strict=True):
        assert word in sentence


@pytest.mark.parametrize(("mean", "initial", "count"), [(0.149, 0.019, 0), (0.151, 0.019, 1), (0.149, 0.021, 1)])
def test_limits_are_015_and_002(mean: float, initial: float, count: int) -> None:
    T = poses(50)
    T[1:, 2, 3] = (mean * 50 - initial) / 49
    T[0, 2, 3] = initial
    found = replay_errors(sim=Trace(T_world_ee=T), real=Trace(T_world_ee=poses(50)), dt_s=0.1)
    assert len(found.warnings) == count
    assert found.joint_rmse is None
    assert found.same_outcome is None
    assert "constant speed" in found.lag.reason


def _with(T: np.ndarray, where: tuple, value: float) -> np.ndarray:
    T = T.copy()
    T[where] = value
    return T


@pytest.mark.parametrize(
    ("T", "word"),
    [
        (poses(4), "4 and 5 steps"),
        (np.zeros((5, 3, 3)), r"\[T, 4, 4\]"),
        (np.zeros((0, 4, 4)), r"\[T, 4, 4\]"),
        (_with(poses(5), (2, 0, 3), math.nan), "not finite at step 2"),
        (_with(poses(5), (3, 0, 0), 2.0), "no rigid pose at step 3"),
        (_with(poses(5), (1, 2, 2), -1.0), "no rigid pose at step 1"),
        (poses(5, shift=(1, 2, 3)).transpose(0, 2, 1), "no rigid pose at step 0"),
    ],
)
def test_poses_that_are_none_are_refused(T: np.ndarray, word: str) -> None:
    with pytest.raises(EvaluationError, match=word):
        pose_error(sim=T, real=poses(5))


def test_sides_that_differ_are_refused() -> None:
    real = _trace()
    for sim, word in (
        (replace(real, joints=None), "only one side has joints"),
        (replace(real, joints=np.zeros((60, 3))), "shapes"),
        (replace(real, joints=np.zeros((59, 2))), "59 and 60"),
        (replace(real, objects={}), "name them alike"),
        (replace(real, joints=_with(np.zeros((60, 2)), (7, 1), math.inf)), "step 7, column 1"),
    ):
        with pytest.raises(EvaluationError, match=word):
            replay_errors(sim=sim, real=real, dt_s=0.1)
    with pytest.raises(EvaluationError, match="dt_s is 0"):
        replay_errors(sim=real, real=real, dt_s=0)
    with pytest.raises(EvaluationError, match="points have shape"):
        average_distance(np.zeros((0, 3)), sim=poses(1), real=poses(1))
