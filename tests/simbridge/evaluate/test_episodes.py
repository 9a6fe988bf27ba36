"""Summaries of episodes: figures, tables of initial states, and signs that something is wrong."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from simbridge.errors import EvaluationError
from simbridge.evaluate import EpisodeResult, clopper_pearson, summarise, wilson


def episode(
    state: str | int = 0, seed: int = 0, success: bool = True, reward: float = 1.0, length: int = 50
) -> EpisodeResult:
    return EpisodeResult(
        policy="act", task="push", initial_state=state, seed=seed, success=success, reward=reward, length=length
    )


def varied(states: int = 6, seeds: int = 5) -> list[EpisodeResult]:
    generator = np.random.default_rng(4)
    return [
        episode(state, seed, bool(generator.random() < 0.6), float(generator.random()), int(generator.integers(20, 90)))
        for state in range(states)
        for seed in range(seeds)
    ]


def test_figures() -> None:
    played = varied()
    (group,) = summarise(played).groups
    k = sum(e.success for e in played)
    assert (group.successes, group.trials, group.rate) == (k, 30, k / 30)
    assert group.wilson == wilson(k, 30)
    assert group.clopper_pearson == clopper_pearson(k, 30)
    rewards = np.array([e.reward for e in played])
    assert group.reward.value == pytest.approx(rewards.mean())
    assert group.reward.interval is not None
    # About the normal interval, for thirty values.
    half = 1.96 * rewards.std() / math.sqrt(30)
    assert group.reward.interval == pytest.approx((rewards.mean() - half, rewards.mean() + half), abs=0.02)
    assert len(group.states) == 6
    assert group.states[2].successes == sum(e.success for e in played if e.initial_state == 2)
    assert group.warnings == ()


def test_policies_and_tasks_are_kept_apart_and_seeds_decide() -> None:
    played = [*varied(), *(replace(e, task="stack") for e in varied()), *(replace(e, policy="pi") for e in varied())]
    found = summarise(played)
    assert [(group.policy, group.task) for group in found.groups] == [("act", "push"), ("act", "stack"), ("pi", "push")]
    assert summarise(played) == found
    assert summarise(played, seed=1) != found


def warnings_of(played: list[EpisodeResult]) -> str:
    (group,) = summarise(played).groups
    return "\n".join(group.warnings)


def test_copies_are_found() -> None:
    same = [episode(state, seed) for state in range(5) for seed in range(5)]
    assert "all 25 episodes end alike" in warnings_of(same)
    assert "they are one episode" in warnings_of([episode(length=i) for i in range(25)])
    assert "5 episodes repeat" in warnings_of([*varied(), *varied()[:5]])


def test_seeds_that_change_nothing_are_found() -> None:
    frozen = [episode(state, seed, state % 2 == 0, float(state), 50 + state) for state in range(6) for seed in range(5)]
    assert "seeds change nothing" in warnings_of(frozen)
    assert "only 6 of 30" in warnings_of(frozen)
    frozen[3] = replace(frozen[3], length=49)
    assert "seeds change nothing" not in warnings_of(frozen)


def test_other_signs() -> None:
    assert "reward is the same for success and failure" in warnings_of([replace(e, reward=0.0) for e in varied()])
    assert "played 4 to 5 times" in warnings_of(varied()[:-1])
    assert "8 episodes are few" in warnings_of(varied(4, 2))
    assert "next to nothing" in warnings_of([episode()])


def test_values_that_are_all_equal_have_no_interval() -> None:
    (group,) = summarise([replace(e, length=200) for e in varied()]).groups
    assert group.length.value == 200
    assert group.length.interval is None
    (single,) = summarise([episode()]).groups
    assert single.reward.interval is None


@pytest.mark.parametrize(
    ("played", "word"),
    [
        ([], "no episode"),
        ([episode(), episode(reward=math.nan)], "episode 1 .*'act'.* reward is nan"),
        ([episode(length=-1)], "length is -1"),
        ([episode(success=0.5)], "success is 0.5"),  # type: ignore[arg-type]
    ],
)
def test_impossible_episodes_are_refused(played: list[EpisodeResult], word: str) -> None:
    with pytest.raises(EvaluationError, match=word):
        summarise(played)


def test_json_holds_numpys_values() -> None:
    played = replace(episode(), success=np.True_, reward=np.float32(0.5), extra={"pose": np.zeros(2)})  # type: ignore[arg-type]
    content = json.loads(json.dumps(summarise([played]).to_json(), allow_nan=False))
    assert content["episodes"][0]["success"] is True
    assert content["episodes"][0]["extra"] == {"pose": [0, 0]}
    assert content["groups"][0]["successes"] == 1
