"""Rendered colours fitted to real ones: affine or quadratic, robust against what moved or is wrong in the scene."""

from __future__ import annotations

from typing import Literal

import numpy as np

_TUKEY = 4.685
"""Residuals beyond this many standard deviations have no weight; 95 % efficient on normal noise (Beaton and Tukey)."""
_ROUNDS = 30
_LEAST_NOISE = 1 / 510
"""Half an 8-bit step: an exact fit must not turn rounding into outliers."""


def features(rgb: np.ndarray, kind: Literal["affine", "quadratic"]) -> np.ndarray:
    """[N, K] of colours [N, 3]: (r, g, b, 1), K = 4, or (r^2, g^2, b^2, r, g, b, 1), K = 7."""
    one = np.ones((len(rgb), 1))
    return np.concatenate([rgb * rgb, rgb, one] if kind == "quadratic" else [rgb, one], axis=1)


def fit(rendered: np.ndarray, real: np.ndarray, kind: Literal["affine", "quadratic"]) -> np.ndarray:
    """Iteratively reweighted least squares with Tukey's biweight.

    Args:
        rendered, real: [N, 3] colours in [0, 1] of the same pixels.
        kind: the model.

    Returns:
        [K, 3] float64: real is about features(rendered) @ it.

    Raises:
        ValueError: fewer than 10 pixels a coefficient.
    """
    A = features(rendered, kind)
    if len(A) < 10 * A.shape[1]:
        raise ValueError(f"a {kind} colour fit needs at least {10 * A.shape[1]} pixels; there are {len(A)}")
    weights = np.ones(len(A))
    solution = np.zeros((A.shape[1], 3))
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)[:, None]
        previous, solution = solution, np.linalg.lstsq(root * A, root * real, rcond=None)[0]
        error = np.linalg.norm(A @ solution - real, axis=1)
        noise = max(1.4826 * float(np.median(error)), _LEAST_NOISE)
        weights = np.where(error < _TUKEY * noise, (1 - (error / (_TUKEY * noise)) ** 2) ** 2, 0.0)
        if np.abs(solution - previous).max() < 1e-9:
            break
    return solution


def apply(colour: np.ndarray, rgb: np.ndarray) -> np.ndarray:
    """Colours [..., 3] under a fit [K, 3], kept in [0, 1]."""
    kind: Literal["affine", "quadratic"] = "quadratic" if len(colour) == 7 else "affine"
    return np.clip(features(rgb.reshape(-1, 3), kind) @ colour, 0, 1).reshape(rgb.shape)


def gap_db(first: np.ndarray, second: np.ndarray) -> float:
    """Peak signal to noise ratio of colours in [0, 1], decibel."""
    return float(-10 * np.log10(max(float(((first - second) ** 2).mean()), 1e-10)))
