"""Intervals and tests against published values, formulas written out, and enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simbridge.errors import EvaluationError
from simbridge.evaluate import clopper_pearson, kruskal_wallis, mcnemar, newcombe, wilson
from simbridge.evaluate._statistics import Interval, mean_of

Z = 1.959963984540054


@pytest.mark.parametrize(
    ("k", "n", "score", "exact"),
    [
        (0, 10, (0, 0.27753), (0, 0.30850)),
        (9, 10, (0.59585, 0.98212), (0.55498, 0.99747)),
        (10, 10, (0.72247, 1), (0.69150, 1)),
        (17, 20, (0.63958, 0.94763), (0.62107, 0.96793)),
        (25, 50, (0.36645, 0.63355), (0.35527, 0.64473)),
        (0, 50, (0, 0.07135), (0, 0.07112)),
    ],
)
def test_intervals_have_their_published_values(k: int, n: int, score: tuple, exact: tuple) -> None:
    assert wilson(k, n) == pytest.approx(score, abs=5e-6)
    assert clopper_pearson(k, n) == pytest.approx(exact, abs=5e-6)


def _at_least(k: int, n: int, p: float) -> float:
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_intervals_are_what_their_definitions_say(counts: tuple[int, int]) -> None:
    k, n = counts
    p = k / n
    centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    assert wilson(k, n) == pytest.approx((centre - half, centre + half), abs=1e-12)
    low, high = clopper_pearson(k, n)
    # At each end the tail beyond what was seen has half of what is left of the confidence.
    assert low == 0 if k == 0 else _at_least(k, n, low) == pytest.approx(0.025, rel=1e-6)
    assert high == 1 if k == n else 1 - _at_least(k + 1, n, high) == pytest.approx(0.025, rel=1e-6)
    assert 0 <= low <= p <= high <= 1


def test_more_confidence_is_wider_and_sides_mirror() -> None:
    for interval in (wilson, clopper_pearson):
        narrow, wide = interval(3, 10, 0.8), interval(3, 10, 0.99)
        assert wide.low < narrow.low < narrow.high < wide.high
        mirrored = interval(7, 10)
        assert interval(3, 10) == pytest.approx((1 - mirrored.high, 1 - mirrored.low))


@pytest.mark.parametrize(
    ("k", "n", "word"),
    [
        (11, 10, "11 of 10"),
        (-1, 10, "-1 of 10"),
        (0, 0, "at least one"),
        (0.5, 10, "whole number"),
        (math.nan, 10, "whole number"),
        (1, math.inf, "whole number"),
        (True, 1, "whole number"),
    ],
)
def test_impossible_counts_are_refused(k: float, n: float, word: str) -> None:
    for call in (wilson, clopper_pearson, lambda k, n: newcombe(1, 2, k, n)):
        with pytest.raises(EvaluationError, match=word):
            call(k, n)  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1, math.nan])
def test_an_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(EvaluationError, match="between 0 and 1"):
        wilson(1, 2, confidence)


def test_numpy_counts_are_counts() -> None:
    assert wilson(np.int64(3), np.int32(10)) == wilson(3, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "interval"),
    [  # Newcombe 1998, table II, method 10.
        ((56, 70, 48, 80), (0.0524, 0.3339)),
        ((9, 10, 3, 10), (0.1705, 0.8090)),
        ((6, 7, 2, 7), (0.0582, 0.8062)),
        ((5, 56, 0, 29), (-0.0381, 0.1926)),
        ((0, 10, 0, 20), (-0.1611, 0.2775)),
        ((0, 10, 0, 10), (-0.2775, 0.2775)),
        ((10, 10, 0, 20), (0.6791, 1.0)),
        ((10, 10, 0, 10), (0.6075, 1.0)),
    ],
)
def test_differences_have_newcombes_published_intervals(counts: tuple, interval: tuple) -> None:
    found = newcombe(*counts)
    assert found.value == pytest.approx(counts[0] / counts[1] - counts[2] / counts[3])
    assert found.interval == pytest.approx(interval, abs=6e-5)


def test_mcnemar_counts_only_trials_that_differ() -> None:
    first = [1] * 8 + [0] * 1 + [1] * 20 + [0] * 5
    second = [0] * 8 + [1] * 1 + [1] * 20 + [0] * 5
    found = mcnemar(first, second)
    assert (found.only_first, found.only_second, found.both, found.neither) == (8, 1, 20, 5)
    assert found.p_value == pytest.approx(2 * (1 + 9) / 2**9)
    assert mcnemar(second, first).p_value == found.p_value
    assert mcnemar([True, False], [True, False]).p_value == 1


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ([1, 0], [1], "2 entries"),
        ([], [], "at least one"),
        ([1, 2], [0, 1], "0 or 1"),
        ([1, math.nan], [0, 1], "finite"),
    ],
)
def test_trials_that_are_not_paired_are_refused(first: list, second: list, word: str) -> None:
    with pytest.raises(EvaluationError, match=word):
        mcnemar(first, second)


def test_kruskal_wallis_is_the_formula_with_ties() -> None:
    sim, real = [1.0] * 7 + [0.0] * 3, [1.0] * 4 + [0.0] * 11
    n, ones = 25, 11
    zeros = n - ones
    rank_one, rank_zero = zeros + (ones + 1) / 2, (zeros + 1) / 2
    sums = (7 * rank_one + 3 * rank_zero, 4 * rank_one + 11 * rank_zero)
    h = 12 / (n * (n + 1)) * (sums[0] ** 2 / 10 + sums[1] ** 2 / 15) - 3 * (n + 1)
    h /= 1 - (ones**3 - ones + zeros**3 - zeros) / (n**3 - n)
    found = kruskal_wallis(sim=sim, real=real)
    assert found.statistic == pytest.approx(h)
    assert found.p_value == pytest.approx(math.erfc(math.sqrt(h / 2)))  # Chi squared of one degree.


def test_kruskal_wallis_of_equal_outcomes_is_no_evidence() -> None:
    found = kruskal_wallis(sim=[0, 0, 0], real=[0])
    assert (found.statistic, found.p_value) == (0, 1)
    assert "every outcome" in found.reason
    with pytest.raises(EvaluationError, match="at least one"):
        kruskal_wallis(sim=[], real=[1])


def test_the_interval_of_a_mean_is_that_of_its_parts() -> None:
    one = (0.3, wilson(3, 10))
    assert mean_of([one], [2.0]) == (0.3, pytest.approx(one[1]))
    # Two halves of equal size are about one whole.
    value, interval = mean_of([(0.3, wilson(30, 100)), (0.3, wilson(30, 100))], [1, 1])
    assert value == pytest.approx(0.3)
    assert interval == pytest.approx(wilson(60, 200), abs=3e-3)
    assert isinstance(interval, Interval)
