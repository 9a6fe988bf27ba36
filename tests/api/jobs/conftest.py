"""A data folder, and captures that are not sound."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.jobs.house import House


@pytest.fixture
def broken(tiny: Path, tmp_path: Path) -> Path:
    """The same capture; the video of camera c1 is cut short."""
    folder = Path(shutil.copytree(tiny, tmp_path / "broken"))
    video = folder / "c1.mp4"
    video.write_bytes(video.read_bytes()[:300])
    return folder


@pytest.fixture
def odd(tiny: Path, tmp_path: Path) -> Path:
    """The same capture; camera c2 is said to be of another size."""
    folder = Path(shutil.copytree(tiny, tmp_path / "odd"))
    manifest = json.loads((folder / "capture.json").read_text())
    manifest["cameras"][2].update(width=100)
    (folder / "capture.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with House(tmp_path / "data") as house:
        yield house
