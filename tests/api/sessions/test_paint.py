"""What draws keeps the scenes that are in use, and no more than there is room for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from api.sessions._paint import Studio
from recon4d.errors import SceneError
from tests.api import scenes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scenes.scene_folder(tmp_path_factory.mktemp("scene") / "out")


def order(name: str, folder: Path) -> dict[str, Any]:
    view = {"camera": None, "pose": None, "position": None, "look_at": None}
    return {"scene": name, "folder": str(folder), "format": "png", "t": 0.5, "width": 8, "height": 6, "view": view}


def test_the_least_recently_used_scene_goes_first(folder: Path) -> None:
    studio = Studio()
    first = studio.picture(order("a", folder))
    two = 2 * studio.room_taken
    studio = Studio(room=two)
    for name in ("a", "b", "a", "c"):
        studio.picture(order(name, folder))
    assert studio.scenes == ["a", "c"]
    assert studio.picture(order("b", folder)) == first
    assert studio.scenes == ["c", "b"]


def test_a_scene_larger_than_the_room_is_drawn_all_the_same(folder: Path) -> None:
    studio = Studio(room=1)
    for name in ("a", "b"):
        assert studio.picture(order(name, folder)).startswith(b"\x89PNG")
        assert studio.scenes == [name]


def test_a_loaded_scene_outlives_its_folder_and_one_that_is_not_does_not(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    studio = Studio()
    before = studio.picture(order("a", copy))
    shutil.rmtree(copy)
    assert studio.picture(order("a", copy)) == before
    with pytest.raises(SceneError):
        studio.picture(order("b", copy))
