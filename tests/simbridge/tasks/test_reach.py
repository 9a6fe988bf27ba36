"""Where the goals of `reach` lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simbridge.core import Worlds
from simbridge.errors import TaskError
from simbridge.tasks import make_task
from tests.simbridge import worlds

BLOCK, OTHER = (np.array([0.1, 0.1]), 0.03), (np.array([0.05, -0.15]), 0.02)
"""Where the small bundle's blocks stand, and half their longest side."""


def goals(folder: Path, count: int, **options: object) -> np.ndarray:
    bundle = worlds.bundle(folder)
    made = Worlds(bundle, make_task("reach", **options), count)
    try:
        step = made.reset(made.all, list(range(count)), render=False)
        return np.array(step.infos["goal"])
    finally:
        made.close()


def test_goals_fill_their_area_and_lie_in_nothing(tmp_path: Path) -> None:
    found = goals(tmp_path, 200)
    (x0, x1), (y0, y1) = worlds.SPAWN
    assert (found[:, :2] >= (x0, y0)).all()
    assert (found[:, :2] <= (x1, y1)).all()
    assert (np.ptp(found[:, :2], axis=0) > 0.9 * np.array([x1 - x0, y1 - y0])).all()
    for centre, half in (BLOCK, OTHER):
        # The ball's radius and the gap come on top of the block itself.
        assert np.linalg.norm(found[:, :2] - centre, axis=1).min() > half + 0.02 + 0.02


def test_an_area_without_room_is_told(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"widen the area, or lower clearance_m \(0.02\)"):
        goals(tmp_path, 1, area=((0.09, 0.11), (0.09, 0.11)))
