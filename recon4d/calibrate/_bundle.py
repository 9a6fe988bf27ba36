"""Bundle adjustment: lenses, camera poses and board poses that explain all observations together.

Gauss-Newton with Levenberg's and Marquardt's damping on the normal equations. Each view's six numbers are eliminated
first (Schur's complement; Triggs et al. 2000, "Bundle adjustment: a modern synthesis"), so that what is solved is no
larger than the cameras, and its inverse is what the error bars come from.

A point weighs by Huber's function of its residual in units of its camera's noise. A whole picture weighs by Student's
distribution over its points together, as if each picture had a noise of its own: what is wrong with a picture, such as
the time at which it was taken, is wrong with all of its points. A camera's constant delay is estimated, from how the
board moves in its pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

from recon4d.calibrate import _lens
from recon4d.calibrate._lens import SLOTS, Kind
from recon4d.errors import Stopped
from recon4d.events import ShouldStop, never

CAMERA = SLOTS + 8
"""Numbers of a camera: its lens, a rotation vector and a translation that move T_cam_rig from the left, its delay, and
how long it takes to read a picture out."""
POSE = slice(SLOTS, SLOTS + 6)
DELAY, READOUT = SLOTS + 6, SLOTS + 7
HUBER = 2.0
"""Residuals beyond so many standard deviations weigh less."""
_STEPS = 60
_DONE = 1e-9
"""A step that lowers the cost by a smaller share ends the work."""


@dataclass(frozen=True, kw_only=True)
class Observations:
    """Points of the board in pictures, sorted by camera and then by view."""

    camera: np.ndarray
    """[n] int."""
    view: np.ndarray
    """[n] int: instants at which the board lay somewhere."""
    point_m: np.ndarray
    """[n, 3] float64, where on the board."""
    pixel: np.ndarray
    """[n, 2] float64, pixel centres at 0.5."""
    motion: np.ndarray
    """[n, 2] float64, px/s, how the point moves in the picture."""
    bend: np.ndarray
    """[n, 2] float64, px/s^2, how that changes."""
    late_s: np.ndarray
    """[n] float64, how much later than its instant the picture was taken by its own clock."""
    row: np.ndarray
    """[n] float64, where in the picture, from -0.5 at its top to 0.5 at its bottom."""

    def __len__(self) -> int:
        return len(self.camera)

    def only(self, keep: np.ndarray) -> Observations:
        """Those that a mask or an index keeps."""
        return Observations(**{name: values[keep] for name, values in vars(self).items()})

    @property
    def starts(self) -> np.ndarray:
        """Where each picture (a camera at a view) begins."""
        change = (np.diff(self.camera) != 0) | (np.diff(self.view) != 0)
        return np.flatnonzero(np.concatenate([[len(self) > 0], change]))

    @property
    def picture(self) -> np.ndarray:
        """[n] int, which picture each belongs to, counted from 0."""
        begins = np.zeros(len(self), int)
        begins[self.starts] = 1
        return np.cumsum(begins) - 1


@dataclass(frozen=True, kw_only=True)
class State:
    """What is estimated."""

    kinds: tuple[Kind, ...]
    lenses: np.ndarray
    """[C, SLOTS]"""
    T_cam_rig: np.ndarray
    """[C, 4, 4]"""
    T_rig_board: np.ndarray
    """[V, 4, 4]"""
    delays_s: np.ndarray
    """[C] how much later than its instant the middle of each camera's pictures was taken."""
    readouts_s: np.ndarray
    """[C] how much later a picture's bottom was taken than its top: a rolling shutter."""

    def moved(self, cameras: np.ndarray, views: np.ndarray) -> State:
        """After a step of [C, CAMERA] and [V, 6]."""
        return replace(
            self,
            lenses=self.lenses + cameras[:, :SLOTS],
            T_cam_rig=motion_of(cameras[:, POSE]) @ self.T_cam_rig,
            T_rig_board=motion_of(views) @ self.T_rig_board,
            delays_s=self.delays_s + cameras[:, DELAY],
            readouts_s=self.readouts_s + cameras[:, READOUT],
        )


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How far observations are from their true places."""

    sigma_px: np.ndarray
    """[C] standard deviation of a coordinate in each camera."""
    tail: float = np.inf
    """Degrees of freedom of the distribution of pictures: few mean that some are much worse than others."""


@dataclass(frozen=True, kw_only=True)
class Prior:
    """What is known of cameras before they see anything. It decides where the observations do not."""

    mean: np.ndarray
    """[C, CAMERA]; of a pose's numbers it means nothing."""
    precision: np.ndarray
    """[C, CAMERA] one over the variance; 0 where nothing is known, and of a pose's numbers."""

    def off(self, state: State) -> np.ndarray:
        """[C, CAMERA] how far a state lies from the mean."""
        pose = np.zeros((len(state.lenses), 6))
        times = np.stack([state.delays_s, state.readouts_s], 1)
        return np.concatenate([state.lenses, pose, times], 1) - self.mean

    def cost(self, state: State) -> float:
        return float((self.precision * self.off(state) ** 2).sum())


