"""Agreement of rates: published values, definitions written out, degenerate input, and the bootstrap."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from simbridge.errors import EvaluationError
from simbridge.evaluate import Cell, bootstrap, fisher_interval, kendall, mmrv, pearson, spearman
from simbridge.evaluate._correlation import _all_figures
from tests.simbridge.evaluate.published import TASKS

RATES = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=2, max_size=7).map(
    lambda pairs: tuple(np.array(side) / 10 for side in zip(*pairs, strict=True))
)


@pytest.mark.parametrize("name", TASKS)
def test_figures_of_published_rates(name: str) -> None:
    task = TASKS[name]
    assert mmrv(sim=task.sim, real=task.real) == pytest.approx(task.mmrv, abs=5e-6)
    assert mmrv(sim=task.real, real=task.sim) == pytest.approx(task.mmrv_swapped, abs=5e-6)
    assert pearson(sim=task.sim, real=task.real).value == pytest.approx(task.pearson, abs=5e-6)
    assert spearman(sim=task.sim, real=task.real).value == pytest.approx(task.spearman, abs=5e-6)


def test_mmrv_takes_names_only() -> None:
    with pytest.raises(TypeError):
        mmrv([0.1, 0.2], [0.1, 0.2])  # type: ignore[misc]


def _mmrv_by_hand(sim: np.ndarray, real: np.ndarray) -> float:
    worst = []
    for i in range(len(sim)):
        violated = [j for j in range(len(sim)) if (sim[i] > sim[j]) != (real[i] > real[j])]
        worst.append(max((abs(real[i] - real[j]) for j in violated), default=0.0))
    return float(np.mean(worst))


@given(RATES)
def test_figures_are_their_definitions(rates: tuple[np.ndarray, np.ndarray]) -> None:
    sim, real = rates
    batched = {name: values[0] for name, values in _all_figures(sim[None], real[None]).items()}
    assert mmrv(sim=sim, real=real) == pytest.approx(_mmrv_by_hand(sim, real))
    assert batched["mmrv"] == mmrv(sim=sim, real=real)
    found = {"pearson": pearson(sim=sim, real=real), "spearman": spearman(sim=sim, real=real)}
    found["kendall"] = kendall(sim=sim, real=real)
    flat = np.ptp(sim) == 0 or np.ptp(real) == 0
    for name, correlation in found.items():
        assert math.isnan(correlation.value) == flat
        assert bool(correlation.reason) >= flat
        assert batched[name] == pytest.approx(correlation.value, abs=1e-9, nan_ok=True)
    if flat:
        return
    pairs = list(itertools.combinations(range(len(sim)), 2))
    signs = [np.sign((sim[i] - sim[j]) * (real[i] - real[j])) for i, j in pairs]
    untied = [sum(side[i] != side[j] for i, j in pairs) for side in (sim, real)]
    assert found["kendall"].value == pytest.approx(sum(signs) / math.sqrt(untied[0] * untied[1]))
    assert found["pearson"].value == pytest.approx(np.corrcoef(sim, real)[0, 1])


@pytest.mark.parametrize(
    ("r", "count", "interval"),
    [
        (0.9, 4, (-0.452, 0.998)),
        (0.9, 6, (0.328, 0.989)),
        (0.9, 10, (0.624, 0.976)),
        (0.98, 6, (0.823, 0.998)),
    ],
)
def test_fisher_intervals(r: float, count: int, interval: tuple) -> None:
    assert fisher_interval(r, count) == pytest.approx(interval, abs=5e-4)


def test_fishers_interval_is_scipys() -> None:
    task = TASKS["close_drawer"]
    for confidence in (0.5, 0.95, 0.999):
        theirs = stats.pearsonr(task.sim, task.real).confidence_interval(confidence)
        assert pearson(sim=task.sim, real=task.real, confidence=confidence).interval == pytest.approx(tuple(theirs))


def test_few_policies_have_no_interval_and_a_warning() -> None:
    task = TASKS["spoon_on_towel"]
    found = pearson(sim=task.sim, real=task.real)
    assert found.interval is None
    assert "at least 4 policies; there are 3" in found.reason
    for measure in (spearman, kendall):
        (warning,) = measure(sim=task.sim, real=task.real).warnings
        assert "3 policies" in warning
        assert "1 in 6" in warning
        assert measure(sim=[0, 0.1, 0.2, 0.3, 0.4, 0.5], real=[0, 0.1, 0.2, 0.3, 0.4, 0.5]).warnings == ()


def test_a_perfect_line_says_that_its_interval_says_nothing() -> None:
    found = pearson(sim=[0, 0.25, 0.5, 0.75], real=[0, 0.25, 0.5, 0.75])
    assert found.value == 1
    assert found.interval == (1, 1)
    assert "says nothing" in found.reason


@pytest.mark.parametrize("measure", [pearson, spearman, kendall])
def test_without_spread_there_is_no_correlation(measure: object) -> None:
    assert callable(measure)
    for sim, real, word in (
        ([0.5] * 4, [0.1, 0.2, 0.3, 0.4], "equal in sim"),
        ([0.1, 0.2], [0.0, 0.0], "equal in real"),
        ([0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2], "sim and real"),
        ([0.5], [0.5], "at least 2"),
    ):
        found = measure(sim=sim, real=real)
        assert math.isnan(found.value)
        assert found.interval is None
        assert word in found.reason


@pytest.mark.parametrize(
    ("sim", "real", "word"),
    [
        ([0.1, 0.2], [0.1], "2 entries"),
        ([], [], "at least one"),
        ([0.1, math.nan], [0.1, 0.2], "nan at position 1"),
        ([0.1, 0.2], [math.inf, 0.2], "'real' holds inf"),
        ([0.1, 90], [0.1, 0.2], "divide percentages"),
        ([0.1, -0.1], [0.1, 0.2], r"-0.1 at position 1"),
        ([[0.1], [0.2]], [0.1, 0.2], "flat"),
        (["a", "b"], [0.1, 0.2], "numbers"),
    ],
)
def test_rates_that_are_none_are_refused(sim: list, real: list, word: str) -> None:
    for measure in (pearson, spearman, kendall, mmrv):
        with pytest.raises(EvaluationError, match=word):
            measure(sim=sim, real=real)


def _cells(rates: tuple[float, ...], trials: int) -> list[list[Cell]]:
    return [[Cell(round(rate * trials), trials)] for rate in rates]


def test_the_bootstrap_is_seeded_and_narrows_with_trials() -> None:
    task = TASKS["pick_coke_can"]

    def width(trials: int, seed: int = 0) -> float:
        found = bootstrap(
            sim=_cells(task.sim, trials), real=_cells(task.real, trials), seed=seed, resample_policies=False
        )
        assert found.pearson is not None
        return found.pearson.high - found.pearson.low

    assert width(25) == width(25)
    assert width(25) != width(25, seed=1)
    assert width(10) > 2 * width(100) > 4 * width(10_000)


def test_the_bootstrap_holds_the_figure_and_grows_with_policies_drawn() -> None:
    task = TASKS["pick_coke_can"]
    many = {"sim": _cells(task.sim, 100_000), "real": _cells(task.real, 100_000)}
    fixed, drawn = bootstrap(**many, resample_policies=False), bootstrap(**many)
    for name in ("pearson", "spearman", "kendall", "mmrv"):
        low, high = getattr(fixed, name)
        wide_low, wide_high = getattr(drawn, name)
        assert wide_high - wide_low > high - low
    assert fixed.pearson == pytest.approx((task.pearson, task.pearson), abs=5e-3)
    assert fixed.mmrv == pytest.approx((task.mmrv, task.mmrv), abs=5e-3)
    assert fixed.undefined == dict.fromkeys(("pearson", "spearman", "kendall", "mmrv"), 0)


def test_one_policy_has_no_resampled_correlation() -> None:
    found = bootstrap(sim=[[Cell(3, 10)]], real=[[Cell(4, 10)]], draws=200)
    assert found.pearson is None
    assert found.undefined["pearson"] == 200
    assert found.mmrv == (0, 0)


def test_nothing_of_ten_is_not_without_noise() -> None:
    cells = [[Cell(0, 10)], [Cell(10, 10)]]
    found = bootstrap(sim=cells, real=cells, resample_policies=False, draws=4000)
    assert found.pearson == pytest.approx((1, 1))
    three = [[Cell(0, 10)], [Cell(0, 10)], [Cell(10, 10)]]
    found = bootstrap(sim=three, real=three, resample_policies=False, draws=4000)
    assert found.pearson is not None
    assert found.pearson.low < 0.999


def test_cells_weigh_what_they_say() -> None:
    """Two policies that differ in the heavy condition alone, and many trials: their order is never in doubt."""
    sim = [[Cell(900_000, 1_000_000, 9.0), Cell(0, 1_000_000)], [Cell(0, 1_000_000, 9.0), Cell(1_000_000, 1_000_000)]]
    real = [[Cell(900_000, 1_000_000)], [Cell(100_000, 1_000_000)]]
    assert bootstrap(sim=sim, real=real, resample_policies=False, draws=200).pearson == pytest.approx((1, 1))


@pytest.mark.parametrize(
    ("sim", "options", "word"),
    [
        ([[Cell(3, 2)], [Cell(1, 2)]], {}, "3 of 2"),
        ([[Cell(1, 2)]], {}, "1 entries"),
        ([[Cell(1, 2)], []], {}, "weights"),
        ([[Cell(1, 2)], [Cell(1, 2, 0.0)]], {}, "weights"),
        ([[Cell(1, 2)], [Cell(1, 2)]], {"draws": 10}, "10 draws"),
        ([[Cell(1, 2)], [Cell(1, 2)]], {"confidence": 95}, "between 0 and 1"),
    ],
)
def test_what_cannot_be_resampled_is_refused(sim: list, options: dict, word: str) -> None:
    with pytest.raises(EvaluationError, match=word):
        bootstrap(sim=sim, real=[[Cell(1, 2)], [Cell(2, 2)]], **options)
