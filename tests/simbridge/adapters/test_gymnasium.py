"""The skins of Gymnasium, by its own checkers and against the core."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import simbridge
from simbridge.adapters.gymnasium import SplatVectorEnv, register
from simbridge.core import SensorConfig, WorldsConfig
from simbridge.errors import ActionError
from simbridge.tasks import tasks
from simbridge.types import Bundle
from tests.simbridge import worlds as small

CONFIG = WorldsConfig(sensors=SensorConfig(cameras=("front", "wrist"), kinds=("rgb", "depth", "segmentation")))
SHORT = WorldsConfig(sensors=SensorConfig(cameras=("front",)), max_steps=3)
MODES = list(AutoresetMode)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small.bundle(tmp_path_factory.mktemp("bundle"))


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    return bool(np.array_equal(a, b))


def row(observation: Any, world: int) -> Any:
    if isinstance(observation, dict):
        return {name: row(value, world) for name, value in observation.items()}
    return observation[world]


@pytest.mark.parametrize("task", tasks())
def test_gymnasiums_checker_is_content(bundle: Bundle, task: str) -> None:
    register()
    name = f"simbridge/{task.title().replace('_', '')}-v0"
    env = gymnasium.make(name, bundle=bundle, config=CONFIG, render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=0)
    picture = env.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (48, 64, 3)
    env.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task", tasks())
def test_a_vector_env_is_made_by_name_and_is_what_its_spaces_say(
    bundle: Bundle, task: str, mode: AutoresetMode
) -> None:
    register()
    name = f"simbridge/{task.title().replace('_', '')}-v0"
    envs = gymnasium.make_vec(
        name, num_envs=2, vectorization_mode="vector_entry_point", bundle=bundle, config=SHORT, autoreset_mode=mode
    )
    assert envs.metadata["autoreset_mode"] is mode
    observation, _ = envs.reset(seed=3)
    for _ in range(2):
        assert observation in envs.observation_space
        observation, rewards, terminated, truncated, _ = envs.step(envs.action_space.sample())
        assert rewards.shape == terminated.shape == truncated.shape == (2,)
    envs.close()


def test_every_world_equals_a_single_one_of_its_seed(bundle: Bundle) -> None:
    envs = simbridge.make(bundle, "reach", num_envs=3, config=SHORT)
    singles = [simbridge.make(bundle, "reach", config=SHORT) for _ in range(3)]
    observation, _ = envs.reset(seed=5)
    alone = [env.reset(seed=5 + i)[0] for i, env in enumerate(singles)]
    moves = np.random.default_rng(0)
    for _ in range(9):  # Beyond the end of an episode, which the next step begins anew.
        for world in range(3):
            assert equal(row(observation, world), alone[world])
        actions = moves.uniform(-1, 1, (3, 3)).astype(np.float32)
        anew = envs._ended.copy()
        observation, rewards, terminated, truncated, _ = envs.step(actions)
        for world, env in enumerate(singles):
            if anew[world]:
                alone[world] = env.reset()[0]
                assert rewards[world] == 0
                assert not terminated[world]
                continue
            alone[world], reward, ended, cut, _ = env.step(actions[world])
            assert (reward, ended, cut) == (rewards[world], terminated[world], truncated[world])


def test_seeds_make_worlds_differ_and_repeat(bundle: Bundle) -> None:
    envs = simbridge.make(bundle, "reach", num_envs=3, config=SHORT)
    first, again, other = (envs.reset(seed=seed)[1]["goal"] for seed in (5, 5, 9))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len({tuple(goal) for goal in first}) == 3
    free = [simbridge.make(bundle, "reach", num_envs=1, config=SHORT).reset()[1]["goal"] for _ in range(2)]
    assert not np.array_equal(*free)
    single = envs.reset(seed=[7, None, 7])[1]["goal"]
    assert np.array_equal(single[0], single[2])


def test_next_step_mode(bundle: Bundle) -> None:
    envs = SplatVectorEnv(bundle, "reach", 2, config=SHORT, autoreset_mode=AutoresetMode.NEXT_STEP)
    _, first = envs.reset(seed=0)
    still = np.zeros((2, 3))
    steps = [envs.step(still) for _ in range(4)]
    assert [step[3].tolist() for step in steps] == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    assert steps[3][1].tolist() == [0, 0]
    assert not np.array_equal(steps[3][4]["goal"], first["goal"])
    assert steps[3][4]["elapsed_steps"].tolist() == [0, 0]


def test_same_step_mode_keeps_the_last_observation(bundle: Bundle) -> None:
    envs = SplatVectorEnv(bundle, "reach", 2, config=SHORT, autoreset_mode="SameStep")
    twin = SplatVectorEnv(bundle, "reach", 2, config=SHORT)
    envs.reset(seed=0)
    twin.reset(seed=0)
    moves = np.random.default_rng(1).uniform(-1, 1, (3, 2, 3))
    for k in range(3):
        observation, _, _, truncated, infos = envs.step(moves[k])
        last = twin.step(moves[k])
    assert truncated.all()
    assert infos["_final_obs"].all()
    for world in range(2):
        assert equal(infos["final_obs"][world], row(last[0], world))
        assert infos["final_info"]["elapsed_steps"][world] == 3
    assert infos["elapsed_steps"].tolist() == [0, 0]
    assert not equal(observation, last[0])
    assert equal(observation, twin.step(moves[0])[0])  # The other's next step begins the same episode.


def test_a_chunk_is_its_steps_and_draws_the_last(bundle: Bundle) -> None:
    chunked, stepped = (SplatVectorEnv(bundle, "reach", 2, config=SHORT) for _ in range(2))
    chunked.reset(seed=3)
    stepped.reset(seed=3)
    moves = np.random.default_rng(2).uniform(-1, 1, (2, 3, 3))
    moves[1, 0] = 2.0  # Cut off at 1, in the first step alone.
    observation, rewards, terminated, truncated, infos = chunked.chunk_step(moves)
    steps = [stepped.step(moves[:, k]) for k in range(3)]
    assert equal(observation, steps[-1][0])
    for told, column in ((rewards, 1), (terminated, 2), (truncated, 3)):
        assert np.array_equal(told, np.stack([step[column] for step in steps], 1))
    assert infos["clipped"].tolist() == [False, True]
    expected = {name: value for name, value in steps[-1][4].items() if name != "clipped"}
    assert equal({name: value for name, value in infos.items() if name != "clipped"}, expected)
    assert truncated[:, 2].all()
    # The next call begins anew instead, however long its chunk is.
    after = chunked.chunk_step(moves)
    assert equal(after[0], stepped.step(moves[:, 0])[0])
    assert not after[1].any()


@pytest.mark.parametrize("mode", MODES)
def test_a_world_that_ends_within_a_chunk_stands_still(bundle: Bundle, mode: AutoresetMode) -> None:
    envs, alone = (SplatVectorEnv(bundle, "reach", 2, config=SHORT, autoreset_mode=mode) for _ in range(2))
    envs.reset(seed=3)
    alone.reset(seed=3)
    moves = np.random.default_rng(2).uniform(-1, 1, (2, 5, 3))
    observation, rewards, _, truncated, infos = envs.chunk_step(moves)
    for k in range(3):
        last = alone.step(moves[:, k])
    assert truncated.tolist() == [[False, False, True, False, False]] * 2
    assert not rewards[:, 3:].any()
    assert equal(observation, last[0])
    if mode is AutoresetMode.SAME_STEP:
        assert all(equal(infos["final_obs"][world], last[4]["final_obs"][world]) for world in range(2))


def test_a_chunk_with_a_bad_action_changes_nothing(bundle: Bundle) -> None:
    envs, twin = (SplatVectorEnv(bundle, "reach", 2, config=SHORT) for _ in range(2))
    envs.reset(seed=3)
    twin.reset(seed=3)
    bad = np.zeros((2, 3, 3))
    bad[1, 2, 0] = np.nan
    for chunk, word in ((bad, "not finite"), (np.zeros((2, 0, 3)), "shape"), (np.zeros((2, 3)), "shape")):
        with pytest.raises(ActionError, match=word):
            envs.chunk_step(chunk)
    assert equal(envs.step(np.ones((2, 3)))[0], twin.step(np.ones((2, 3)))[0])


def test_disabled_mode_waits_to_be_told(bundle: Bundle) -> None:
    envs = SplatVectorEnv(bundle, "reach", 3, config=SHORT, autoreset_mode=AutoresetMode.DISABLED)
    before, _ = envs.reset(seed=0)
    for _ in range(3):
        before, _, _, truncated, _ = envs.step(np.zeros((3, 3)))
    assert truncated.all()
    with pytest.raises(RuntimeError, match=r"worlds \[0, 1, 2\] have ended"):
        envs.step(np.zeros((3, 3)))
    mask = np.array([True, False, True])
    after, told = envs.reset(options={"reset_mask": mask})
    assert told["_goal"].tolist() == mask.tolist()
    assert equal(row(after, 1), row(before, 1))
    assert not equal(row(after, 0), row(before, 0))
    with pytest.raises(RuntimeError, match=r"worlds \[1\] have ended"):
        envs.step(np.zeros((3, 3)))
    for bad in (np.zeros(3, bool), np.ones(2, bool), np.ones(3)):
        with pytest.raises(ValueError, match="reset_mask"):
            envs.reset(options={"reset_mask": bad})


@pytest.mark.parametrize("mode", MODES)
def test_observations_never_change_after_they_were_given_out(bundle: Bundle, mode: AutoresetMode) -> None:
    envs = SplatVectorEnv(bundle, "reach", 2, config=SHORT, autoreset_mode=mode)
    kept = [envs.reset(seed=0)[0]]
    copies = [{"state": kept[0]["state"].copy(), "front": kept[0]["images"]["front"].copy()}]
    for k in range(7):
        if mode is AutoresetMode.DISABLED and k and k % 3 == 0:
            kept.append(envs.reset(options={"reset_mask": np.ones(2, bool)})[0])
        else:
            kept.append(envs.step(np.random.default_rng(k).uniform(-1, 1, (2, 3)))[0])
        copies.append({"state": kept[-1]["state"].copy(), "front": kept[-1]["images"]["front"].copy()})
    for observation, copy in zip(kept, copies, strict=True):
        assert np.array_equal(observation["state"], copy["state"])
        assert np.array_equal(observation["images"]["front"], copy["front"])


def test_bad_actions_are_refused(bundle: Bundle) -> None:
    envs = simbridge.make(bundle, "reach", num_envs=2, config=SHORT)
    envs.reset(seed=0)
    with pytest.raises(ActionError, match="2 rows"):
        envs.step(np.zeros((3, 3)))
    with pytest.raises(ActionError, match="not finite"):
        envs.step(np.full((2, 3), np.nan))
    with pytest.raises(ValueError, match="2 worlds; 3 seeds"):
        envs.reset(seed=[1, 2, 3])
    env = simbridge.make(bundle, "reach", config=SHORT)
    env.reset(seed=0)
    with pytest.raises(ActionError, match="shape"):
        env.step(np.zeros(2))


def test_importing_simbridge_imports_neither_gymnasium_nor_mujoco() -> None:
    import subprocess
    import sys

    script = "import sys, simbridge; print(sorted({'gymnasium', 'mujoco', 'torch', 'rlinf'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
