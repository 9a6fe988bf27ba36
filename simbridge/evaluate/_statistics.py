"""Success rates: intervals of one, differences of two, tests of trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from simbridge.errors import EvaluationError

Values = Sequence[float] | Sequence[bool] | np.ndarray
"""A flat list of numbers or outcomes."""


class Interval(NamedTuple):
    """Both ends of a confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One rate less another."""

    value: float
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """Two policies on the same initial states."""

    both: int
    only_first: int
    """Trials that only the first policy did."""
    only_second: int
    neither: int
    p_value: float
    """Two-sided and exact; 1 where the policies never differ."""


@dataclass(frozen=True, kw_only=True)
class RankTest:
    """A test of whether two samples come from one distribution."""

    statistic: float
    p_value: float
    """A large one is no evidence of a difference, which is not evidence of no difference."""
    reason: str = ""
    """Why the numbers are what they are, where there was nothing to compute."""


def wilson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a success rate. Its coverage is near ``confidence`` on average, even for few trials.

    Args:
        k: successes.
        n: trials, at least 1.
        confidence: within (0, 1).

    Raises:
        EvaluationError: no trial, more successes than trials, or no whole numbers.
    """
    return _proportion(k, n, confidence, "wilson")


def clopper_pearson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """The exact interval of a success rate: coverage is never under ``confidence``, at the price of a wider one.

    Args:
        k: successes.
        n: trials, at least 1.
        confidence: within (0, 1).

    Raises:
        EvaluationError: no trial, more successes than trials, or no whole numbers.
    """
    return _proportion(k, n, confidence, "exact")


def newcombe(k1: int, n1: int, k2: int, n2: int, confidence: float = 0.95) -> Difference:
    """Rate 1 less rate 2 of independent trials, with Newcombe's interval (his method 10) from the two Wilson ones.

    Where both policies met the same initial states, :func:`mcnemar` sees smaller differences.

    Raises:
        EvaluationError: as for :func:`wilson`.
    """
    (low1, high1), (low2, high2) = wilson(k1, n1, confidence), wilson(k2, n2, confidence)
    p1, p2 = k1 / n1, k2 / n2
    value = p1 - p2
    low = value - math.hypot(p1 - low1, high2 - p2)
    high = value + math.hypot(high1 - p1, p2 - low2)
    return Difference(value=value, interval=Interval(low, high))


def mcnemar(first: Values, second: Values) -> PairedTest:
    """Exact McNemar test of two policies on the same initial states: only trials that differ count.

    Args:
        first: outcomes of one policy.
        second: outcomes of the other; trial i began as trial i of ``first``.

    Raises:
        EvaluationError: no trial, unequal lengths, or outcomes other than 0 and 1.
    """
    a, b = outcomes("first", first), outcomes("second", second)
    same_length("first", len(a), "second", len(b))
    only_first, only_second = int(np.sum(a & ~b)), int(np.sum(~a & b))
    differing = only_first + only_second
    p = float(stats.binomtest(only_first, differing, 0.5).pvalue) if differing else 1.0
    return PairedTest(
        both=int(np.sum(a & b)),
        only_first=only_first,
        only_second=only_second,
        neither=int(np.sum(~a & ~b)),
        p_value=p,
    )


def kruskal_wallis(*, sim: Values, real: Values) -> RankTest:
    """Kruskal-Wallis test of one policy's trials in simulation against its trials in reality, corrected for ties.

    Args:
        sim: outcome of every trial in simulation: 0 and 1, or rewards.
        real: outcome of every trial in reality. The numbers of trials may differ.

    Raises:
        EvaluationError: no trial on a side, or an outcome that is not finite.
    """
    a, b = finite("sim", sim), finite("real", real)
    if np.all(np.concatenate([a, b]) == a[0]):  # Every rank is the same: H is 0 / 0.
        return RankTest(statistic=0.0, p_value=1.0, reason=f"every outcome on both sides is {a[0]:g}")
    found = stats.kruskal(a, b)
    return RankTest(statistic=float(found.statistic), p_value=float(found.pvalue))


def mean_of(intervals: Sequence[tuple[float, Interval]], weights: Sequence[float]) -> tuple[float, Interval]:
    """Weighted mean of independent estimates, and its interval from theirs.

    The distances of the ends from the estimates add in squares, as in Newcombe's interval of a difference (Zou and
    Donner 2008). With one estimate it is that estimate's own interval.

    Args:
        intervals: estimates with their intervals.
        weights: one an estimate; of any sum but 0.
    """
    share = np.asarray(weights, float) / np.sum(weights)
    values = np.array([value for value, _ in intervals])
    ends = np.array([list(interval) for _, interval in intervals])
    mean = float(share @ values)
    low = mean - math.sqrt(float(np.sum((share * (values - ends[:, 0])) ** 2)))
    high = mean + math.sqrt(float(np.sum((share * (ends[:, 1] - values)) ** 2)))
    return mean, Interval(max(low, 0.0), min(high, 1.0))


def checked_confidence(confidence: float) -> float:
    """``confidence``, if it is one.

    Raises:
        EvaluationError: it is not within (0, 1).
    """
    if not 0 < confidence < 1:
        raise EvaluationError(f"confidence is {confidence}; it must lie between 0 and 1, as 0.95 does")
    return float(confidence)


def checked_counts(k: int, n: int) -> tuple[int, int]:
    """Successes and trials as integers.

    Raises:
        EvaluationError: no trial, more successes than trials, or no whole numbers.
    """
    for name, value in (("successes", k), ("trials", n)):
        if isinstance(value, bool | np.bool_) or not math.isfinite(value) or int(value) != value:
            raise EvaluationError(f"{name} is {value}; it must be a whole number")
    if n < 1:
        raise EvaluationError(f"trials is {n}; a rate needs at least one")
    if not 0 <= k <= n:
        raise EvaluationError(f"successes is {k} of {n} trials; it must lie between 0 and the trials")
    return int(k), int(n)


def finite(name: str, values: Values) -> np.ndarray:
    """``values`` as a flat float64 array.

    Raises:
        EvaluationError: it is empty, not flat, or holds something that is not a finite number.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"'{name}' must be a flat list of numbers ({error})") from error
    if array.ndim != 1 or not array.size:
        raise EvaluationError(f"'{name}' has shape {array.shape}; it must be a flat list of at least one number")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise EvaluationError(f"'{name}' holds {array[bad[0]]} at position {bad[0]}; every value must be finite")
    return array


def outcomes(name: str, values: Values) -> np.ndarray:
    """Trials as booleans.

    Raises:
        EvaluationError: it is empty or holds something other than 0 and 1.
    """
    array = finite(name, values)
    bad = np.flatnonzero((array != 0) & (array != 1))
    if bad.size:
        raise EvaluationError(f"'{name}' holds {array[bad[0]]} at position {bad[0]}; an outcome is 0 or 1")
    return array.astype(bool)


def same_length(one: str, count: int, other: str, others: int) -> None:
    """Refuses lists that cannot be paired.

    Raises:
        EvaluationError: the lengths differ.
    """
    if count != others:
        raise EvaluationError(f"'{one}' has {count} entries and '{other}' has {others}; they are paired one to one")


def _proportion(k: int, n: int, confidence: float, method: str) -> Interval:
    k, n = checked_counts(k, n)
    found = stats.binomtest(k, n).proportion_ci(checked_confidence(confidence), method=method)
    return Interval(float(found.low), float(found.high))
