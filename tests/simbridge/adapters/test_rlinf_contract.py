"""The skin of RLinf as its workers call it, without RLinf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recon4d.errors import ConfigError
from simbridge.adapters import rlinf
from simbridge.adapters.rlinf import SplatRLinfEnv
from simbridge.errors import ActionError
from simbridge.types import Bundle
from tests.simbridge import worlds as small


class Config(dict[str, Any]):
    """Fields as attributes and by ``get``, as OmegaConf's are."""

    __getattr__ = dict.__getitem__


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small.bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(autouse=True)
def _loaded(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlinf, "load", lambda path: bundle if path == Path("bundle") else None)


def config(params: dict[str, Any] | None = None, **changes: Any) -> Config:
    init = {
        "id": "simbridge",
        "bundle": "bundle",
        "task": "reach",
        "main_camera": "front",
        "wrist_camera": "wrist",
        "extra_cameras": ["side"],
        "image_size": [32, 24],
        **(params or {}),
    }
    fields = {"seed": 3, "auto_reset": True, "ignore_terminations": False, "max_episode_steps": 4, "init_params": init}
    return Config({**fields, **changes})


def make(count: int = 4, params: dict[str, Any] | None = None, offset: int = 0, total: int = 1, **changes: Any) -> Any:
    return SplatRLinfEnv(config(params, **changes), count, seed_offset=offset, total_num_processes=total)


def goals(env: SplatRLinfEnv) -> np.ndarray:
    return env._worlds.look(env._worlds.all, render=False).infos["goal"]


def test_observations_have_rlinfs_five_keys() -> None:
    env = make()
    observation, infos = env.reset()
    assert infos == {}
    assert set(observation) == {"main_images", "wrist_images", "extra_view_images", "states", "task_descriptions"}
    assert observation["main_images"].shape == observation["wrist_images"].shape == (4, 24, 32, 3)
    assert observation["extra_view_images"].shape == (4, 1, 24, 32, 3)
    assert observation["main_images"].dtype == torch.uint8
    assert observation["states"].dtype == torch.float32
    assert len(observation["task_descriptions"]) == 4
    assert float(observation["main_images"].float().std()) > 5
    alone, _ = make(params={"wrist_camera": None, "extra_cameras": []}).reset()
    assert alone["wrist_images"] is None
    assert alone["extra_view_images"] is None


def test_a_chunk_is_its_steps_and_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    chunked, stepped = make(), make()
    chunked.reset()
    stepped.reset()
    drawn = []
    draw = chunked._worlds.sensors.draw
    monkeypatch.setattr(chunked._worlds.sensors, "draw", lambda ids: drawn.append(len(ids)) or draw(ids))
    actions = np.random.default_rng(0).uniform(-1, 1, (4, 3, 3))
    observations, rewards, terminated, truncated, infos = chunked.chunk_step(torch.from_numpy(actions))
    assert drawn == [4]
    assert len(observations) == len(infos) == 1
    assert rewards.shape == terminated.shape == truncated.shape == (4, 3)
    singles = [stepped.step(actions[:, k]) for k in range(3)]
    assert torch.equal(rewards, torch.stack([single[1] for single in singles], 1))
    assert torch.equal(observations[0]["main_images"], singles[-1][0]["main_images"])
    episode = infos[0]["episode"]
    assert set(episode) == {"success_once", "success_at_end", "return", "episode_len", "reward"}
    assert episode["episode_len"].tolist() == [3] * 4
    assert torch.allclose(episode["return"], rewards.sum(1))
    assert torch.allclose(episode["reward"], rewards.mean(1))


