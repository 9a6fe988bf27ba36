"""Scene folders: round trip, refusals, and that a failed save never harms a good scene."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from recon4d.errors import OutputError, SceneError
from recon4d.geometry import look_at
from recon4d.scene import _manifest, load, save
from recon4d.types import Camera, DynamicPool, Scene4D, StaticPool


def _scene(seed: int = 0, static: int = 5, dynamic: int = 3, coefficients: int = 4) -> Scene4D:
    g = torch.Generator().manual_seed(seed)

    def pool(n: int) -> dict[str, torch.Tensor]:
        return {
            "means": torch.randn(n, 3, generator=g),
            "quats": torch.nn.functional.normalize(torch.randn(n, 4, generator=g), dim=-1),
            "scales": torch.rand(n, 3, generator=g) + 0.01,
            "opacities": torch.rand(n, generator=g),
            "sh": torch.randn(n, coefficients, 3, generator=g),
        }

    K = np.array([[50.0, 0, 32], [0, 50, 24], [0, 0, 1]])
    camera = Camera(name="left <b>ü", width=64, height=48, K=K, T_cam_world=look_at(np.array([1.0, 0, 1]), np.zeros(3)))
    return Scene4D(
        static=StaticPool(**pool(static)),
        dynamic=DynamicPool(
            **pool(dynamic),
            velocities=torch.randn(dynamic, 3, generator=g),
            centers_s=torch.rand(dynamic, generator=g),
            radii_s=torch.rand(dynamic, generator=g),
            tails_s=torch.rand(dynamic, generator=g) + 0.01,
        ),
        cameras=(camera,),
        duration_s=2.5,
        clock_offset_s=0.125,
        plane=np.array([0.0, 0, 1, 0.02]),
        input_hash="ab" * 32,
        config={"steps": 100, "rates": [0.1, 0.2], "name": "small"},
        software="0.1.0",
        background=(0.1, 0.2, 0.3),
        antialiased=True,
    )


def _assert_equal(a: Scene4D, b: Scene4D) -> None:
    for pool in ("static", "dynamic"):
        for field in fields(getattr(a, pool)):
            x, y = getattr(getattr(a, pool), field.name), getattr(getattr(b, pool), field.name)
            assert torch.equal(x, y), f"{pool}.{field.name}"
    assert [c.to_json() for c in a.cameras] == [c.to_json() for c in b.cameras]
    assert (a.plane is None) == (b.plane is None)
    if a.plane is not None and b.plane is not None:
        np.testing.assert_array_equal(a.plane, b.plane)
    for name in ("duration_s", "clock_offset_s", "input_hash", "config", "software", "background", "antialiased"):
        assert getattr(a, name) == getattr(b, name), name


def _edit(folder: Path, **changes: object) -> None:
    manifest = json.loads((folder / "scene.json").read_text())
    (folder / "scene.json").write_text(json.dumps({**manifest, **changes}))


def _rewrite(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Exchanges the tensors and keeps the hash right."""
    file = folder / "scene.safetensors"
    save_file(tensors, file)
    _edit(folder, tensors={"file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()})


@pytest.mark.parametrize(("static", "dynamic", "coefficients"), [(5, 3, 4), (0, 3, 1), (5, 0, 16), (0, 0, 1)])
def test_round_trip_is_exact(tmp_path: Path, static: int, dynamic: int, coefficients: int) -> None:
    scene = _scene(static=static, dynamic=dynamic, coefficients=coefficients)
    assert save(scene, tmp_path / "s") == tmp_path / "s"
    _assert_equal(load(tmp_path / "s"), scene)
    assert sorted(p.name for p in (tmp_path / "s").iterdir()) == ["scene.json", "scene.safetensors"]


def test_no_plane_and_half_precision_input(tmp_path: Path) -> None:
    scene = replace(_scene(), plane=None)
    scene = replace(scene, static=replace(scene.static, means=scene.static.means.half()))
    loaded = load(save(scene, tmp_path))
    assert loaded.plane is None
    assert loaded.static.means.dtype == torch.float32


def test_manifest_says_what_a_reader_without_this_package_needs(tmp_path: Path) -> None:
    manifest = json.loads((save(_scene(), tmp_path) / "scene.json").read_text())
    assert manifest["format"] == "recon4d-scene"
    assert manifest["version"] == 1
    assert (manifest["units"], manifest["frame"]) == ("metre", "right-handed, +Z up")
    assert manifest["time_range_s"] == [0.0, 2.5]
    assert manifest["counts"] == {"static": 5, "dynamic": 3}
    tensors = load_file(tmp_path / manifest["tensors"]["file"])
    assert tensors["dynamic.velocities"].shape == (3, 3)


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    for seed in range(3):
        save(_scene(seed), tmp_path)
        _assert_equal(load(tmp_path), _scene(seed))
        assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("failing", [1, 2])
def test_a_full_disk_leaves_the_good_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    save(_scene(0), tmp_path)
    calls = 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match=r"No space left.*Free space"):
            save(_scene(1), tmp_path)
    _assert_equal(load(tmp_path), _scene(0))
    assert not list(tmp_path.glob(".*.tmp"))
    save(_scene(2), tmp_path)
    _assert_equal(load(tmp_path), _scene(2))


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        save(_scene(), tmp_path / "file")


def test_saving_refuses_values_that_are_not_finite(tmp_path: Path) -> None:
    scene = _scene()
    scene.dynamic.tails_s[1] = float("nan")
    with pytest.raises(SceneError, match=r"dynamic\.tails_s.* 1 values"):
        save(scene, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_saving_refuses_a_config_without_json_form(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="config"):
        save(replace(_scene(), config={"where": Path("x")}), tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "format is 'other'"),
        ({"version": 2}, r"version 2.*0\.1\.0.*up to version 1: install a newer"),
        ({"version": 0}, "version 0"),
        ({"version": "1"}, "whole number"),
        ({"units": "millimetre"}, "'units' must be 'metre'"),
        ({"time_range_s": [0, float("nan")]}, "time_range_s"),
        ({"plane": [0, 1]}, "plane"),
        ({"background": [0, 1]}, "background"),
        ({"cameras": [{"name": "a"}]}, "no field 'width'"),
        ({"counts": {"static": 6, "dynamic": 3}}, r"static\.means.*\[6, 3\]"),
        ({"sh_coefficients": 5}, "sh_coefficients"),
        ({"counts": None}, "counts"),
        ({"tensors": {"file": "../x", "sha256": ""}}, "beside it"),
        ({"tensors": "x"}, "must name a file"),
        ({"tensors": {"file": "gone.safetensors", "sha256": ""}}, "copy the whole folder"),
    ],
)
def test_damaged_manifests_are_refused(tmp_path: Path, changes: dict, message: str) -> None:
    save(_scene(), tmp_path)
    _edit(tmp_path, **changes)
    with pytest.raises(SceneError, match=message):
        load(tmp_path)


