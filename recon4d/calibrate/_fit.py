"""From pictures of a board to cameras: alone, in a chain, together, and once more with what was learnt."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from recon4d.calibrate import _lens
from recon4d.calibrate._board import Board
from recon4d.calibrate._bundle import CAMERA, DELAY, POSE, Noise, Observations, State, adjust, residuals
from recon4d.calibrate._errors import common_noise, deviations, distances, fixed
from recon4d.calibrate._instants import Instants, Picture, by_clock, held_out, pair, select
from recon4d.calibrate._lens import SLOTS, Kind
from recon4d.calibrate._start import board_poses, chain, fit_lens, groups, place_boards, prior_of
from recon4d.errors import CalibrationError
from recon4d.events import ShouldStop

LEAST_PICTURES = 6
"""Of each camera. Its lens has nine numbers, and each picture gives two more than its board's pose takes."""
LEAST_SHARED = 3
"""Instants that two cameras must share to count as connected: of a flat board one can be read in two ways."""
_TAILS = (100.0, 50.0, 25.0, 12.0, 8.0, 6.0, 4.0, 4.0)
"""Degrees of freedom of pictures' noise, round by round. 4 is usual for robust fits (Lange et al. 1989); begun with, it
would hold for right whichever pictures happen to agree first."""
_CLEARLY = 0.95
"""A lens is taken as a fisheye where that leaves a smaller share of the other model's error: most lenses fit both."""
_MISPLACED = 8.0
"""Points further off than so many standard deviations of their picture's typical residual are taken out."""
_ALONE_MOST = 40
"""Pictures that a camera's lens begins from."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What the fit says of cameras in the rig's own frame, that of its reference camera."""

    state: State
    reference: int
    sigma: np.ndarray
    """[C, CAMERA] standard deviations, poses relative to the reference camera."""
    noise_px: np.ndarray
    """[C]"""
    delays_s: np.ndarray
    """[C] how much later each camera's pictures were taken than its clock says, relative to the reference."""
    used: Observations
    used_instants: Instants
    unseen: Observations
    """Of the instants that were held out."""
    unseen_state: State
    """The same cameras, with boards placed at those instants."""
    rejected: np.ndarray
    """[C] int, points taken out."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What is fitted, out of the configuration."""

    board: Board
    names: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    lens: str
    every: int
    most: int
    held_out_every: int
    delay_s: float


def fit(pictures: list[list[Picture]], clock: list[np.ndarray], rules: Rules, should_stop: ShouldStop) -> Fit:
    """Cameras, lenses and boards that explain the pictures.

    Raises:
        CalibrationError: too few pictures, or cameras that share none.
        Stopped: ``should_stop`` said so.
    """
    for name, own in zip(rules.names, pictures, strict=True):
        if len(own) < LEAST_PICTURES:
            raise CalibrationError(
                f"shows the board well in {len(own)} frames; at least {LEAST_PICTURES} are needed, 30 are good",
                camera=name,
            )
    lenses, kinds, own_px = _alone(pictures, rules, should_stop)
    offsets = np.zeros(len(pictures))
    while True:
        shifted = by_clock(clock, offsets)
        instants = pair(pictures, shifted)
        found = _together(instants, lenses, kinds, own_px, rules, should_stop)
        steps = np.array([float(np.median(np.diff(times))) for times in clock])
        # A parabola foretells half a frame well. Beyond that other frames are the nearer ones.
        more = np.where(np.abs(found.state.delays_s) > 0.6 * steps, np.round(found.state.delays_s / steps) * steps, 0)
        if not more.any() or (np.abs(offsets) > 0).any():
            return replace(found, delays_s=found.state.delays_s + offsets)
        offsets, lenses = offsets + more, found.state.lenses


def _alone(
    pictures: list[list[Picture]], rules: Rules, should_stop: ShouldStop
) -> tuple[np.ndarray, tuple[Kind, ...], np.ndarray]:
    """Each camera by itself: lenses [C, SLOTS], their models, and standard deviations [C] px."""
    lenses, kinds, sigma = [], [], []
    for camera, own in enumerate(pictures):
        instants = Instants(
            times_s=np.arange(len(own), dtype=np.float64),
            pictures=tuple(((replace(picture, camera=0), 0.0),) for picture in own),
        )
        size = rules.sizes[camera]
        chosen = instants.only(select(instants, _ALONE_MOST, rules.board, [size]))
        seen = chosen.observations(rules.board)
        models: tuple[Kind, ...] = ("opencv", "fisheye") if rules.lens == "auto" else (_kind(rules.lens),)
        states = [fit_lens(seen, size, kind, should_stop=should_stop) for kind in models]
        spread = [1.4826 * float(np.median(np.abs(residuals(state, seen)))) for state in states]
        best = int(len(states) > 1 and spread[1] < _CLEARLY * spread[0])
        lenses.append(states[best].lenses[0])
        kinds.append(models[best])
        sigma.append(max(spread[best], 0.02))
    return np.stack(lenses), tuple(kinds), np.array(sigma)


