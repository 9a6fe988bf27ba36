"""Simulation against reality, policy by policy: figures, their uncertainty, and what makes them less than they seem."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simbridge.errors import EvaluationError
from simbridge.evaluate._correlation import (
    FEW_POLICIES,
    Cell,
    Correlation,
    Resampled,
    bootstrap,
    kendall,
    mmrv,
    pearson,
    spearman,
)
from simbridge.evaluate._plain import plain
from simbridge.evaluate._statistics import (
    Interval,
    RankTest,
    checked_confidence,
    clopper_pearson,
    kruskal_wallis,
    mean_of,
    wilson,
)
from simbridge.evaluate._table import Count, ResultTable

OVERALL = "overall"
GOOD_POLICIES = 10
"""From here on an interval of r is narrow enough to tell a good simulation from a fair one."""
FEW_TRIALS = 20
"""Under this a rate's 95 % interval is wider than 40 points around one half."""
UNIT_NOTE = (
    "The independent unit is a separately trained policy. Checkpoints of one training run, seeds of the evaluation and"
    " tasks add rows, not evidence; say how the policies were chosen."
)
_CHECKPOINT = re.compile(
    r"[-_ .]?(?:global)?[-_ ]?(?:step|steps|ckpt|checkpoint|epoch|ep|iter|seed)s?[-_ =]?\d+k?$", re.I
)


@dataclass(frozen=True, kw_only=True)
class SideResult:
    """One policy on one side."""

    successes: int
    trials: int
    rate: float
    """Mean over tasks, in each the mean over conditions, all counting alike; successes / trials if there is one."""
    wilson: Interval
    clopper_pearson: Interval


@dataclass(frozen=True, kw_only=True)
class PolicyRow:
    """One policy, side by side."""

    policy: str
    sim: SideResult
    real: SideResult
    kruskal_wallis: RankTest
    """Of all trials in simulation against all in reality, whatever their task and condition."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Figures of one task, or of all."""

    name: str
    rows: tuple[PolicyRow, ...]
    pearson: Correlation
    spearman: Correlation
    kendall: Correlation
    mmrv: float
    resampled: Resampled
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How well simulation tells what reality will say."""

    sim_source: str
    real_source: str
    confidence: float
    seed: int
    overall: Group | None
    """None, said in the warnings, when no policy has every task on both sides."""
    tasks: tuple[Group, ...]
    """By task; empty when there is only one, which is then the overall."""
    warnings: tuple[str, ...]
    """Of the tables; each group has its own too."""
    note: str = UNIT_NOTE

    @property
    def groups(self) -> tuple[Group, ...]:
        """The overall first, then every task."""
        return (*((self.overall,) if self.overall else ()), *self.tasks)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values; what is not defined is None, with its reason beside it."""
        return plain(dataclasses.asdict(self))


def compare(
    *, sim: ResultTable, real: ResultTable, confidence: float = 0.95, seed: int = 0, draws: int = 2000
) -> Comparison:
    """Compares the success rates of policies in simulation with those in reality.

    A policy's rate in a task is the mean over that side's conditions; overall it is the mean over tasks. Policies that
    one side lacks are left out and named.

    Args:
        sim: results in simulation.
        real: results in reality.
        confidence: of every interval.
        seed: of the bootstrap.
        draws: of the bootstrap, at least 100.

    Raises:
        EvaluationError: the tables have no policy and task in common.
    """
    checked_confidence(confidence)
    sides = {"sim": _by_task(sim), "real": _by_task(real)}
    shared = [task for task in sides["real"] if task in sides["sim"]]
    warnings = _table_warnings(sim, real, sides)
    groups = []
    options = {"confidence": confidence, "seed": seed, "draws": draws}
    for task in shared:
        chosen = {side: {task: tasks[task]} for side, tasks in sides.items()}
        if set(chosen["sim"][task]) & set(chosen["real"][task]):
            groups.append(_group(task or OVERALL, chosen, options))
    if not groups:
        raise EvaluationError(
            f"{sim.source} and {real.source} have no policy and task in common; sim has {_named(sim)}, real has"
            f" {_named(real)}. Names must be spelt alike"
        )
    overall: Group | None = None
    if len(shared) == 1:
        overall, groups = groups[0], []
    else:
        both = {side: {task: tasks[task] for task in shared} for side, tasks in sides.items()}
        whole = [set(policies) for tasks in both.values() for policies in tasks.values()]
        if set.intersection(*whole):
            overall = _group(OVERALL, both, options)
        else:
            warnings.append("no policy has every task on both sides: there is no overall figure")
    return Comparison(
        sim_source=sim.source,
        real_source=real.source,
        confidence=confidence,
        seed=seed,
        overall=overall,
        tasks=tuple(groups),
        warnings=tuple(warnings),
    )


_Tasks = dict[str, dict[str, list[Count]]]
"""Task -> policy -> its conditions."""


def _by_task(table: ResultTable) -> _Tasks:
    found: _Tasks = {}
    for row in table.rows:
        found.setdefault(row.task, {}).setdefault(row.policy, []).append(row)
    return found


