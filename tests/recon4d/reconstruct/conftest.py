"""The tiny world as a capture folder, and one reconstruction of it that tests copy and change."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from recon4d.events import Event
from recon4d.points import DynamicSeedConfig
from recon4d.reconstruct import ReconstructConfig, Result, reconstruct
from recon4d.train import FitConfig, JointConfig, StaticConfig
from recon4d.types import SplitRule
from tests import worlds

CONFIG = ReconstructConfig(
    fit=FitConfig(
        static=StaticConfig(count=800, steps=60),
        seeds=DynamicSeedConfig(count=400),
        joint=JointConfig(steps=220, checkpoint_every=100),
    ),
    videos=False,
)


@dataclass(frozen=True)
class Finished:
    """A reconstruction that nothing may change."""

    capture: Path
    out: Path
    result: Result
    events: list[Event]

    def copy(self, folder: Path) -> Path:
        """The output folder again, to be changed."""
        return Path(shutil.copytree(self.out, folder / "out"))


@pytest.fixture(scope="session")
def config() -> ReconstructConfig:
    return CONFIG


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is not ASCII; three cameras to train on and one held out."""
    world = worlds.capture(seconds=1.3, split=SplitRule(heldout_cameras=("c3",)))
    return worlds.write_capture(world, tmp_path_factory.mktemp("captures") / "bänk 一")


@pytest.fixture(scope="session")
def finished(capture: Path, config: ReconstructConfig, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    out = tmp_path_factory.mktemp("scenes") / "out"
    events: list[Event] = []
    result = reconstruct(capture, out, config, on_event=events.append)
    return Finished(capture=capture, out=out, result=result, events=events)
