"""A bundle's request names its own files, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from api.errors import Problem
from api.jobs import check_parts

ARM = "<mujoco><asset><mesh file='hand.obj'/></asset><worldbody><light dir='0 0 -1'/></worldbody></mujoco>"
FILES = {"arm.xml": ARM, "meshes/hand.obj": "v 0 0 0", "hand.ply": "ply"}
CONFIG: dict[str, Any] = {
    "licence": "CC0-1.0",
    "robot": {"mjcf": "arm.xml", "site": "tip", "splats": {"hand": "hand.ply"}},
    "objects": [{"name": "cup", "shape": "mesh", "mesh": "meshes/hand.obj"}],
}


def test_what_names_its_own_files_is_taken() -> None:
    check_parts(CONFIG, FILES)
    check_parts({"licence": "CC0-1.0"}, {})


@pytest.mark.parametrize(
    "config",
    [
        {"folder": "/"},
        {"robot": {"mjcf": "/etc/passwd"}},
        {"robot": {"mjcf": "../arm.xml"}},
        {"robot": {"mjcf": ["arm.xml"]}},
        {"robot": {"mjcf": "arm.xml", "splats": {"hand": "/other.ply"}}},
        {"objects": [{"name": "a", "mesh": "../../captures/x.obj"}]},
        {"objects": [{"name": "a"}, {"name": "b", "splats": "missing.ply"}]},
    ],
)
def test_a_configuration_that_names_other_files_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(Problem) as refused:
        check_parts(config, FILES)
    assert (refused.value.status, refused.value.kind) == (422, "config")


@pytest.mark.parametrize(
    "name", ["/a.xml", "../a.xml", "a/../b.xml", ".hidden", "a\\b", "a\0b", "", "config.json", "a//b"]
)
def test_a_name_that_is_a_path_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(Problem, match="made of letters"):
        check_parts(CONFIG, FILES | {name: ""})


@pytest.mark.parametrize(
    "model",
    [
        "<mujoco><include file='/etc/passwd'/></mujoco>",
        "<mujoco><include file='../../secret'/></mujoco>",
        "<mujoco><compiler meshdir='/'/></mujoco>",
        "<mujoco><compiler assetdir='..'/></mujoco>",
        "<mujoco><asset><texture fileright='..\\\\..\\\\key.png'/></asset></mujoco>",
        "<mujoco><asset><model file='/srv/other.xml'/></asset></mujoco>",
        "<mujoco>",
    ],
)
@pytest.mark.parametrize("name", ["arm.xml", "innocent.txt"])
def test_a_model_that_leads_out_of_its_folder_is_refused(name: str, model: str) -> None:
    with pytest.raises(Problem) as refused:
        check_parts(CONFIG, FILES | {name: model})
    assert refused.value.members["file"] == name


def test_too_many_files_are_refused() -> None:
    with pytest.raises(Problem, match="64 files"):
        check_parts(CONFIG, FILES | {f"{number}.obj": "" for number in range(64)})
