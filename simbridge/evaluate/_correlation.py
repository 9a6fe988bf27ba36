"""Does simulation tell which policy is better? Agreement of success rates in simulation and in reality.

Position i of ``sim`` and ``real`` is policy i. The independent unit is a separately trained policy: checkpoints of one
training run, seeds of the evaluation and tasks add rows, not evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from simbridge.errors import EvaluationError
from simbridge.evaluate._statistics import Interval, Values, checked_confidence, checked_counts, finite, same_length

FEW_POLICIES = 6
"""Under this, ranks of the best agreement possible may still be chance, and resampling repeats itself."""
_PAIRS_AT_ONCE = 2_000_000
"""Pairs of policies that are held in memory while resampling: 16 MB an array."""


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """A correlation of rates. ``value`` is NaN, or ``interval`` None, with ``reason`` saying why."""

    value: float
    policies: int
    interval: Interval | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()


class Cell(NamedTuple):
    """Trials of one policy under one condition, and what they weigh in the policy's mean rate."""

    successes: int
    trials: int
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """Percentile intervals of every figure; None where less than half of the draws give one."""

    draws: int
    confidence: float
    pearson: Interval | None
    spearman: Interval | None
    kendall: Interval | None
    mmrv: Interval | None
    undefined: dict[str, int] = field(default_factory=dict)
    """Draws by figure in which it does not exist, since all rates of a side were equal. They are left out."""


def pearson(*, sim: Values, real: Values, confidence: float = 0.95) -> Correlation:
    """Pearson's r of success rates with Fisher's interval. Binomial noise in the rates pulls it towards 0.

    Args:
        sim: rates in simulation, [0, 1].
        real: rates in reality, [0, 1].
        confidence: of the interval.

    Returns:
        NaN with a reason when one side's rates are all equal; no interval for three policies and fewer.

    Raises:
        EvaluationError: no policy, unequal lengths, or a rate that is not within [0, 1].
    """
    s, r = _rates(sim, real)
    count = len(s)
    reason = _without_spread(s, r)
    if reason:
        return Correlation(value=math.nan, policies=count, reason=reason)
    found: Any = stats.pearsonr(s, r)
    value = float(np.clip(found.statistic, -1, 1))
    interval = fisher_interval(value, count, confidence)
    if interval is None:
        reason = f"an interval needs at least 4 policies; there are {count}"
    elif abs(value) == 1:
        reason = "r is exactly 1 in size: Fisher's interval has no width there, and says nothing"
    return Correlation(value=value, policies=count, interval=interval, reason=reason, warnings=_too_few(count))


def fisher_interval(r: float, policies: int, confidence: float = 0.95) -> Interval | None:
    """Interval of a Pearson correlation by Fisher's z; None for three policies and fewer.

    Raises:
        EvaluationError: ``r`` is not within [-1, 1].
    """
    if not -1 <= r <= 1:
        raise EvaluationError(f"r is {r}; a correlation lies within [-1, 1]")
    z = float(stats.norm.ppf(0.5 + checked_confidence(confidence) / 2))
    if policies <= 3:
        return None
    if abs(r) == 1:
        return Interval(r, r)
    middle, half = math.atanh(r), z / math.sqrt(policies - 3)
    return Interval(math.tanh(middle - half), math.tanh(middle + half))


def spearman(*, sim: Values, real: Values) -> Correlation:
    """Spearman's rank correlation: Pearson's of ranks, where ties share their mean rank.

    Args:
        sim: rates in simulation, [0, 1].
        real: rates in reality, [0, 1].

    Returns:
        NaN with a reason when one side's rates are all equal; a warning for fewer than 6 policies.

    Raises:
        EvaluationError: no policy, unequal lengths, or a rate that is not within [0, 1].
    """
    return _ranked(sim, real, stats.spearmanr)


def kendall(*, sim: Values, real: Values) -> Correlation:
    """Kendall's tau-b: pairs in the same order less pairs in the other, corrected for ties.

    Args:
        sim: rates in simulation, [0, 1].
        real: rates in reality, [0, 1].

    Returns:
        NaN with a reason when one side's rates are all equal; a warning for fewer than 6 policies.

    Raises:
        EvaluationError: no policy, unequal lengths, or a rate that is not within [0, 1].
    """
    return _ranked(sim, real, stats.kendalltau)


def mmrv(*, sim: Values, real: Values) -> float:
    """Mean maximum rank violation (Li et al. 2024): what trusting simulation's order costs, in rates of success.

    For every policy the largest real difference to a policy that simulation puts on the other side of it, averaged;
    0 is best. The arguments have names because it is **not symmetric**: violations are weighed by differences in
    ``real``, and since "better" is strict, a tie in ``sim`` of policies that differ in ``real`` counts against the
    better of them. With the sides swapped it answers another question with another number.

    Args:
        sim: rates in simulation, [0, 1].
        real: rates in reality, [0, 1].

    Raises:
        EvaluationError: no policy, unequal lengths, or a rate that is not within [0, 1].
    """
    s, r = _rates(sim, real)
    return float(_mmrv(s[None], r[None])[0])


