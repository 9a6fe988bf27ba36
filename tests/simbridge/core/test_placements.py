"""Beginnings that a bundle lists, for evaluations that are to be repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from recon4d.errors import Recon4DError
from simbridge.core import Worlds, WorldsConfig
from simbridge.tasks import make_task
from simbridge.types import Bundle
from tests.simbridge import worlds as small

LISTED = WorldsConfig(placements="bundle")


def condition(number: int, block: tuple[float, float], other: tuple[float, float]) -> dict[str, Any]:
    turned = [np.cos(number / 2), 0.0, 0.0, np.sin(number / 2)]
    objects = {
        "block": {"position": [*block, 0.025], "quat": turned},
        "other": {"position": [*other, 0.02], "quat": [1.0, 0.0, 0.0, 0.0]},
    }
    return {"id": number, "objects": objects}


CONDITIONS = (condition(0, (0.0, 0.0), (0.1, 0.15)), condition(1, (0.12, -0.1), (-0.02, 0.1)))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return replace(small.bundle(tmp_path_factory.mktemp("bundle")), initial_conditions=CONDITIONS)


@pytest.mark.parametrize("task", ["reach", "push_block"])
def test_objects_begin_where_the_bundle_lists_them(bundle: Bundle, task: str) -> None:
    worlds = Worlds(bundle, make_task(task), 4, config=LISTED)
    step = worlds.reset(worlds.all, [0, 1, 2, 5], render=False)
    assert step.infos["initial_state"].tolist() == [0, 1, 0, 1]
    for name in ("block", "other"):
        expected = [CONDITIONS[k]["objects"][name]["position"] for k in (0, 1, 0, 1)]
        assert np.array_equal(worlds.physics.position(name, worlds.all), expected)
    goals = step.infos["goal"][:, :2]
    assert not np.allclose(goals[0], goals[2])  # Drawn for every episode, of the same beginning, too.
    if task == "push_block":
        assert (np.linalg.norm(goals - worlds.physics.position("block", worlds.all)[:, :2], axis=1) >= 0.12).all()
    worlds.close()


def test_drawn_beginnings_are_one_of_a_kind(bundle: Bundle) -> None:
    worlds = Worlds(bundle, make_task("push_block"), 2)
    step = worlds.reset(worlds.all, [7, 8], render=False)
    assert step.infos["initial_state"].tolist() == [7, 8]
    worlds.close()


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ((), "lists no initial conditions: use placements='drawn'"),
        (({"id": 0, "objects": {"cup": CONDITIONS[0]["objects"]["block"]}},), "'cup'.* must name an object"),
        (({"id": 0, "objects": {"block": {"position": [0, 0], "quat": [1, 0, 0, 0]}}},), r"position \[3\] in metres"),
        (({"id": 0, "objects": {"block": {"position": [0, 0, 0], "quat": [1, 1, 0, 0]}}},), "of length 1"),
        (({"id": 0, "objects": {"block": {"position": [0, 0, 0], "quat": [float("nan"), 0, 0, 0]}}},), "of length 1"),
        (({"id": 0, "objects": {"block": {"position": [0, float("inf"), 0], "quat": [1, 0, 0, 0]}}},), "in metres"),
        (({"id": 0, "objects": {"block": {"position": ["here", 0, 0], "quat": [1, 0, 0, 0]}}},), "in metres"),
        (({"id": 0, "objects": {"block": [0, 0, 0]}},), "in metres"),
    ],
)
def test_lists_that_cannot_be_used_are_refused(bundle: Bundle, conditions: tuple, message: str) -> None:
    with pytest.raises(Recon4DError, match=message):
        Worlds(replace(bundle, initial_conditions=conditions), make_task("reach"), 1, config=LISTED)


def test_a_bundle_is_named_in_a_line(bundle: Bundle) -> None:
    text = repr(bundle)
    assert len(text.splitlines()) == 1
    assert text.endswith("bodies; cameras front, side, wrist)")