def _kind(name: str) -> Kind:
    return "fisheye" if name == "fisheye" else "opencv"


def _together(
    instants: Instants,
    lenses: np.ndarray,
    kinds: tuple[Kind, ...],
    own_px: np.ndarray,
    rules: Rules,
    should_stop: ShouldStop,
) -> Fit:
    shared = instants.shared(len(kinds))
    _refuse_unconnected(shared, rules.names)
    training, aside = held_out(instants, rules.held_out_every)
    training = training[select(instants.only(training), rules.most, rules.board, list(rules.sizes))]
    used = instants.only(training)
    observations = used.observations(rules.board)
    reference, state = _start(lenses, kinds, observations, shared)
    free = np.ones((len(kinds), CAMERA), bool)
    free[:, :SLOTS] = [_lens.used(kind) for kind in kinds]
    free[reference, POSE] = free[reference, DELAY] = False
    prior = prior_of(kinds, list(rules.sizes), rules.delay_s)

    def refined(state: State, observations: Observations, noise: Noise) -> tuple[State, Noise]:
        spent = 6 * len(used) + int(free.sum())
        for tail in _TAILS:
            noise = common_noise(state, observations, replace(noise, tail=tail), own_px, spent)
            state = adjust(state, observations, noise, free, prior, should_stop=should_stop)
        return state, noise

    rough = Noise(sigma_px=np.maximum(own_px, 0.5))
    state = adjust(state, observations, rough, free, prior, should_stop=should_stop)
    state, noise = refined(state, observations, rough)
    keep = _well_placed(state, observations)
    rejected = np.bincount(observations.camera[~keep], minlength=len(kinds))
    observations = observations.only(keep)
    state, noise = refined(state, observations, noise)
    unseen = instants.only(aside).observations(rules.board)
    return Fit(
        state=state,
        reference=reference,
        sigma=deviations(state, observations, noise, free, prior),
        noise_px=noise.sigma_px,
        delays_s=state.delays_s,
        used=observations,
        used_instants=used,
        unseen=unseen,
        unseen_state=placed(state, unseen, len(aside), noise, should_stop),
        rejected=rejected,
    )


def _refuse_unconnected(shared: np.ndarray, names: tuple[str, ...]) -> None:
    found = groups(shared, LEAST_SHARED)
    if len(found) > 1:
        words = " and ".join("(" + ", ".join(f"'{names[i]}'" for i in group) + ")" for group in found)
        raise CalibrationError(
            f"the cameras fall into {len(found)} groups that never see the board together: {words}; two cameras are"
            f" connected by {LEAST_SHARED} instants at which both see it well. Carry the board through what both see,"
            " and check that the videos began together"
        )


def _start(
    lenses: np.ndarray, kinds: tuple[Kind, ...], observations: Observations, shared: np.ndarray
) -> tuple[int, State]:
    poses = _readings(lenses, kinds, observations)
    reference, T_cam_rig = chain(poses, shared)
    state = State(
        kinds=kinds,
        lenses=lenses,
        T_cam_rig=T_cam_rig,
        T_rig_board=np.tile(np.eye(4), (int(observations.view.max()) + 1, 1, 1)),
        delays_s=np.zeros(len(kinds)),
        readouts_s=np.zeros(len(kinds)),
    )
    return reference, place_boards(state, observations, poses)


def _readings(
    lenses: np.ndarray, kinds: tuple[Kind, ...], observations: Observations
) -> dict[tuple[int, int], list[tuple[float, np.ndarray]]]:
    """By camera and view, the poses of the board that the picture allows."""
    poses = {}
    for first, last in zip(observations.starts, [*observations.starts[1:], len(observations)], strict=True):
        camera, own = int(observations.camera[first]), slice(first, last)
        found = board_poses(lenses[camera], kinds[camera], observations.point_m[own], observations.pixel[own])
        if found:
            poses[camera, int(observations.view[first])] = found
    return poses


def _well_placed(state: State, observations: Observations) -> np.ndarray:
    """[n] bool, False for points that lie far off while their picture's others do not."""
    off = distances(state, observations)
    picture = observations.picture
    typical = np.array([np.median(part) for part in np.split(off, observations.starts[1:])])
    floor = np.median(typical)
    return off <= _MISPLACED * np.maximum(typical, floor)[picture]


def placed(state: State, observations: Observations, views: int, noise: Noise, should_stop: ShouldStop) -> State:
    """The same cameras, with a board at each of other instants, placed by what all cameras see of it."""
    state = replace(state, T_rig_board=np.tile(np.eye(4), (views, 1, 1)))
    if len(observations) == 0:
        return state
    state = place_boards(state, observations, _readings(state.lenses, state.kinds, observations))
    still = prior_of(state.kinds, [(1, 1)] * len(state.kinds), 1.0)
    return adjust(state, observations, noise, fixed(state), still, should_stop=should_stop)