def bootstrap(
    *,
    sim: Sequence[Sequence[Cell]],
    real: Sequence[Sequence[Cell]],
    draws: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
    resample_policies: bool = True,
) -> Resampled:
    """Parametric bootstrap: intervals that know how few trials stand behind every rate.

    Every draw takes new successes of every cell from Bin(n, (k + 1/2) / (n + 1)), new policies with replacement, and
    computes every figure of the rates. The half keeps 0 of n and n of n from being noiseless.

    Args:
        sim: cells of every policy in simulation; a policy's rate is the weighted mean of its cells' rates.
        real: the same in reality, in the same order of policies.
        draws: at least 100.
        seed: the same one gives the same numbers.
        confidence: of the percentile intervals.
        resample_policies: False keeps the policies: what is left is the noise of the trials alone.

    Raises:
        EvaluationError: unequal lengths, no cell, impossible counts or weights, or too few draws.
    """
    same_length("sim", len(sim), "real", len(real))
    if not len(sim) or draws < 100:
        raise EvaluationError(f"{len(sim)} policies, {draws} draws; at least 1 and 100 are needed")
    checked_confidence(confidence)
    generator = np.random.default_rng(seed)
    count = len(sim)
    rates = [np.stack([_drawn(cells, draws, generator) for cells in side], axis=1) for side in (sim, real)]
    if resample_policies:
        chosen = generator.integers(0, count, (draws, count))
        rates = [np.take_along_axis(side, chosen, axis=1) for side in rates]
    step = max(1, _PAIRS_AT_ONCE // count**2)
    chunks = [_all_figures(rates[0][i : i + step], rates[1][i : i + step]) for i in range(0, draws, step)]
    found = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    intervals = {name: _percentiles(values, confidence) for name, values in found.items()}
    undefined = {name: int(np.isnan(values).sum()) for name, values in found.items()}
    return Resampled(draws=draws, confidence=confidence, undefined=undefined, **intervals)


def _rates(sim: Values, real: Values) -> tuple[np.ndarray, np.ndarray]:
    s, r = finite("sim", sim), finite("real", real)
    same_length("sim", len(s), "real", len(r))
    for name, values in (("sim", s), ("real", r)):
        bad = np.flatnonzero((values < 0) | (values > 1))
        if bad.size:
            raise EvaluationError(
                f"'{name}' holds {values[bad[0]]:g} at position {bad[0]}; a success rate lies within"
                " [0, 1]; divide percentages by 100"
            )
    return s, r


def _without_spread(sim: np.ndarray, real: np.ndarray) -> str:
    """Why there is no correlation; empty when there is one."""
    if len(sim) < 2:
        return "a correlation needs at least 2 policies; there is 1"
    flat = [name for name, values in (("sim", sim), ("real", real)) if np.ptp(values) <= 1e-12]
    return f"all rates are equal in {' and '.join(flat)}: nothing to correlate with" if flat else ""


def _too_few(count: int) -> tuple[str, ...]:
    if count >= FEW_POLICIES:
        return ()
    return (f"only {count} policies: even a perfect order has a one-sided chance of 1 in {math.factorial(count)}",)


def _ranked(sim: Values, real: Values, measure: Callable[..., Any]) -> Correlation:
    s, r = _rates(sim, real)
    reason = _without_spread(s, r)
    if reason:
        return Correlation(value=math.nan, policies=len(s), reason=reason)
    return Correlation(value=float(measure(s, r).statistic), policies=len(s), warnings=_too_few(len(s)))


def _drawn(cells: Sequence[Cell], draws: int, generator: np.random.Generator) -> np.ndarray:
    """One policy's mean rate in every draw."""
    weights = np.array([cell.weight for cell in cells], float)
    if not len(weights) or not np.all(np.isfinite(weights) & (weights > 0)):
        raise EvaluationError(f"cells have the weights {weights.tolist()}; there must be one, and all above 0")
    counts = [checked_counts(cell.successes, cell.trials) for cell in cells]
    rates = [generator.binomial(n, (k + 0.5) / (n + 1), draws) / n for k, n in counts]
    return np.tensordot(weights / weights.sum(), np.stack(rates), 1)


def _all_figures(sim: np.ndarray, real: np.ndarray) -> dict[str, np.ndarray]:
    """Every figure of every row of rates [draws, policies]; NaN where there is none."""
    signs = [np.sign(np.round(side[:, :, None] - side[:, None, :], 12)) for side in (sim, real)]
    return {
        "pearson": _cosine(*(side - side.mean(1, keepdims=True) for side in (sim, real))),
        "spearman": _cosine(*(rank - rank.mean(1, keepdims=True) for rank in (_ranks(sim), _ranks(real)))),
        # tau-b is the cosine between the orders of all pairs.
        "kendall": _cosine(*(side.reshape(len(side), -1) for side in signs)),
        "mmrv": _mmrv(sim, real),
    }


def _ranks(rates: np.ndarray) -> np.ndarray:
    return stats.rankdata(np.round(rates, 12), axis=1)


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    norms = np.sqrt((a * a).sum(1) * (b * b).sum(1))
    flat = norms < 1e-12
    return np.where(flat, np.nan, (a * b).sum(1) / np.where(flat, 1.0, norms))


def _mmrv(sim: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Of every row of rates [draws, policies]."""
    # Means over cells can differ in their last bits where they are equal in truth.
    gap_sim, gap_real = (np.round(side[:, :, None] - side[:, None, :], 12) for side in (sim, real))
    violated = (gap_sim > 0) != (gap_real > 0)
    return np.where(violated, np.abs(gap_real), 0.0).max(2).mean(1)


def _percentiles(values: np.ndarray, confidence: float) -> Interval | None:
    known = values[~np.isnan(values)]
    if 2 * len(known) < len(values):
        return None
    low, high = np.quantile(known, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return Interval(float(low), float(high))
