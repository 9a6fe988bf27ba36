"""Where the fit begins: lenses one by one, then poses along a tree of cameras that saw the board together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from scipy.spatial.transform import Rotation

from recon4d.calibrate import _lens
from recon4d.calibrate._bundle import CAMERA, DELAY, READOUT, Noise, Observations, Prior, State, adjust, residuals
from recon4d.calibrate._lens import ASPECT, CENTRE_Y, COEFFICIENTS, SLOTS, Kind
from recon4d.events import ShouldStop, never

_FOCALS = (0.35, 0.5, 0.7, 1.0, 1.5, 2.2)
"""Focal lengths to begin from, over the picture's longer side: fields of view from 110 to 26 degrees."""
_READOUT_S = 0.02
"""Standard deviation of how long a picture is read out: none of global shutters, up to a frame's 33 ms of others."""
_ROUGH, _FINE = Noise(sigma_px=np.array([1.0])), Noise(sigma_px=np.array([0.2]))


def board_poses(
    lens: np.ndarray, kind: Kind, points_m: np.ndarray, pixels: np.ndarray
) -> list[tuple[float, np.ndarray]]:
    """The one or two poses [4, 4] (T_cam_board) that a picture of a flat board allows, best first, each with the
    median distance of its points in pixels (IPPE: Collins and Bartoli 2014)."""
    rays = _lens.undistorted(lens, kind, pixels)
    if not np.isfinite(rays).all():
        return []
    _, turns, shifts, _ = cv2.solvePnPGeneric(points_m, rays, np.eye(3), None, flags=cv2.SOLVEPNP_IPPE)
    found = []
    for turn, shift in zip(turns, shifts, strict=True):
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = cv2.Rodrigues(turn)[0], shift.ravel()
        seen = points_m @ T[:3, :3].T + T[:3, 3]
        if np.isfinite(T).all() and (seen[:, 2] > 0).all():
            error = np.linalg.norm(_lens.project(lens, kind, seen)[0] - pixels, axis=-1)
            found.append((float(np.median(error)), T))
    return sorted(found, key=lambda item: item[0])


def prior_of(kinds: tuple[Kind, ...], sizes: list[tuple[int, int]], delay_s: float) -> Prior:
    """What is known of cameras: their lenses as lenses are, their delays as far as videos were synchronised."""
    mean, precision = np.zeros((len(kinds), CAMERA)), np.zeros((len(kinds), CAMERA))
    for index, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        mean[index, :SLOTS], spread = _lens.expected(kind, *size)
        precision[index, :SLOTS] = 1 / spread**2
    precision[:, DELAY] = 1 / delay_s**2
    precision[:, READOUT] = 1 / _READOUT_S**2
    return Prior(mean=mean, precision=precision)


def fit_lens(
    observations: Observations, size: tuple[int, int], kind: Kind, *, should_stop: ShouldStop = never
) -> State:
    """One camera alone, from several focal lengths: first with little distortion, then with all that fits."""
    lens_only = np.zeros((1, CAMERA), bool)
    lens_only[:, :SLOTS] = _lens.used(kind)
    few = lens_only.copy()
    few[:, COEFFICIENTS + 1 : SLOTS] = False
    few[:, ASPECT : CENTRE_Y + 1] = False
    prior = prior_of((kind,), [size], 1.0)
    states = [_alone(observations, _lens.plain(f * max(size), *size), kind) for f in _FOCALS]
    states = sorted(states, key=lambda state: _median(state, observations))[:3]
    states = [adjust(s, observations, _ROUGH, few, prior, should_stop=should_stop) for s in states]
    best = min(states, key=lambda state: _median(state, observations))
    return adjust(best, observations, _FINE, lens_only, prior, should_stop=should_stop)


def _alone(observations: Observations, lens: np.ndarray, kind: Kind) -> State:
    poses = np.tile(np.eye(4), (observations.view.max() + 1, 1, 1))
    for view in np.unique(observations.view):
        own = observations.view == view
        found = board_poses(lens, kind, observations.point_m[own], observations.pixel[own])
        poses[view] = found[0][1] if found else _in_front()
    return State(
        kinds=(kind,),
        lenses=lens[None],
        T_cam_rig=np.eye(4)[None],
        T_rig_board=poses,
        delays_s=np.zeros(1),
        readouts_s=np.zeros(1),
    )