def _group(name: str, sides: dict[str, _Tasks], options: dict[str, Any]) -> Group:
    real = sides["real"]
    in_all = set.intersection(*(set(policies) for tasks in sides.values() for policies in tasks.values()))
    every = list(dict.fromkeys(policy for tasks in sides.values() for task in tasks.values() for policy in task))
    policies = [policy for policy in dict.fromkeys(p for task in real.values() for p in task) if policy in in_all]
    left_out = [policy for policy in every if policy not in in_all]
    confidence = options["confidence"]
    cells = {side: [_cells(tasks, policy) for policy in policies] for side, tasks in sides.items()}
    results = {side: [_side_result(c, confidence) for c in cells[side]] for side in sides}
    rows = tuple(
        PolicyRow(policy=policy, sim=s, real=r, kruskal_wallis=kruskal_wallis(sim=_trials(s), real=_trials(r)))
        for policy, s, r in zip(policies, results["sim"], results["real"], strict=True)
    )
    rates = {side: [result.rate for result in results[side]] for side in sides}
    return Group(
        name=name,
        rows=rows,
        pearson=pearson(**rates, confidence=confidence),
        spearman=spearman(**rates),
        kendall=kendall(**rates),
        mmrv=mmrv(**rates),
        resampled=bootstrap(sim=cells["sim"], real=cells["real"], **options),
        warnings=tuple(_group_warnings(rows, left_out, sides)),
    )


def _cells(tasks: _Tasks, policy: str) -> list[Cell]:
    """Every task counts alike, and within it every condition."""
    conditions = [tasks[task][policy] for task in tasks]
    return [Cell(row.successes, row.trials, 1 / len(rows)) for rows in conditions for row in rows]


def _side_result(cells: Sequence[Cell], confidence: float) -> SideResult:
    weights = [cell.weight for cell in cells]
    found = {}
    rate = math.nan
    for method in (wilson, clopper_pearson):
        each = [(k / n, method(k, n, confidence)) for k, n, _ in cells]
        rate, found[method.__name__] = mean_of(each, weights)
    successes, trials = sum(cell.successes for cell in cells), sum(cell.trials for cell in cells)
    return SideResult(successes=successes, trials=trials, rate=rate, **found)


def _trials(side: SideResult) -> np.ndarray:
    return np.repeat([1.0, 0.0], [side.successes, side.trials - side.successes])


def _named(table: ResultTable) -> str:
    names = list(dict.fromkeys(f"{row.policy} / {row.task or 'no task'}" for row in table.rows))
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _table_warnings(sim: ResultTable, real: ResultTable, sides: dict[str, _Tasks]) -> list[str]:
    found = []
    for side, table in (("sim", sim), ("real", real)):
        if table.unused:
            found.append(f"{side}: columns that are not used: {', '.join(table.unused)}")
    for side, other in (("sim", "real"), ("real", "sim")):
        alone = [task or "(no task)" for task in sides[side] if task not in sides[other]]
        if alone:
            found.append(f"tasks that only {side} has are left out: {', '.join(alone)}")
        for task in sides[side]:
            lone = [p for p in sides[side][task] if p not in sides[other].get(task, {})] if task in sides[other] else []
            if lone:
                where = f" in task '{task}'" if task else ""
                found.append(f"policies that only {side} has{where} are left out: {', '.join(lone)}")
    return found


def _group_warnings(rows: Sequence[PolicyRow], left_out: Sequence[str], sides: dict[str, _Tasks]) -> list[str]:
    found = []
    count = len(rows)
    if count < FEW_POLICIES:
        found.append(
            f"{count} policies are too few: an interval of r spans nearly everything, and a perfect order can be"
            f" chance; {FEW_POLICIES} are the least, {GOOD_POLICIES} better"
        )
    elif count < GOOD_POLICIES:
        found.append(f"{count} policies are few: with {GOOD_POLICIES} and more the interval of r gets useful")
    if left_out and len(sides["sim"]) > 1:
        found.append(f"left out, since not every task has them on both sides: {', '.join(left_out)}")
    for side in ("sim", "real"):
        few: list[SideResult] = [getattr(row, side) for row in rows if getattr(row, side).trials < FEW_TRIALS]
        if few:
            half = max(50 * (result.wilson.high - result.wilson.low) for result in few)
            least = min(result.trials for result in few)
            found.append(
                f"few trials in {side}, down to {least} a policy: rates are known to ±{half:.0f} points at worst"
            )
    found += _tie_warnings(rows) + _condition_warnings([row.policy for row in rows], sides)
    stems: dict[str, list[str]] = {}
    for row in rows:
        stem = _CHECKPOINT.sub("", row.policy)
        if stem != row.policy:
            stems.setdefault(stem, []).append(row.policy)
    kin = [", ".join(names) for names in stems.values() if len(names) > 1]
    if kin:
        found.append(f"these look like checkpoints or seeds of one policy, which count as one: {'; '.join(kin)}")
    return found


def _tie_warnings(rows: Sequence[PolicyRow]) -> list[str]:
    found = []
    for side, why in (
        ("sim", "simulation does not tell them apart, and each tie of policies that differ in reality counts in MMRV"),
        ("real", "their order in simulation cannot be right or wrong"),
    ):
        rates: dict[float, list[str]] = {}
        for row in rows:
            rates.setdefault(round(getattr(row, side).rate, 12), []).append(row.policy)
        ties = [", ".join(names) for names in rates.values() if len(names) > 1]
        if ties:
            found.append(f"equal rates in {side} ({'; '.join(ties)}): {why}")
    return found


def _condition_warnings(policies: Sequence[str], sides: dict[str, _Tasks]) -> list[str]:
    found = []
    for task in sides["sim"]:
        where = f" in task '{task}'" if task else ""
        names = {
            side: {policy: frozenset(row.condition for row in tasks[task][policy]) for policy in policies}
            for side, tasks in sides.items()
        }
        for side, of in names.items():
            if len(set(of.values())) > 1:
                found.append(f"policies met different conditions in {side}{where}: their rates are not of one thing")
        if any(names["sim"][policy] != names["real"][policy] for policy in policies):
            found.append(f"sim and real have different conditions{where}; each side's rate is the mean over its own")
    return found
