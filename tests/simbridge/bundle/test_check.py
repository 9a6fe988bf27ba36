"""Each planted fault is found, and named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from simbridge.bundle import build, check, load, read_config
from simbridge.commands import main
from simbridge.errors import BundleError
from tests.simbridge.bundle import small

WORLD = "splats/00_world.safetensors"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    build(small.scene(), read_config(small.config_file(folder)), folder / "bundle")
    return folder / "bundle"


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def retensor(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = {name: value.clone() for name, value in load_file(path).items()}
    change(tensors)
    save_file({name: value.contiguous() for name, value in tensors.items()}, path)


def y_up(path: Path) -> None:
    turn = torch.tensor([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    retensor(path / WORLD, lambda t: t.update(means=t["means"] @ turn.T))


def scaled(path: Path) -> None:
    retensor(path / WORLD, lambda t: t.update(means=t["means"] * 100, scales=t["scales"] * 100))

    def farther(content: dict[str, Any]) -> None:
        for camera in content["cameras"][:4]:
            for row in camera["T_body_cam"][:3]:
                row[3] *= 100

    edit(path / "cameras.json", farther)


def nan(path: Path) -> None:
    retensor(path / "splats/03_cube.safetensors", lambda t: t["means"].__setitem__((0, 1), float("nan")))


def xyzw(path: Path) -> None:
    retensor(path / WORLD, lambda t: t.update(quats=t["quats"][:, [1, 2, 3, 0]]))


def empty(path: Path) -> None:
    retensor(path / WORLD, lambda t: t.update({name: value[:0] for name, value in t.items()}))


def degrees(path: Path) -> None:
    retensor(path / "splats/03_cube.safetensors", lambda t: t.update(sh=torch.zeros(len(t["sh"]), 4, 3)))


def in_box(path: Path) -> None:
    edit(path / "cameras.json", lambda c: place(c["cameras"][0]))


def place(camera: dict[str, Any]) -> None:
    """Into the middle of the cube, which rests at (0.1, 0)."""
    for row, value in zip(camera["T_body_cam"][:3], (0.1, 0.0, 0.0251), strict=True):
        row[3] = value


def away(camera: dict[str, Any]) -> None:
    """Turned about its x axis: it looks up."""
    T = np.array(camera["T_body_cam"])
    T[:3, 1:3] *= -1
    camera["T_body_cam"] = T.tolist()


def model(old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = (path / "scene.xml").read_text()
        assert old in text
        (path / "scene.xml").write_text(text.replace(old, new, 1))

    return change


def manifest(**values: Any) -> Callable[[Path], None]:
    return lambda path: edit(path / "bundle.json", lambda m: m.update(values))


def raised(path: Path) -> None:
    retensor(path / WORLD, lambda t: t["means"][:, 2].add_(0.05))


HFIELD = '<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/></asset><worldbody><geom type="hfield" hfield="h"/>'
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a missing model": (lambda p: (p / "scene.xml").unlink(), "error: scene.xml: the file is missing"),
    "a missing file": (lambda p: (p / "envelope.json").unlink(), "error: envelope.json: the file is missing"),
    "missing splats": (lambda p: (p / WORLD).unlink(), "00_world.safetensors is missing"),
    "no manifest": (lambda p: (p / "bundle.json").unlink(), "is no bundle"),
    "damaged JSON": (lambda p: (p / "cameras.json").write_text("{"), "cannot be read as JSON"),
    "damaged tensors": (lambda p: (p / WORLD).write_bytes(b"x" * 50), "no safetensors file"),
    "a value that is not finite": (nan, "03_cube.*'means' holds 1 values that are not finite"),
    "y up": (y_up, "tilted by 90 degrees"),
    "y up by declaration": (manifest(frame="+Y up"), r"frame must be 'right-handed, \+Z up'"),
    "units by declaration": (manifest(units="millimetre"), "units must be 'metre'"),
    "gravity along y": (model("<worldbody>", '<option gravity="0 -9.81 0"/><worldbody>'), "must point along -z"),
    "a hundred times too large": (scaled, "camera 'c0' is 6.* m above the bench"),
    "an empty background": (empty, "the background has no splats"),
    "a camera in a box": (in_box, "camera 'c0': it is inside the geom 'cube' of body 'cube'"),
    "a camera that sees nothing": (lambda p: edit(p / "cameras.json", lambda c: away(c["cameras"][0])), "is empty"),
    "an unknown field": (manifest(colour_space="srgb"), r"unknown fields \['colour_space'\]"),
    "an unknown camera field": (lambda p: edit(p / "cameras.json", lambda c: c["cameras"][0].update(fov=1)), "fov"),
    "a newer version": (manifest(version=2), "version 2; this simbridge reads up to 1: install a newer one"),
    "quaternions as xyzw": (xyzw, "reorder to wxyz"),
    "mixed degrees": (degrees, r"'sh' must have shape .* one SH degree per bundle"),
    "what cannot be drawn": (model("<worldbody>", HFIELD), "hfield"),
    "no licence": (manifest(licence=""), "licence is empty"),
    "a licence of a part": (manifest(licences={}), r"warning: .* no licence is given for \['cube', 'robot'\]"),
    "a bench above the plane": (raised, "50 mm above the physics plane"),
    "a body's splats elsewhere": (
        lambda p: retensor(p / "splats/03_cube.safetensors", lambda t: t["means"].add_(0.2)), "of 'cube': they lie"
    ),
    "a body that is not there": (model('body name="cube"', 'body name="die"'), "names 'cube', which the model"),
    "a mount turned by xyzw": (
        model('body name="robot/link"', 'body name="robot/link" quat="0 0 0 1"'), "quaternion \\(0, 0, 0, 1\\)"
    ),
    "an unknown plane": (manifest(plane=None), "warning: bundle.json: the bench plane is unknown"),
    "a tilted plane": (manifest(plane=[0, 1, 0, 0]), r"normal must be \+z"),
    "far from training views": (
        lambda p: edit(p / "envelope.json", lambda e: e["cameras"]["c1"]["worst"].update(angle_rad=1.0, holes=0.4)),
        "looks from 57 degrees",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_planted_fault_is_found(fault: str, good: Path, tmp_path: Path) -> None:
    import re

    plant, message = FAULTS[fault]
    shutil.copytree(good, tmp_path / "b")
    plant(tmp_path / "b")
    found = [str(finding) for finding in check(tmp_path / "b")]
    assert any(re.search(message, text) for text in found), found


def test_a_good_bundle_has_no_findings(good: Path) -> None:
    assert check(good) == []


def test_a_damaged_bundle_is_not_loaded(good: Path, tmp_path: Path) -> None:
    for fault in (
        "missing splats",
        "a value that is not finite",
        "a newer version",
        "an unknown field",
        "mixed degrees",
    ):
        shutil.copytree(good, tmp_path / fault)
        FAULTS[fault][0](tmp_path / fault)
        with pytest.raises(BundleError):
            load(tmp_path / fault)


def test_the_command_prints_findings_and_exits_by_them(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["check", str(good)]) == 0
    shutil.copytree(good, tmp_path / "b")
    raised(tmp_path / "b")
    assert main(["check", str(tmp_path / "b"), "--json"]) == 4
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["severity"] == "error"


def test_the_command_builds_and_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from recon4d.scene import save

    save(small.scene(), tmp_path / "scene")
    config = str(small.config_file(tmp_path))
    assert main(["bundle", str(tmp_path / "scene"), "--config", config, "--out", str(tmp_path / "b"), "--quiet"]) == 0
    assert "cube: " in capsys.readouterr().out
    assert main(["bundle", str(tmp_path / "gone"), "--config", config, "--out", str(tmp_path / "c")]) == 4
    assert "error: " in capsys.readouterr().err
    assert main(["bundle", str(tmp_path), "--config", str(tmp_path / "no.json"), "--out", str(tmp_path / "c")]) == 2


def test_without_mujoco_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    from simbridge.commands import _main

    def absent() -> int:
        raise ModuleNotFoundError("No module named 'mujoco'", name="mujoco")

    monkeypatch.setattr(_main, "commands", lambda: {"check": absent, "other": absent})
    assert main(["check"]) == 6
    assert "pip install 'recon4d[sim]'" in capsys.readouterr().err
