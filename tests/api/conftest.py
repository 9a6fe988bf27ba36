"""A tiny capture, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from recon4d.types import SplitRule
from tests import worlds


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture folder: three cameras to train on and one held out."""
    world = worlds.capture(seconds=1.3, split=SplitRule(heldout_cameras=("c3",)))
    return worlds.write_capture(world, tmp_path_factory.mktemp("captures") / "tiny")
