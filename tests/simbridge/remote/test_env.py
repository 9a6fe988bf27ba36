"""Worlds across a websocket are the worlds here: the same checks, the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from simbridge.adapters.gymnasium import SplatVectorEnv
from simbridge.core import SensorConfig, WorldsConfig
from simbridge.errors import ActionError, RemoteError
from simbridge.remote import RemoteEnv
from simbridge.types import Bundle
from tests.simbridge import worlds as small
from tests.simbridge.remote.server import serving

CONFIG = WorldsConfig(
    sensors=SensorConfig(cameras=("front", "wrist"), image_size=(32, 24), kinds=("rgb", "depth", "segmentation")),
    max_steps=3,
)
MODES = list(AutoresetMode)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small.bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def address(bundle: Bundle) -> Iterator[str]:
    with serving(bundle, CONFIG) as url:
        yield url


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, types and shapes included."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, tuple) or (isinstance(a, np.ndarray) and a.dtype == object):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and a == b


class OneWorld(gymnasium.Env):
    """A remote world as a single environment, for Gymnasium's checker."""

    def __init__(self, address: str) -> None:
        self._envs = RemoteEnv(address, num_envs=1, autoreset_mode=AutoresetMode.DISABLED, render_mode="rgb_array")
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": self._envs.metadata["render_fps"]}
        self.render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        observation, infos = self._envs.reset(seed=seed)
        return first(observation), {name: value[0] for name, value in infos.items()}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, rewards, terminated, truncated, infos = self._envs.step(action[None])
        told = {name: value[0] for name, value in infos.items()}
        return first(observation), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), told

    def render(self) -> np.ndarray:
        pictures = self._envs.render()
        assert pictures is not None
        return pictures[0]

    def close(self) -> None:
        self._envs.close()


def first(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: first(value) for name, value in observation.items()}
    return observation[0]


def test_gymnasiums_checker_is_content(address: str) -> None:
    env = OneWorld(address)
    check_env(env, skip_render_check=True)
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_it_is_what_its_spaces_say(address: str, mode: AutoresetMode) -> None:
    envs = RemoteEnv(address, autoreset_mode=mode)
    assert envs.metadata["autoreset_mode"] is mode
    assert envs.num_envs == 2
    observation, _ = envs.reset(seed=3)
    for _ in range(2):
        assert observation in envs.observation_space
        observation, rewards, terminated, truncated, _ = envs.step(envs.action_space.sample())
        assert rewards.shape == terminated.shape == truncated.shape == (2,)
    envs.close()


def spaces_of(envs: Any) -> list[Any]:
    return [envs.single_observation_space, envs.single_action_space, envs.observation_space, envs.action_space]


@pytest.mark.parametrize("images", ["raw", "png"])
@pytest.mark.parametrize("mode", MODES)
def test_all_equals_the_worlds_of_this_process(bundle: Bundle, address: str, mode: AutoresetMode, images: Any) -> None:
    here = SplatVectorEnv(bundle, "reach", 2, config=CONFIG, autoreset_mode=mode, render_mode="rgb_array")
    there = RemoteEnv(address, autoreset_mode=mode, images=images, render_mode="rgb_array")
    assert spaces_of(here) == spaces_of(there)
    assert there.metadata == here.metadata
    assert same(here.reset(seed=5), there.reset(seed=5))
    moves = np.random.default_rng(1)
    for k in range(8):  # Over the ends of two episodes.
        if mode is AutoresetMode.DISABLED and k and k % 3 == 0:
            options = {"reset_mask": np.array([True, True])}
            assert same(here.reset(options=options), there.reset(options=options))
        actions = moves.uniform(-1, 1, (2, 3)).astype(np.float32 if k % 2 else np.float64)
        assert same(here.step(actions), there.step(actions))
        assert all(map(same, here.render() or (), there.render() or ()))
    seeds = [7, None] if mode is not AutoresetMode.DISABLED else [7, 8]
    assert same(here.reset(seed=seeds)[0]["state"][:1], there.reset(seed=seeds)[0]["state"][:1])
    there.close()