@dataclass(frozen=True, kw_only=True)
class Normal:
    """The normal equations at a state, one block a picture."""

    cost: float
    camera: np.ndarray
    """[B] int, of each picture."""
    view: np.ndarray
    cc: np.ndarray
    """[B, CAMERA, CAMERA]"""
    cv: np.ndarray
    """[B, CAMERA, 6]"""
    vv: np.ndarray
    """[B, 6, 6]"""
    gc: np.ndarray
    """[B, CAMERA] gradients."""
    gv: np.ndarray
    """[B, 6]"""


def motion_of(twists: np.ndarray) -> np.ndarray:
    """[N, 6] rotation vectors and translations to [N, 4, 4]."""
    T = np.tile(np.eye(4), (len(twists), 1, 1))
    T[:, :3, :3] = Rotation.from_rotvec(twists[:, :3]).as_matrix()
    T[:, :3, 3] = twists[:, 3:]
    return T


def residuals(state: State, observations: Observations) -> np.ndarray:
    """[n, 2] px, projected less observed."""
    return _linearised(state, observations)[0]


def _delay(state: State, observations: Observations) -> np.ndarray:
    camera = observations.camera
    return (state.delays_s[camera] + state.readouts_s[camera] * observations.row + observations.late_s)[:, None]


def at_instants(state: State, observations: Observations) -> np.ndarray:
    """[n, 2] px, where the points were at their instants, from pictures taken a little later or earlier."""
    delay = _delay(state, observations)
    return observations.pixel - delay * observations.motion + delay**2 / 2 * observations.bend


def normal(state: State, observations: Observations, noise: Noise) -> Normal:
    """The normal equations, with robust weights as they are at this state."""
    r, Jc, Jv = _linearised(state, observations)
    sigma = noise.sigma_px[observations.camera][:, None]
    r, Jc, Jv = r / sigma, Jc / sigma[:, :, None], Jv / sigma[:, :, None]
    weight, cost = weights(r, observations, noise)
    w = weight[:, None, None]
    starts = observations.starts

    def summed(product: np.ndarray) -> np.ndarray:
        return np.add.reduceat(product, starts, axis=0)

    Jct, Jvt = Jc.swapaxes(1, 2) * w, Jv.swapaxes(1, 2) * w
    return Normal(
        cost=cost,
        camera=observations.camera[starts],
        view=observations.view[starts],
        cc=summed(Jct @ Jc),
        cv=summed(Jct @ Jv),
        vv=summed(Jvt @ Jv),
        gc=summed((Jct @ r[:, :, None])[..., 0]),
        gv=summed((Jvt @ r[:, :, None])[..., 0]),
    )