def _in_front() -> np.ndarray:
    T = np.eye(4)
    T[2, 3] = 1.0
    return T


def _median(state: State, observations: Observations) -> float:
    return float(np.median(np.linalg.norm(residuals(state, observations), axis=-1)))


def groups(pairs: np.ndarray, least: int) -> list[list[int]]:
    """Cameras that hang together, largest group first; pairs [C, C] counts the views that two cameras share."""
    count, label = connected_components(csr_array(pairs >= least), directed=False)
    found = [np.flatnonzero(label == index).tolist() for index in range(count)]
    return sorted(found, key=len, reverse=True)


def chain(poses: Mapping[tuple[int, int], list[tuple[float, np.ndarray]]], pairs: np.ndarray) -> tuple[int, np.ndarray]:
    """Cameras' poses in the axes of the one that shares most views.

    Args:
        poses: By camera and view the poses T_cam_board that it allows, best first.
        pairs: [C, C] int, views that two cameras share; connected.

    Returns:
        That camera, and T_cam_rig [C, 4, 4].
    """
    reference = int(np.argmax(pairs.sum(0)))
    cost = np.where(pairs > 0, 1.0 / np.maximum(pairs, 1), 0.0)
    tree = minimum_spanning_tree(csr_array(cost))
    order, before = breadth_first_order(tree, reference, directed=False)
    T = np.tile(np.eye(4), (len(pairs), 1, 1))
    for camera in order[1:]:
        T[camera] = _between(poses, int(camera), int(before[camera])) @ T[before[camera]]
    return reference, T


def _between(poses: Mapping[tuple[int, int], list[tuple[float, np.ndarray]]], a: int, b: int) -> np.ndarray:
    """T_a_b that most of their shared views agree on: the one nearest to all others, then the mean of those near it."""
    shared = [view for camera, view in poses if camera == a and (b, view) in poses]
    candidates = np.stack(
        [Ta @ np.linalg.inv(Tb) for view in shared for _, Ta in poses[a, view] for _, Tb in poses[b, view]]
    )
    relative = candidates[:, None, :3, :3].swapaxes(-1, -2) @ candidates[None, :, :3, :3]
    turn = np.arccos(np.clip((np.trace(relative, axis1=-2, axis2=-1) - 1) / 2, -1, 1))
    shift = np.linalg.norm(candidates[:, None, :3, 3] - candidates[None, :, :3, 3], axis=-1)
    distance = turn + shift / max(float(np.median(np.linalg.norm(candidates[:, :3, 3], axis=-1))), 1e-6)
    # Of the up to four readings of a view at most one is right, so a right one is near to at least one a view.
    reach = np.sort(distance, axis=1)[:, : max(1, (len(shared) + 1) // 2)].mean(1)
    near = distance[np.argmin(reach)] <= 3 * max(float(reach.min()), 1e-6)
    T = np.eye(4)
    T[:3, :3] = Rotation.from_matrix(candidates[near, :3, :3]).mean().as_matrix()
    T[:3, 3] = np.median(candidates[near, :3, 3], axis=0)
    return T


def place_boards(
    state: State, observations: Observations, poses: Mapping[tuple[int, int], list[tuple[float, np.ndarray]]]
) -> State:
    """Each view's board as that one of its cameras' readings which all its cameras agree with best."""
    placed = state.T_rig_board.copy()
    for view in np.unique(observations.view):
        seen = replace(observations.only(observations.view == view))
        seen = replace(seen, view=np.zeros(len(seen), int))
        readings = [
            np.linalg.inv(state.T_cam_rig[camera]) @ T
            for camera in np.unique(seen.camera)
            for _, T in poses.get((int(camera), int(view)), [])
        ]
        if readings:
            trials = [replace(state, T_rig_board=reading[None]) for reading in readings]
            placed[view] = readings[int(np.argmin([_median(trial, seen) for trial in trials]))]
    return replace(state, T_rig_board=placed)
