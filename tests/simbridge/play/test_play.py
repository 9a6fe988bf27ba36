"""Episodes that policies play."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from recon4d.errors import ConfigError, Stopped
from recon4d.events import Event, Finished, Progress
from simbridge.core import SensorConfig, Worlds, WorldsConfig
from simbridge.errors import EvaluationError
from simbridge.play import PlayConfig, load_policy, play
from simbridge.tasks import make_task
from simbridge.types import Bundle
from tests.simbridge import worlds as small

CONFIG = WorldsConfig(sensors=SensorConfig(cameras=("front",)), max_steps=6, control="ee_delta")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small.bundle(tmp_path_factory.mktemp("bundle"))


def make(bundle: Bundle, count: int = 3, **options: Any) -> Worlds:
    return Worlds(bundle, make_task("reach", **options), count, config=CONFIG)


class Toward:
    """Moves the tip to the goal that it is told by the worlds, in chunks; notes what it was shown."""

    def __init__(self, worlds: Worlds, chunk: int = 1) -> None:
        self.worlds, self.chunk, self.seen = worlds, chunk, []

    def __call__(self, observation: Mapping[str, Any]) -> np.ndarray:
        self.seen.append({name: np.copy(value) for name, value in observation.items() if name != "images"})
        assert observation["images"]["front"].dtype == np.uint8
        everything = self.worlds.look(self.worlds.all, render=False).infos
        rows = [list(everything["episode_id"]).index(e) for e in observation["episodes"]]
        way = everything["goal"][rows] - self.worlds.physics.site("tip", np.array(rows))
        return np.repeat(np.clip(way / 0.03, -1, 1)[:, None], self.chunk, 1)


def test_results_do_not_depend_on_how_many_play_at_a_time(bundle: Bundle) -> None:
    policy = load_policy("random", 3)
    several = play(make(bundle, 3), policy, range(5), name="random")
    single = play(make(bundle, 1), policy, range(5), name="random")
    assert several == single
    assert [result.initial_state for result in several] == [0, 1, 2, 3, 4]
    assert all(result.length == 6 for result in several if not result.success)


def test_one_that_knows_succeeds_where_nothing_done_fails(bundle: Bundle) -> None:
    worlds = make(bundle, tolerance_m=0.05)
    worlds.max_steps = 40
    knowing = play(worlds, Toward(worlds), range(6), name="knowing")
    idle = play(worlds, load_policy("zero", 3), range(6), name="idle")
    assert np.mean([result.success for result in knowing]) > 0.8
    assert not any(result.success for result in idle)
    assert min(result.reward for result in knowing if result.success) > max(result.reward for result in idle)


def test_chunks_are_asked_for_once(bundle: Bundle) -> None:
    worlds = make(bundle, 2, tolerance_m=1e-6)
    policy = Toward(worlds, chunk=3)
    results = play(worlds, policy, range(2), name="chunks")
    assert [seen["steps"].tolist() for seen in policy.seen] == [[0, 0], [3, 3]]
    assert [result.length for result in results] == [6, 6]


def test_delayed_actions_are_done_later(bundle: Bundle, tmp_path: Path) -> None:
    push = lambda observation: np.full((len(observation["state"]), 3), 0.5)  # noqa: E731
    config = PlayConfig(delay_steps=2, films=0, record=True)
    play(make(bundle, 1), push, [0], name="push", config=config, out=tmp_path)
    with np.load(tmp_path / "actions.npz") as file:
        assert file["actions_0"].tolist() == [[0.0] * 3] * 2 + [[0.5] * 3] * 4


def test_recorded_actions_replay_to_the_same_result(bundle: Bundle, tmp_path: Path) -> None:
    first = play(
        make(bundle),
        load_policy("random", 3),
        range(3),
        name="p",
        config=PlayConfig(films=0, record=True),
        out=tmp_path,
    )
    again = play(make(bundle), load_policy(f"replay:{tmp_path / 'actions.npz'}", 3), range(3), name="p")
    assert again == first


def test_films_show_every_step(bundle: Bundle, tmp_path: Path) -> None:
    results = play(
        make(bundle, 2), load_policy("zero", 3), range(3), name="zero", config=PlayConfig(films=1), out=tmp_path
    )
    assert [result.extra.get("video") for result in results] == ["videos/episode-0.mp4", None, None]
    with av.open(str(tmp_path / "videos" / "episode-0.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == 7
    assert frames[0].shape == (48, 64, 3)
    assert frames[0].std() > 10


def test_progress_is_told_and_a_stop_is_heeded(bundle: Bundle) -> None:
    events: list[Event] = []
    play(make(bundle, 2), load_policy("zero", 3), range(4), name="zero", on_event=events.append)
    assert [event.step for event in events if isinstance(event, Progress)] == [2, 4]
    assert isinstance(events[-1], Finished)
    with pytest.raises(Stopped, match="0 of 4"):
        play(make(bundle, 2), load_policy("zero", 3), range(4), name="zero", should_stop=lambda: True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clever", "there are 'random', 'zero'"),
        ("no.such:policy", "cannot be loaded"),
        ("json:nothing", "cannot be loaded"),
        ("json:__name__", "is a str"),
        (":policy", "cannot be loaded"),
        ("math:sqrt", "which cannot be called"),
        ("replay:nowhere.npz", "cannot be read"),
    ],
)
def test_policies_that_cannot_be_had_are_named(name: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        load_policy(name, 3)


def test_unusable_actions_are_refused(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"\[3, 3\].*it gave \[3, 1, 2\]"):
        play(make(bundle), lambda observation: np.zeros((3, 2)), range(3), name="p")
    np.savez(tmp_path / "short.npz", actions_7=np.zeros((4, 2)))
    with pytest.raises(EvaluationError, match="actions_7 must be finite"):
        load_policy(f"replay:{tmp_path / 'short.npz'}", 3)
    np.savez(tmp_path / "other.npz", actions_7=np.zeros((4, 3)))
    with pytest.raises(EvaluationError, match="no actions of episode 0; it holds 7"):
        play(make(bundle), load_policy(f"replay:{tmp_path / 'other.npz'}", 3), range(3), name="p")
    with pytest.raises(ConfigError, match="delay_steps"):
        PlayConfig(delay_steps=-1)