@pytest.mark.parametrize("mode", MODES)
def test_chunks_are_equal_too(bundle: Bundle, address: str, mode: AutoresetMode) -> None:
    here = SplatVectorEnv(bundle, "reach", 2, config=CONFIG, autoreset_mode=mode)
    there = RemoteEnv(address, autoreset_mode=mode)
    assert same(here.reset(seed=5), there.reset(seed=5))
    chunks = np.random.default_rng(1).uniform(-1, 1, (3, 2, 2, 3))
    for chunk in chunks:
        answers = here.chunk_step(chunk), there.chunk_step(chunk)
        assert same(*answers)
        if mode is AutoresetMode.DISABLED and (answers[0][2] | answers[0][3]).any():
            assert same(here.reset(options={"reset_mask": np.ones(2, bool)}), there.reset())
    there.close()


def test_jpeg_is_small_and_nearly_the_same(address: str) -> None:
    exact, small_ones = RemoteEnv(address), RemoteEnv(address, images="jpeg")
    raw, packed = (envs.reset(seed=1)[0]["images"]["front"] for envs in (exact, small_ones))
    assert packed.shape == raw.shape
    assert packed.dtype == np.uint8
    assert 0 < np.abs(packed.astype(int) - raw).mean() < 20
    for envs in (exact, small_ones):
        envs.close()


def test_observations_never_change_after_they_were_given_out(address: str) -> None:
    envs = RemoteEnv(address)
    before = envs.reset(seed=0)[0]["images"]["front"]
    copy = before.copy()
    after = envs.step(np.ones((2, 3), np.float32))[0]["images"]["front"]
    assert np.array_equal(before, copy)
    after[:] = 0  # They are the caller's own.
    assert envs.step(np.ones((2, 3), np.float32))[0]["images"]["front"].any()
    envs.close()


def test_errors_are_those_of_the_worlds_and_leave_the_session_as_it_was(bundle: Bundle, address: str) -> None:
    here = SplatVectorEnv(bundle, "reach", 2, config=CONFIG, autoreset_mode=AutoresetMode.DISABLED)
    there = RemoteEnv(address, autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(RuntimeError, match="reset first"):
        there.step(np.zeros((2, 3)))
    here.reset(seed=0)
    there.reset(seed=0)
    bad = np.zeros((2, 3))
    bad[1, 2] = np.nan
    with pytest.raises(ActionError, match="action of world 1 is not finite"):
        there.step(bad)
    with pytest.raises(ActionError, match="action of world 1 is not finite"):
        there.chunk_step(np.stack([np.zeros((2, 3)), bad], 1))
    with pytest.raises(ActionError, match="2 rows"):
        there.step(np.zeros((3, 3)))
    with pytest.raises(ActionError, match=r"\(2, 3\)"):
        there.step(np.zeros((2, 4)))
    with pytest.raises(ActionError, match="2 axes"):
        there.step(np.zeros(3))
    with pytest.raises(ValueError, match="2 worlds; 3 seeds"):
        there.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="reset_mask"):
        there.reset(options={"reset_mask": np.zeros(2, bool)})
    wild = np.full((2, 3), 1e9)
    ours, theirs = here.step(wild), there.step(wild)
    assert same(ours, theirs)
    assert theirs[4]["clipped"].all()
    for _ in range(2):
        here.step(np.zeros((2, 3)))
        there.step(np.zeros((2, 3)))
    with pytest.raises(RuntimeError, match=r"worlds \[0, 1\] have ended"):
        there.step(np.zeros((2, 3)))
    there.close()


def test_a_world_of_a_batch_is_the_world_alone(address: str) -> None:
    two, one = RemoteEnv(address), RemoteEnv(address, num_envs=1)
    both, alone = two.reset(seed=[4, 9])[0], one.reset(seed=9)[0]
    assert np.array_equal(both["images"]["wrist"][1], alone["images"]["wrist"][0])
    two.close()
    one.close()


def test_addresses_and_peers_that_are_none() -> None:
    for url in ("127.0.0.1:1/env", "ftp://host/env", ""):
        with pytest.raises(RemoteError, match="address"):
            RemoteEnv(url)
    with pytest.raises(RemoteError, match=r"cannot reach ws://127\.0\.0\.1:1/env/ws: "):
        RemoteEnv("http://127.0.0.1:1/env?expires=1&signature=secret")


def test_closing_twice_and_after_the_end(address: str) -> None:
    envs = RemoteEnv(address)
    envs.reset(seed=0)
    envs.close()
    envs.close()
    with pytest.raises(RemoteError, match="has ended"):
        envs.step(np.zeros((2, 3)))
