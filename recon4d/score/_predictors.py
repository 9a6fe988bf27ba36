"""Predictors that need no model: what a scene must beat to be worth its fitting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from recon4d.types import Clip, ClipStatistics

PREDICTORS = ("temporal_median", "previous_frame", "neighbour_mean")


def predict(
    training: Clip, statistics: ClipStatistics, instant_s: float, spacing_s: float
) -> Iterator[tuple[str, np.ndarray]]:
    """Guesses of a camera's image at an instant from its own training frames.

    ``previous_frame`` is the training frame nearest to one grid step earlier, ``neighbour_mean`` the mean of it and
    of that nearest to one grid step later. A predictor that lacks a frame on its side of the instant says nothing.

    Args:
        training: the camera's training frames.
        statistics: their median.
        instant_s: the held-out instant, seconds on the capture clock.
        spacing_s: the grid step.

    Yields:
        Name of the predictor and its image, float32 [H, W, 3] in [0, 1].
    """
    yield "temporal_median", _unit(statistics.median)
    before = _frame(training, training.times < instant_s, instant_s - spacing_s)
    after = _frame(training, training.times > instant_s, instant_s + spacing_s)
    if before is not None:
        yield "previous_frame", before
    if before is not None and after is not None:
        yield "neighbour_mean", (before + after) / 2


def _frame(training: Clip, allowed: np.ndarray, time_s: float) -> np.ndarray | None:
    candidates = np.flatnonzero(allowed)
    if not len(candidates):
        return None
    return _unit(training.frames[int(candidates[np.argmin(np.abs(training.times[candidates] - time_s))])])


def _unit(image: np.ndarray) -> np.ndarray:
    return image.astype(np.float32) / np.float32(255)
