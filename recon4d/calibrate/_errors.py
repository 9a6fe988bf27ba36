"""How far observations lie from the fit, and how far the fit may lie from the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recon4d.calibrate import _lens
from recon4d.calibrate._board import Board
from recon4d.calibrate._bundle import (
    CAMERA,
    Noise,
    Observations,
    Prior,
    State,
    at_instants,
    normal,
    reduced,
    residuals,
    weights,
)

_BLOCKS = (6, 12)
"""Of how many stretches of the clip the error bars are made, at least and at most; three instants each, or more."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How far points lie from where the fit puts them, in pixels."""

    points: int
    median_px: float
    rms_px: float
    p95_px: float

    @classmethod
    def of(cls, distances: np.ndarray) -> Spread | None:
        """None of nothing."""
        if len(distances) == 0:
            return None
        return cls(
            points=len(distances),
            median_px=float(np.median(distances)),
            rms_px=float(np.sqrt(np.mean(distances**2))),
            p95_px=float(np.percentile(distances, 95)),
        )


def distances(state: State, observations: Observations) -> np.ndarray:
    """[n] px."""
    return np.linalg.norm(residuals(state, observations), axis=-1)


def common_noise(state: State, observations: Observations, noise: Noise, own_px: np.ndarray, spent: int) -> Noise:
    """Noise that the residuals show: each camera's own, and one that all share.

    Each camera's own is what is left over when it is fitted alone. The rest, from pictures that were not taken at one
    instant and boards that bend, is taken as one number: estimated for each camera, it would let the camera that has
    least of it dictate all poses, and have none.

    Args:
        state: The fit.
        observations: What was fitted.
        noise: With which it was fitted.
        own_px: [C] standard deviations of cameras fitted alone.
        spent: How many numbers were estimated.
    """
    r = residuals(state, observations)
    weight = weights(r / noise.sigma_px[observations.camera][:, None], observations, noise)[0]
    correction = 2 * len(r) / max(2 * len(r) - spent, 1)
    excess = (weight[:, None] * (correction * r**2 - own_px[observations.camera][:, None] ** 2)).mean()
    return Noise(sigma_px=np.sqrt(own_px**2 + max(float(excess), 0.0)), tail=noise.tail)


def deviations(state: State, observations: Observations, noise: Noise, free: np.ndarray, prior: Prior) -> np.ndarray:
    """[C, CAMERA] standard deviations of all estimated numbers; 0 of those that are fixed.

    The inverse of the normal matrix believes that every corner errs by itself. Corners of one picture err together,
    with its time, and so do pictures that follow each other, with the part of the volume and the tilt at which they
    show the board. The jackknife (Efron 1982) over single instants and over stretches of the clip measures that, by
    one step of Newton's method for each left out; of the three the largest is given.
    """
    V = len(state.T_rig_board)
    system = reduced(normal(state, observations, noise), free, V)
    known = np.diag(prior.precision[free])
    S = system.S.sum(0) + known
    scale = 1 / np.sqrt(np.maximum(np.diag(S), 1e-300))  # Pixels, radians and coefficients, made of one size.
    inverse = scale * np.linalg.pinv(S * scale * scale[:, None], rcond=1e-13, hermitian=True) * scale[:, None]
    blocks = min(max(V // 3, _BLOCKS[0]), _BLOCKS[1])
    variance = np.diag(inverse).copy()
    for labels in (np.arange(V), np.arange(V) * blocks // max(V, 1)):
        variance = np.maximum(variance, _jackknife(system.S, system.g, S, labels) + np.diag(inverse @ known @ inverse))
    found = np.zeros(free.shape)
    found[free] = np.sqrt(np.maximum(variance, 0))
    return found


def _jackknife(S: np.ndarray, g: np.ndarray, total: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[P] variances, from leaving out the views of one label after the other."""
    sums, scale = np.zeros(len(total)), 1 / np.sqrt(np.maximum(np.diag(total), 1e-300))
    groups = np.unique(labels)
    for label in groups:
        own = labels == label
        rest = (total - S[own].sum(0)) * scale * scale[:, None]
        sums += (scale * np.linalg.lstsq(rest, g[own].sum(0) * scale, rcond=1e-13)[0]) ** 2
    return sums * (len(groups) - 1) / len(groups)


def ruler(state: State, observations: Observations, board: Board) -> tuple[float, int] | None:
    """The square's side in metres as points that several cameras see measure it, and from how many sides; None when
    there are none. Every point is triangulated by itself: that it belongs to a board is not used."""
    pixels = at_instants(state, observations)
    rays = np.empty((len(observations), 2))
    for camera, kind in enumerate(state.kinds):
        own = observations.camera == camera
        if own.any():
            rays[own] = _lens.undistorted(state.lenses[camera], kind, pixels[own])
    T = state.T_cam_rig[observations.camera]
    equations = rays[:, :, None] * T[:, 2:3, :] - T[:, :2, :]  # [n, 2, 4]
    number = np.argmin(np.linalg.norm(observations.point_m[:, None] - board.points_m[None], axis=-1), axis=1)
    sides = []
    for view in np.unique(observations.view):
        places: dict[int, np.ndarray] = {}
        here = observations.view == view
        for point in np.unique(number[here]):
            own = here & (number == point)
            if own.sum() > 1:
                X = np.linalg.svd(equations[own].reshape(-1, 4))[2][-1]
                places[int(point)] = X[:3] / X[3]
        sides += [
            float(np.linalg.norm(places[a] - places[b]))
            for a, b in board.neighbours.tolist()
            if a in places and b in places
        ]
    return (float(np.median(sides)), len(sides)) if sides else None


def fixed(state: State) -> np.ndarray:
    """[C, CAMERA] bool, a mask under which only the board's poses move."""
    return np.zeros((len(state.lenses), CAMERA), bool)