def _linearised(state: State, observations: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residuals [n, 2] px, and their derivatives by the camera [n, 2, CAMERA] and by the view [n, 2, 6]."""
    n = len(observations)
    T_board = state.T_rig_board[observations.view]
    T_cam = state.T_cam_rig[observations.camera]
    points_rig = np.einsum("nij,nj->ni", T_board[:, :3, :3], observations.point_m) + T_board[:, :3, 3]
    points_cam = np.einsum("nij,nj->ni", T_cam[:, :3, :3], points_rig) + T_cam[:, :3, 3]
    pixels, d_point, d_lens = np.empty((n, 2)), np.empty((n, 2, 3)), np.empty((n, 2, SLOTS))
    for index, kind in enumerate(state.kinds):
        own = slice(*np.searchsorted(observations.camera, (index, index + 1)))
        pixels[own], d_point[own], d_lens[own] = _lens.project(state.lenses[index], kind, points_cam[own])
    d_delay = (observations.motion - _delay(state, observations) * observations.bend)[:, :, None]
    d_readout = d_delay * observations.row[:, None, None]
    Jc = np.concatenate([d_lens, d_point @ -_cross(points_cam), d_point, d_delay, d_readout], -1)
    d_rig = d_point @ T_cam[:, :3, :3]
    Jv = np.concatenate([d_rig @ -_cross(points_rig), d_rig], -1)
    return pixels - at_instants(state, observations), Jc, Jv


def _cross(v: np.ndarray) -> np.ndarray:
    """[n, 3] to the matrices [n, 3, 3] of the cross product from the left."""
    zero = np.zeros(len(v))
    x, y, z = v.T
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(-1, 3, 3)


def weights(r: np.ndarray, observations: Observations, noise: Noise) -> tuple[np.ndarray, float]:
    """[n] robust weights of residuals [n, 2] in standard deviations, and the cost whose gradient they make."""
    size = np.linalg.norm(r, axis=-1)
    far = size > HUBER
    weight = np.where(far, HUBER / np.maximum(size, HUBER), 1.0)
    loss = np.where(far, 2 * HUBER * size - HUBER**2, size**2)
    starts = observations.starts
    together = np.add.reduceat(loss, starts)
    if not np.isfinite(noise.tail):
        return weight, float(together.sum())
    numbers = 2 * np.diff(np.append(starts, len(size)))
    share = (noise.tail + numbers) / (noise.tail + together)
    cost = ((noise.tail + numbers) * np.log1p(together / noise.tail)).sum()
    return weight * share[observations.picture], float(cost)


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """The cameras' equations after the views have been eliminated, view by view."""

    S: np.ndarray
    """[V, P, P] of the free numbers."""
    g: np.ndarray
    """[V, P]"""
    views: Callable[[np.ndarray], np.ndarray]
    """A step of the free numbers [P] to the step of the views [V, 6]."""


def reduced(equations: Normal, free: np.ndarray, views: int, damping: float = 0.0) -> Reduced:
    """Eliminates the views; free is a mask [C, CAMERA]."""
    C = len(free)
    places = np.flatnonzero(free)
    vv, gv = np.zeros((views, 6, 6)), np.zeros((views, 6))
    np.add.at(vv, equations.view, equations.vv)
    np.add.at(gv, equations.view, equations.gv)
    vv += np.eye(6) * (vv * damping + 1e-12)
    W = np.zeros((views, C, CAMERA, 6))
    W[equations.view, equations.camera] = equations.cv
    W = W.reshape(views, C * CAMERA, 6)[:, places]
    S, g = np.zeros((views, C, CAMERA, C, CAMERA)), np.zeros((views, C, CAMERA))
    diagonal = equations.cc + np.eye(CAMERA) * equations.cc * damping
    S[equations.view, equations.camera, :, equations.camera, :] = diagonal
    g[equations.view, equations.camera] = equations.gc
    S, g = S.reshape(views, C * CAMERA, -1)[:, places][:, :, places], g.reshape(views, -1)[:, places]
    inverse = np.linalg.inv(vv)
    WV = W @ inverse

    def back(step: np.ndarray) -> np.ndarray:
        return -np.einsum("vij,vj->vi", inverse, gv + np.einsum("vai,a->vi", W, step))

    return Reduced(S=S - WV @ W.swapaxes(1, 2), g=g - np.einsum("vai,vi->va", WV, gv), views=back)


def adjust(
    state: State,
    observations: Observations,
    noise: Noise,
    free: np.ndarray,
    prior: Prior,
    *,
    should_stop: ShouldStop = never,
) -> State:
    """The state that lowers the robust cost to its nearest minimum.

    Args:
        state: Where to begin.
        observations: What was seen.
        noise: Weighs it.
        free: [C, CAMERA] bool, which numbers of cameras may change; views always may.
        prior: What is known beforehand.
        should_stop: Asked at every step.

    Raises:
        Stopped: ``should_stop`` said so.
    """
    V, damping = len(state.T_rig_board), 1e-4
    equations = normal(state, observations, noise)
    cost = equations.cost + prior.cost(state)
    for _ in range(_STEPS):
        if should_stop():
            raise Stopped("stopped while fitting; detections are kept")
        system = reduced(equations, free, V, damping)
        S = system.S.sum(0) + np.diag(prior.precision[free])
        change = _solve(S, -system.g.sum(0) - (prior.precision * prior.off(state))[free])
        step = np.zeros(free.shape)
        step[free] = change
        trial = state.moved(step, system.views(change))
        there = normal(trial, observations, noise)
        total = there.cost + prior.cost(trial)
        if np.isfinite(total) and total <= cost:
            done = cost - total <= _DONE * cost
            state, equations, cost, damping = trial, there, total, max(damping / 5, 1e-10)
            if done:
                break
        else:
            damping *= 10
            if damping > 1e8:
                break
    return state


def _solve(S: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Scaled, so that pixels, radians and coefficients of a lens are of one size."""
    if len(g) == 0:
        return g
    scale = 1 / np.sqrt(np.maximum(np.diag(S), 1e-300))
    return scale * np.linalg.lstsq(S * scale * scale[:, None], g * scale, rcond=1e-14)[0]
