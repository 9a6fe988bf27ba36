"""Videos of a board that is carried, made once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recon4d.calibrate import Board
from tests.recon4d.calibrate.rig import Film, carried, film, trio

BOARD = Board.parse("charuco:6x5:60mm:dict=4X4_50")


@pytest.fixture(scope="session")
def board() -> Board:
    return BOARD


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of three cameras; the board lies on the bench for the first second. The right one is 25 ms late."""
    wander = carried(1)

    def motion(time_s: float) -> np.ndarray:
        if time_s >= 1.0:
            return wander(time_s)
        T = np.diag([1.0, -1.0, -1.0, 1.0])
        T[:3, 3] = -0.18, 0.1, 0.004
        return T

    how = Film(seconds=4.0, delays_s={"right": 0.025})
    return film(tmp_path_factory.mktemp("carried"), trio(), BOARD, motion, how)