def test_ends_are_told_in_the_last_column_and_worlds_begin_anew() -> None:
    env = make()
    env.reset()
    before = goals(env)
    observations, _, terminated, truncated, infos = env.chunk_step(np.zeros((4, 6, 3)))
    assert truncated.tolist() == [[False] * 5 + [True]] * 4
    assert not terminated.any()
    (told,) = infos
    assert {"final_observation", "final_info", "_final_observation", "_final_info", "_elapsed_steps"} <= set(told)
    assert told["_final_info"].all()
    assert told["final_info"]["episode"]["episode_len"].tolist() == [4] * 4
    assert not np.array_equal(goals(env), before)
    assert not torch.equal(told["final_observation"]["main_images"], observations[0]["main_images"])
    _, _, _, truncated, infos = env.chunk_step(np.zeros((4, 2, 3)))
    assert not truncated.any()
    assert "final_info" not in infos[0]


def test_only_worlds_that_ended_begin_anew() -> None:
    env = make()
    env.reset()
    env._worlds._facts["goal"][2] = env._worlds.physics.site("tip", env._worlds.all)[2]
    before = goals(env)
    _, _, terminated, _, infos = env.chunk_step(np.zeros((4, 2, 3)))
    assert terminated[:, -1].tolist() == [False, False, True, False]
    assert infos[0]["_final_info"].tolist() == [False, False, True, False]
    assert infos[0]["final_info"]["episode"]["success_once"].tolist() == [False, False, True, False]
    after = goals(env)
    assert np.array_equal(after[[0, 1, 3]], before[[0, 1, 3]])
    assert not np.array_equal(after[2], before[2])


def test_ignored_terminations_leave_success_in_the_infos() -> None:
    env = make(ignore_terminations=True, auto_reset=False)
    env.reset()
    env._worlds._facts["goal"][:] = env._worlds.physics.site("tip", env._worlds.all)
    _, _, terminated, truncated, infos = env.chunk_step(np.zeros((4, 4, 3)))
    assert not terminated.any()
    assert truncated[:, -1].all()
    assert infos[0]["episode"]["success_once"].all()
    assert "final_info" not in infos[0]


def test_a_group_shares_its_beginnings_and_epochs_go_on() -> None:
    env = make(6, group_size=3, use_fixed_reset_state_ids=True, auto_reset=False)
    env.reset()
    first = goals(env)
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(first[3], first[5])
    assert not np.array_equal(first[0], first[3])
    env.reset()
    assert np.array_equal(goals(env), first)
    env.update_reset_state_ids()
    env.reset()
    assert not np.array_equal(goals(env), first)


def test_evaluation_meets_every_beginning_once_across_processes() -> None:
    seen = []
    for number in range(2):
        env = make(3, offset=number, total=2, is_eval=True, auto_reset=False)
        for _ in range(2):
            env.reset()
            seen += [tuple(goal) for goal in goals(env)]
            env.update_reset_state_ids()
    assert len(set(seen)) == 12
    one = make(1, specific_reset_id=5, is_eval=True)
    one.reset()
    assert any(np.allclose(goals(one)[0], goal) for goal in seen)


def test_it_can_be_offloaded_between_rollouts() -> None:
    env = make()
    before, _ = env.reset()
    env.offload()
    after, _ = env.reset()
    assert torch.equal(before["main_images"], after["main_images"])
    env.is_start = True
    assert env.seed == 3
    assert env.num_envs == 4
    env.close()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda env: env.chunk_step(np.zeros((3, 2, 3))), ActionError, r"\[4, K, A\]"),
        (lambda env: env.chunk_step(np.zeros((4, 2, 7))), ActionError, "shape"),
        (lambda env: env.chunk_step(torch.full((4, 2, 3), float("nan"))), ActionError, "not finite"),
    ],
)
def test_bad_actions_are_refused(call: Any, error: type, message: str) -> None:
    env = make()
    env.reset()
    with pytest.raises(error, match=message):
        call(env)


def test_unknown_parameters_are_named() -> None:
    with pytest.raises(ConfigError, match="no field 'camera'"):
        make(params={"camera": "front"})
    with pytest.raises(ConfigError, match="no camera 'nose'"):
        make(params={"main_camera": "nose"})
