"""The joint fit's descent on views in a fixed order: what two devices, or two backends, can be compared by."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from recon4d.model import Gaussians4D
from recon4d.train._config import FitConfig
from recon4d.train._joint import joint_step
from recon4d.train._optimize import ROUND, Descent, View


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """How a descent went."""

    losses: np.ndarray
    """[steps] float32, each step's own loss before it moved anything."""
    rollbacks: int
    """Rounds that were made again because a number had stopped being finite."""
    seconds: float
    """Of all rounds, each with its waits for the device."""


def rehearse(
    model: Gaussians4D,
    views: Sequence[View],
    config: FitConfig,
    *,
    distance_m: float,
    on_round: Callable[[int], None] = lambda step: None,
) -> Rehearsal:
    """Makes ``config.joint.steps`` steps of the joint fit; the k-th looks at the k-th view, beginning anew at the end.

    Everything is as in :func:`recon4d.train.fit_joint`, but that no view is drawn at random: rates, their decay, the
    terms of the loss and their turns, the colours behind everything, the rounds and the guard around them.

    Args:
        model: changed in place, where it is.
        views: with targets and weights on the model's device.
        config: ``joint``, ``loss``, ``ssim_every`` and ``backend`` count.
        distance_m: of the workspace, which the rates of positions are shares of.
        on_round: told how many steps are done.

    Raises:
        TrainingDiverged: numbers stopped being finite, and rolling back did not help.
    """
    begun, steps = time.monotonic(), config.joint.steps
    rates = (config.joint.static_rates, config.joint.rates)
    descent = Descent(model, rates, distance_m, (0.0, 0.0, 0.0), config.backend)
    losses: list[np.ndarray] = []
    step = rollbacks = 0
    while step < steps:
        size = min(ROUND, steps - step)
        descent.round(joint_step(config, k, views[k % len(views)]) for k in range(step, step + size))
        if not descent.end_round(step + size)[1]:
            rollbacks += 1
            continue
        step += size
        losses.append(descent.losses)
        on_round(step)
    seconds = time.monotonic() - begun
    return Rehearsal(losses=np.concatenate(losses), rollbacks=rollbacks, seconds=seconds)
