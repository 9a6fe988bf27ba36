"""Lenses against OpenCV, and the adjustment against a solver that was written by others."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from scipy.optimize import least_squares

from recon4d.calibrate import _lens
from recon4d.calibrate._bundle import CAMERA, DELAY, POSE, Noise, Observations, State, adjust, at_instants, residuals
from recon4d.calibrate._errors import deviations
from recon4d.calibrate._start import chain, groups, prior_of
from recon4d.geometry import look_at

LENSES = {
    "opencv": np.array([800, 1.01, 640, 360, -0.2, 0.05, 0.002, -0.003, 0.01]),
    "fisheye": np.array([500, 0.99, 630, 370, 0.02, -0.01, 0.003, 0.001, 0.0]),
}


@pytest.mark.parametrize("kind", ["opencv", "fisheye"])
def test_lenses_are_opencvs_and_their_derivatives_right(kind: _lens.Kind) -> None:
    points = np.random.default_rng(0).normal(size=(30, 3)) * [0.5, 0.5, 0.1] + [0, 0, 1.5]
    lens = LENSES[kind]
    pixels, d_point, d_lens = _lens.project(lens, kind, points)
    module = cv2.fisheye if kind == "fisheye" else cv2
    shaped, still = points.reshape(-1, 1, 3), np.zeros(3)
    K, k = _lens.matrix(lens), _lens.coefficients(lens, kind)
    expected = module.projectPoints(shaped, still, still, K, k)[0].reshape(-1, 2)
    np.testing.assert_allclose(pixels, expected, atol=1e-9)
    step = 1e-6
    for axis, move in enumerate(np.eye(3) * step):
        slope = (_lens.project(lens, kind, points + move)[0] - _lens.project(lens, kind, points - move)[0]) / (2 * step)
        np.testing.assert_allclose(d_point[:, :, axis], slope, atol=1e-5)
    for slot, move in enumerate(np.eye(_lens.SLOTS) * step):
        slope = (_lens.project(lens + move, kind, points)[0] - _lens.project(lens - move, kind, points)[0]) / (2 * step)
        np.testing.assert_allclose(d_lens[:, :, slot], slope, atol=1e-5)


def world(noise_px: float, seed: int = 0, late_s: float = 0.0) -> tuple[State, Observations]:
    """Two cameras, ten boards of 5x4 points; the state that is true, and what is seen."""
    rng = np.random.default_rng(seed)
    grid = np.stack([*np.meshgrid(np.arange(5) * 0.06, np.arange(4) * 0.06), np.zeros((4, 5))], -1).reshape(-1, 3)
    boards = np.tile(np.eye(4), (10, 1, 1))
    for board in boards:
        board[:3, :3] = cv2.Rodrigues(rng.uniform(-0.5, 0.5, 3))[0] @ np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
        board[:3, 3] = rng.uniform(-0.15, 0.15, 3)
    cameras = np.stack([look_at(np.array(place), np.zeros(3)) for place in ((-0.3, -1.0, 0.2), (0.4, -0.9, 0.3))])
    lenses = np.stack([LENSES["opencv"], [700, 1.0, 650, 350, 0.05, -0.03, 0, 0.001, 0]])
    rig = cameras @ np.linalg.inv(cameras[0])
    state = State(
        kinds=("opencv", "opencv"),
        lenses=lenses,
        T_cam_rig=rig,
        T_rig_board=cameras[0] @ boards,
        delays_s=np.array([0.0, late_s]),
        readouts_s=np.array([0.015, 0.0]),
    )
    count = len(grid)
    camera, view = np.repeat([0, 1], 10 * count), np.tile(np.repeat(np.arange(10), count), 2)
    seen = Observations(
        camera=camera,
        view=view,
        point_m=np.tile(grid, (20, 1)),
        pixel=np.zeros((20 * count, 2)),
        motion=rng.normal(0, 40, (20, 1, 2)).repeat(count, 1).reshape(-1, 2),
        bend=rng.normal(0, 60, (20, 1, 2)).repeat(count, 1).reshape(-1, 2),
        late_s=np.zeros(20 * count),
        row=np.tile(grid[:, 1] / 0.18 - 0.5, 20),
    )
    delay = (state.delays_s[camera] + state.readouts_s[camera] * seen.row)[:, None]
    moved = residuals(state, seen) + at_instants(state, seen)
    pixel = moved + delay * seen.motion - delay**2 / 2 * seen.bend
    return state, replace(seen, pixel=pixel + rng.normal(0, noise_px, pixel.shape))


FREE = np.ones((2, CAMERA), bool)
FREE[0, POSE] = FREE[0, DELAY] = False


def shaken(state: State, seed: int) -> State:
    rng = np.random.default_rng(seed)
    step = rng.normal(0, 1, (2, CAMERA)) * [9, 0.002, 9, 9, *[0.01] * 2, *[1e-3] * 2, 0.01, *[0.02] * 6, 0.01, 0.01]
    return state.moved(np.where(FREE, step, 0), rng.normal(0, 0.02, (len(state.T_rig_board), 6)))


def test_without_noise_the_truth_is_found_with_the_delay() -> None:
    state, seen = world(0.0, late_s=0.03)
    prior = prior_of(state.kinds, [(1280, 720)] * 2, 0.2)
    prior = replace(prior, precision=1e-9 * prior.precision)
    found = adjust(shaken(state, 1), seen, Noise(sigma_px=np.ones(2)), FREE, prior)
    np.testing.assert_allclose(found.lenses[:, :4], state.lenses[:, :4], atol=1e-3)
    np.testing.assert_allclose(found.T_cam_rig, state.T_cam_rig, atol=1e-6)
    np.testing.assert_allclose(found.delays_s, state.delays_s, atol=1e-6)
    np.testing.assert_allclose(found.readouts_s, state.readouts_s, atol=1e-6)


def test_the_adjustment_agrees_with_scipys_least_squares() -> None:
    """Without outliers: the cost is plain least squares, and both find its minimum."""
    state, seen = world(0.2)
    prior = prior_of(state.kinds, [(1280, 720)] * 2, 0.2)
    noise = Noise(sigma_px=np.full(2, 10.0))  # So large that no residual is in the robust part.
    mine = adjust(shaken(state, 2), seen, noise, FREE, prior)
    count = int(FREE.sum())

    def at(x: np.ndarray) -> State:
        step = np.zeros((2, CAMERA))
        step[FREE] = x[:count]
        return state.moved(step, x[count:].reshape(-1, 6))

    def cost(x: np.ndarray) -> np.ndarray:
        there = at(x)
        return np.concatenate(
            [(residuals(there, seen) / 10).ravel(), (np.sqrt(prior.precision) * prior.off(there))[FREE]]
        )

    theirs = at(least_squares(cost, np.zeros(count + 60), x_scale="jac", xtol=1e-14, ftol=1e-14, gtol=1e-14).x)
    np.testing.assert_allclose(mine.lenses[:, :4], theirs.lenses[:, :4], atol=0.02)
    np.testing.assert_allclose(mine.T_cam_rig, theirs.T_cam_rig, atol=1e-4)


def test_a_misplaced_point_and_a_picture_of_another_time_change_little() -> None:
    state, seen = world(0.1)
    pixel = seen.pixel.copy()
    pixel[::37] += 25.0
    last = seen.starts[-1]
    pixel[last:] += 6.0
    prior = prior_of(state.kinds, [(1280, 720)] * 2, 0.2)
    noise = Noise(sigma_px=np.full(2, 0.1), tail=4.0)
    seen = replace(seen, pixel=pixel)
    trusting = adjust(state, seen, Noise(sigma_px=np.full(2, 50.0)), FREE, prior)
    rough = adjust(state, seen, Noise(sigma_px=np.ones(2)), FREE, prior)
    found = adjust(rough, seen, noise, FREE, prior)
    true = np.linalg.inv(state.T_cam_rig[1])[:3, 3]
    errors = [np.linalg.norm(np.linalg.inv(s.T_cam_rig[1])[:3, 3] - true) for s in (found, trusting)]
    assert errors[0] < 0.006
    assert errors[0] < 0.2 * errors[1]


def test_error_bars_hold_what_repeated_trials_show() -> None:
    """Twelve trials: offsets over their bars have a root mean square near one; naive bars are right here, so none of
    the larger of three may be much too small."""
    ratios = []
    for seed in range(12):
        state, seen = world(0.2, seed)
        prior = prior_of(state.kinds, [(1280, 720)] * 2, 0.2)
        noise = Noise(sigma_px=np.full(2, 0.2))
        found = adjust(state, seen, noise, FREE, prior)
        sigma = deviations(found, seen, noise, FREE, prior)
        ratios += [(found.lenses[c, 0] - state.lenses[c, 0]) / sigma[c, 0] for c in range(2)]
        ratios += list((found.T_cam_rig[1, :3, 3] - state.T_cam_rig[1, :3, 3]) / sigma[1, POSE][3:])
    assert 0.4 < np.sqrt(np.mean(np.square(ratios))) < 1.4


def test_cameras_that_share_no_view_fall_into_groups() -> None:
    pairs = np.array([[0, 9, 2, 0], [9, 0, 0, 0], [2, 0, 0, 5], [0, 0, 5, 0]])
    assert sorted(map(sorted, groups(pairs, 3))) == [[0, 1], [2, 3]]
    assert len(groups(pairs, 2)) == 1


def test_poses_along_the_tree_survive_wrong_readings() -> None:
    """A flat board can be read in two ways, and a third of the readings are plain wrong."""
    state, _ = world(0.0)
    rng = np.random.default_rng(3)
    poses = {}
    for camera in range(2):
        for view in range(9):
            true = state.T_cam_rig[camera] @ state.T_rig_board[view]
            wrong = true.copy()
            wrong[:3, :3] = true[:3, :3] @ cv2.Rodrigues(rng.uniform(0.3, 1.0, 3))[0]
            poses[camera, view] = [(0.1, wrong), (0.1, true)] if view % 3 == 0 else [(0.1, true), (0.2, wrong)]
    reference, T = chain(poses, np.array([[0, 9], [9, 0]]))
    np.testing.assert_allclose(T[1] @ np.linalg.inv(T[0]), state.T_cam_rig[1], atol=1e-6)
    assert reference == 0