def test_no_scene_and_no_json(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="no scene"):
        load(tmp_path)
    (tmp_path / "scene.json").write_text("{")
    with pytest.raises(SceneError, match="JSON"):
        load(tmp_path)
    save(_scene(), tmp_path)  # A broken manifest is no reason not to save over it.
    _assert_equal(load(tmp_path), _scene())


def test_every_flipped_or_missing_byte_is_noticed(tmp_path: Path) -> None:
    file = save(_scene(), tmp_path) / "scene.safetensors"
    data = file.read_bytes()
    for broken in (data[:-1], b"", data[:40] + bytes([data[40] ^ 1]) + data[41:], data[:-3] + b"\0" + data[-2:]):
        if broken != data:
            file.write_bytes(broken)
            with pytest.raises(SceneError, match="SHA-256"):
                load(tmp_path)


def test_tensors_are_checked_one_by_one(tmp_path: Path) -> None:
    save(_scene(), tmp_path)
    good = load_file(tmp_path / "scene.safetensors")
    nan = good["static.sh"].clone()
    nan[0, 0, 0] = float("inf")
    for change, message in (
        ({"static.sh": nan}, r"static\.sh.*not finite"),
        ({"static.means": good["static.means"].double()}, "float32"),
        ({"extra": torch.zeros(1)}, r"unknown: \['extra'\]"),
    ):
        _rewrite(tmp_path, {**good, **change})
        with pytest.raises(SceneError, match=message):
            load(tmp_path)
    _rewrite(tmp_path, {k: v for k, v in good.items() if k != "dynamic.radii_s"})
    with pytest.raises(SceneError, match=r"missing: \['dynamic.radii_s'\]"):
        load(tmp_path)


def test_older_versions_are_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(_scene(), tmp_path)

    def rename_opacity(manifest: dict, tensors: dict) -> tuple[dict, dict]:
        return manifest, {("static.opacities" if k == "static.alpha" else k): v for k, v in tensors.items()}

    tensors = load_file(tmp_path / "scene.safetensors")
    _rewrite(tmp_path, {("static.alpha" if k == "static.opacities" else k): v for k, v in tensors.items()})
    monkeypatch.setattr(_manifest, "VERSION", 2)
    monkeypatch.setattr(_manifest, "MIGRATIONS", {1: rename_opacity})
    _assert_equal(load(tmp_path), _scene())
