"""Comparison of two tables: figures, what is left out, and what is warned of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import pytest

from simbridge.errors import EvaluationError
from simbridge.evaluate import Comparison, Count, ResultTable, compare, kruskal_wallis, markdown, newcombe, wilson
from tests.simbridge.evaluate.published import TASKS


def table(rows: Iterable[tuple], source: str = "t.csv") -> ResultTable:
    names = ("policy", "task", "condition", "successes", "trials")
    return ResultTable(source=source, rows=tuple(Count(**dict(zip(names, row, strict=True))) for row in rows))


def one_task(sim: Iterable[tuple[int, int]], real: Iterable[tuple[int, int]]) -> Comparison:
    sides = [table((f"p{i}", "", "", k, n) for i, (k, n) in enumerate(side)) for side in (sim, real)]
    return compare(sim=sides[0], real=sides[1], draws=200)


def published() -> tuple[ResultTable, ResultTable]:
    sides: dict[str, list[tuple]] = {"sim": [], "real": []}
    for name in ("pick_coke_can", "move_near"):
        for side, rows in sides.items():
            rates = getattr(TASKS[name], side)
            rows += [(f"p{i}", name, "", round(1000 * rate), 1000) for i, rate in enumerate(rates)]
    return table(sides["sim"]), table(sides["real"])


def test_tasks_have_their_published_figures_and_overall_is_of_means() -> None:
    sim, real = published()
    found = compare(sim=sim, real=real, draws=200)
    assert [group.name for group in found.groups] == ["overall", "pick_coke_can", "move_near"]
    for group in found.tasks:
        task = TASKS[group.name]
        assert group.mmrv == pytest.approx(task.mmrv, abs=5e-6)
        assert group.pearson.value == pytest.approx(task.pearson, abs=5e-6)
        assert group.spearman.value == pytest.approx(task.spearman, abs=5e-6)
    assert found.overall is not None
    first = found.overall.rows[0]
    assert first.sim.rate == pytest.approx((0.787 + 0.779) / 2)
    assert first.sim.wilson == pytest.approx(wilson(1566, 2000), abs=1e-3)


def test_sides_are_not_mixed_up() -> None:
    sim, real = published()
    straight, crossed = compare(sim=sim, real=real, draws=200), compare(sim=real, real=sim, draws=200)
    assert crossed.tasks[0].mmrv == pytest.approx(TASKS["pick_coke_can"].mmrv_swapped, abs=5e-6)
    assert straight.tasks[0].rows[0].real == crossed.tasks[0].rows[0].sim


def test_one_task_is_the_overall() -> None:
    found = one_task([(3, 20), (9, 20)], [(4, 30), (12, 30)])
    assert found.tasks == ()
    assert found.overall is not None
    row = found.overall.rows[0]
    assert row.sim.wilson == wilson(3, 20)
    assert row.kruskal_wallis == kruskal_wallis(sim=[1] * 3 + [0] * 17, real=[1] * 4 + [0] * 26)


def test_a_condition_counts_once_however_often_it_was_tried() -> None:
    sim = table([("a", "", "bright", 90, 100), ("a", "", "dark", 1, 10), ("b", "", "", 5, 10)])
    real = table([("a", "", "", 5, 10), ("b", "", "", 6, 10)])
    overall = compare(sim=sim, real=real, draws=200).overall
    assert overall is not None
    a = overall.rows[0].sim
    assert a.rate == pytest.approx(0.5)
    assert (a.successes, a.trials) == (91, 110)
    # The half-widths add in squares, with one half each.
    low = math.hypot(0.9 - wilson(90, 100).low, 0.1 - wilson(1, 10).low) / 2
    assert a.wilson.low == pytest.approx(0.5 - low)
    assert newcombe(90, 100, 9, 10).interval.low == pytest.approx(-2 * low, abs=1e-9)
    assert any("policies met different conditions in sim" in warning for warning in overall.warnings)
    assert any("each side's rate" in warning for warning in overall.warnings)


@pytest.mark.parametrize(
    ("count", "word"), [(3, "too few"), (5, "too few"), (6, "are few"), (9, "are few"), (10, None)]
)
def test_few_policies_are_warned_of(count: int, word: str | None) -> None:
    results = [(10 * i + 1, 200) for i in range(count)]
    overall = one_task(results, results).overall
    assert overall is not None
    assert [warning for warning in overall.warnings if "policies" in warning and "few" in warning] == (
        [] if word is None else [next(w for w in overall.warnings if word in w)]
    )


def test_few_trials_ties_and_checkpoints_are_warned_of() -> None:
    sim = table([("act-step100k", "", "", 5, 10), ("act-step200k", "", "", 5, 10), ("pi", "", "", 50, 60)])
    real = table([("act-step100k", "", "", 5, 30), ("act-step200k", "", "", 7, 30), ("pi", "", "", 7, 30)])
    overall = compare(sim=sim, real=real, draws=200).overall
    assert overall is not None
    text = "\n".join(overall.warnings)
    assert "few trials in sim, down to 10 a policy: rates are known to ±26 points at worst" in text
    assert "few trials in real" not in text
    assert "equal rates in sim (act-step100k, act-step200k)" in text
    assert "equal rates in real (act-step200k, pi)" in text
    assert "look like checkpoints or seeds of one policy, which count as one: act-step100k, act-step200k" in text


def test_sizes_in_names_are_no_checkpoints() -> None:
    names = ("openvla-7b", "openvla-1b", "pi0", "pi05", "rt-1", "rt-2")
    rows = [(name, "", "", 10 * i, 100) for i, name in enumerate(names)]
    overall = compare(sim=table(rows), real=table(rows), draws=200).overall
    assert overall is not None
    assert not any("checkpoints" in warning for warning in overall.warnings)


def test_what_one_side_lacks_is_left_out_and_named() -> None:
    rows = [(p, t, "", 10 * i + j, 50) for i, p in enumerate("abc") for j, t in enumerate(("push", "lift"))]
    sim = table([*rows, ("d", "push", "", 1, 50), ("a", "spin", "", 1, 50)])
    real = table([*[row for row in rows if row[:2] != ("c", "lift")], ("e", "lift", "", 2, 50)])
    found = compare(sim=sim, real=real, draws=200)
    text = "\n".join(found.warnings)
    assert "tasks that only sim has are left out: spin" in text
    assert "policies that only sim has in task 'push' are left out: d" in text
    assert "policies that only sim has in task 'lift' are left out: c" in text
    assert "policies that only real has in task 'lift' are left out: e" in text
    assert found.overall is not None
    assert [row.policy for row in found.overall.rows] == ["a", "b"]
    assert any("left out, since not every task" in w and "c" in w for w in found.overall.warnings)
    assert {group.name: [row.policy for row in group.rows] for group in found.tasks} == {
        "push": ["a", "b", "c"],
        "lift": ["a", "b"],
    }


def test_no_policy_with_every_task_means_no_overall() -> None:
    rows = [("a", "push", "", 1, 50), ("b", "lift", "", 1, 50)]
    found = compare(sim=table(rows), real=table(rows), draws=200)
    assert found.overall is None
    assert any("no overall figure" in warning for warning in found.warnings)
    assert len(found.groups) == 2
    assert math.isnan(found.groups[0].pearson.value)


def test_nothing_in_common_is_an_error() -> None:
    with pytest.raises(
        EvaluationError, match=r"s\.csv and r\.csv have no policy and task in common.*A / no task.*a / no"
    ):
        compare(sim=table([("A", "", "", 1, 2)], "s.csv"), real=table([("a", "", "", 1, 2)], "r.csv"))
    with pytest.raises(EvaluationError, match="no policy and task"):
        compare(sim=table([("a", "x", "", 1, 2)]), real=table([("a", "y", "", 1, 2)]))
    with pytest.raises(EvaluationError, match="between 0 and 1"):
        compare(sim=table([("a", "", "", 1, 2)]), real=table([("a", "", "", 1, 2)]), confidence=95)


def test_json_is_strict_and_says_why_a_figure_is_missing() -> None:
    found = one_task([(5, 10), (5, 10)], [(1, 10), (2, 10)])
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert content["overall"]["pearson"]["value"] is None
    assert "equal in sim" in content["overall"]["pearson"]["reason"]
    assert content["overall"]["rows"][0]["sim"]["wilson"] == {"low": wilson(5, 10).low, "high": wilson(5, 10).high}
    assert "separately trained policy" in content["note"]


def test_the_same_seed_gives_the_same_comparison() -> None:
    sim, real = published()
    assert compare(sim=sim, real=real, draws=200) == compare(sim=sim, real=real, draws=200)
    assert compare(sim=sim, real=real, draws=200) != compare(sim=sim, real=real, draws=200, seed=1)


def test_names_mean_nothing_to_markdown() -> None:
    rows = [("a|b*", "", "", 1, 2), ("<b>c</b>\nd", "", "", 2, 2)]
    text = markdown(compare(sim=table(rows), real=table(rows), draws=200))
    assert r"| 1 | a\|b\* |" in text
    assert r"| 2 | \<b\>c\</b\> d |" in text
