"""What was played: rates, rewards and lengths of episodes, and signs that they are not what they should be."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from simbridge.errors import EvaluationError
from simbridge.evaluate._plain import plain
from simbridge.evaluate._statistics import Interval, checked_confidence, clopper_pearson, wilson

VIDEO = "video"
"""Key of ``EpisodeResult.extra``: path of the episode's film, relative to the page."""
_DRAWS = 2000


@dataclass(frozen=True, kw_only=True)
class EpisodeResult:
    """How one episode ended."""

    policy: str
    task: str
    initial_state: str | int
    """Which of the task's beginnings it was."""
    seed: int
    success: bool
    reward: float
    """Sum over the episode."""
    length: int
    """Steps."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Whatever else should be kept, as JSON has it; ``video`` is linked."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean and its bootstrap interval; None where all values are equal, as that of one episode is."""

    value: float
    interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class StateRow:
    """Episodes that began alike."""

    initial_state: str
    successes: int
    trials: int
    wilson: Interval
    reward: float
    length: float


@dataclass(frozen=True, kw_only=True)
class PolicySummary:
    """One policy in one task."""

    policy: str
    task: str
    successes: int
    trials: int
    rate: float
    wilson: Interval
    clopper_pearson: Interval
    reward: Mean
    length: Mean
    states: tuple[StateRow, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What was played, policy by policy and task by task."""

    confidence: float
    seed: int
    groups: tuple[PolicySummary, ...]
    episodes: tuple[EpisodeResult, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return plain(dataclasses.asdict(self))


def summarise(episodes: Sequence[EpisodeResult], *, confidence: float = 0.95, seed: int = 0) -> Summary:
    """Sums up episodes, by policy and task in the order in which they come.

    Args:
        episodes: at least one.
        confidence: of every interval.
        seed: of the bootstrap.

    Raises:
        EvaluationError: there is no episode, or a reward or length is impossible.
    """
    checked_confidence(confidence)
    if not episodes:
        raise EvaluationError("there is no episode to sum up; play at least one")
    groups: dict[tuple[str, str], list[EpisodeResult]] = {}
    for number, episode in enumerate(episodes):
        _check(number, episode)
        groups.setdefault((episode.policy, episode.task), []).append(episode)
    generator = np.random.default_rng(seed)
    return Summary(
        confidence=confidence,
        seed=seed,
        groups=tuple(_policy_summary(played, confidence, generator) for played in groups.values()),
        episodes=tuple(episodes),
    )


def _check(number: int, episode: EpisodeResult) -> None:
    who = f"episode {number} of policy '{episode.policy}' in task '{episode.task}'"
    if not math.isfinite(episode.reward):
        raise EvaluationError(f"{who}: the reward is {episode.reward}; it must be finite")
    if episode.length < 0 or int(episode.length) != episode.length:
        raise EvaluationError(f"{who}: the length is {episode.length}; it must be a whole number of steps")
    if episode.success not in (False, True):
        raise EvaluationError(f"{who}: success is {episode.success!r}; it must be true or false")


def _policy_summary(
    played: Sequence[EpisodeResult], confidence: float, generator: np.random.Generator
) -> PolicySummary:
    successes, trials = sum(bool(e.success) for e in played), len(played)
    states: dict[str, list[EpisodeResult]] = {}
    for episode in played:
        states.setdefault(str(episode.initial_state), []).append(episode)
    return PolicySummary(
        policy=played[0].policy,
        task=played[0].task,
        successes=successes,
        trials=trials,
        rate=successes / trials,
        wilson=wilson(successes, trials, confidence),
        clopper_pearson=clopper_pearson(successes, trials, confidence),
        reward=_mean([e.reward for e in played], confidence, generator),
        length=_mean([e.length for e in played], confidence, generator),
        states=tuple(_state_row(name, some, confidence) for name, some in states.items()),
        warnings=tuple(_health(played, states)),
    )


def _state_row(name: str, played: Sequence[EpisodeResult], confidence: float) -> StateRow:
    successes = sum(bool(e.success) for e in played)
    return StateRow(
        initial_state=name,
        successes=successes,
        trials=len(played),
        wilson=wilson(successes, len(played), confidence),
        reward=float(np.mean([e.reward for e in played])),
        length=float(np.mean([e.length for e in played])),
    )


def _mean(values: Sequence[float], confidence: float, generator: np.random.Generator) -> Mean:
    array = np.asarray(values, float)
    if np.ptp(array) == 0:  # Nothing to draw from; an interval without width would look like certainty.
        return Mean(value=float(array.mean()), interval=None)
    found = stats.bootstrap(
        (array,),
        np.mean,
        n_resamples=_DRAWS,
        batch=max(1, 1_000_000 // len(array)),
        confidence_level=confidence,
        method="percentile",
        rng=generator,
    ).confidence_interval
    return Mean(value=float(array.mean()), interval=Interval(float(found.low), float(found.high)))


def _health(played: Sequence[EpisodeResult], states: dict[str, list[EpisodeResult]]) -> list[str]:
    """Signs of episodes that are copies of each other, or of figures that cannot tell anything."""
    count = len(played)
    if count < 2:
        return ["one episode says next to nothing"]
    found = []
    ends = {_end(episode) for episode in played}
    begun = [(str(e.initial_state), e.seed) for e in played]
    if len(ends) == 1:
        success, reward, length = next(iter(ends))
        found.append(
            f"all {count} episodes end alike (success {success}, reward {reward:g}, {length} steps): either every"
            " environment has the same seed, or nothing moves"
        )
    repeated = count - len(set(begun))
    if len(set(begun)) == 1:
        found.append(
            f"all {count} episodes have initial state {begun[0][0]} and seed {begun[0][1]}: they are one episode"
        )
    elif repeated:
        found.append(f"{repeated} episodes repeat an initial state and seed of another: they add no evidence")
    several = [some for some in states.values() if len({e.seed for e in some}) > 1]
    if len(several) > 1 and len(ends) > 1 and all(len({_end(e) for e in some}) == 1 for some in several):
        found.append(
            "seeds change nothing: episodes of one initial state end alike to the last bit, so that only"
            f" {len(states)} of {count} are independent"
        )
    if len({e.success for e in played}) > 1 and len({e.reward for e in played}) == 1:
        found.append("the reward is the same for success and failure: it is not recorded, or not given")
    if len({len(some) for some in states.values()}) > 1:
        fewest, most = min(map(len, states.values())), max(map(len, states.values()))
        found.append(f"initial states were played {fewest} to {most} times: the rate leans on those played more often")
    if 2 <= count < 20:
        low, high = wilson(sum(bool(e.success) for e in played), count)
        found.append(f"{count} episodes are few: the rate is known to ±{50 * (high - low):.0f} points")
    return found


def _end(episode: EpisodeResult) -> tuple[bool, float, int]:
    return bool(episode.success), float(episode.reward), int(episode.length)
