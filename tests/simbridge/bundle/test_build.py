"""Building, saving and loading bundles."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from recon4d.errors import ConfigError, OutputError
from recon4d.events import Event, Finished
from recon4d.geometry import quat_to_matrix
from recon4d.raster import rasterize
from recon4d.types import Camera, Cameras, Scene4D, Splats
from simbridge.bundle import build, check, load, moved, read_config, save
from simbridge.errors import BundleError, ModelError
from tests.simbridge.bundle import small


def test_a_bundle_is_built_and_read_back(tmp_path: Path) -> None:
    events: list[Event] = []
    built = build(small.scene(), read_config(small.config_file(tmp_path)), tmp_path / "b", on_event=events.append)
    again = load(tmp_path / "b")
    assert built.bodies == ("world", "robot/base", "robot/link", "cube")
    assert [camera.name for camera in again.cameras] == ["c0", "c1", "c2", "c3", "wrist"]
    assert again.cameras[4].body == "robot/link"
    assert again.robot is not None
    assert (again.robot.joints, again.robot.site, again.robot.home) == (("robot/lift",), "robot/tip", (0.3,))
    assert again.robot.limits == ((-1.0, 1.0),)
    assert again.objects[0].joint == "cube_joint"
    assert len(again.initial_conditions) == 5
    assert again.provenance["scene_input_hash"] == "abc"
    assert again.licence == "CC0-1.0"
    assert {type(event) for event in events} >= {Finished}
    model = mujoco.MjModel.from_xml_path(str(again.model_path))
    assert model.key_qpos[0, model.joint("robot/lift").qposadr[0]] == 0.3
    assert model.nkey == 1
    assert np.allclose(model.opt.gravity, [0, 0, -9.81])
    assert {path.stem for path in (tmp_path / "b" / "pictures").iterdir()} == {"c0", "c1", "c2", "c3", "wrist"}
    assert check(tmp_path / "b") == []


def test_saving_what_was_loaded_gives_the_same(tmp_path: Path) -> None:
    first = build(small.scene(4), read_config(small.config_file(tmp_path)), tmp_path / "b")
    second = save(first, tmp_path / "c")
    for one, other in zip(first.splats, second.splats, strict=True):
        for name, value in vars(one.splats).items():
            assert torch.equal(value, getattr(other.splats, name))
    for name in ("robot", "objects", "initial_conditions", "envelope", "provenance", "background"):
        assert getattr(first, name) == getattr(second, name), name
    assert second.model_path.read_text() == first.model_path.read_text()


def test_cuts_take_what_lies_inside(tmp_path: Path) -> None:
    box = {"center": [0.2, 0.1, 0.06], "size": [0.12, 0.12, 0.11]}
    half = [1, 0, 0, -0.5]
    path = small.config_file(tmp_path, cut=[{"box": box}, {"half_space": half}])
    built = build(small.scene(), read_config(path), tmp_path / "b")
    means = built.splats[0].splats.means
    assert built.provenance["cut"][0] == 200
    assert float(means[:, 0].max()) <= 0.5 + 1e-6
    assert not ((means[:, 2] > 0.01) & (means[:, 0] > 0.1)).any()


def test_the_moving_part_is_left_out_or_frozen(tmp_path: Path) -> None:
    without = build(small.scene(), read_config(small.config_file(tmp_path)), tmp_path / "a")
    path = small.config_file(tmp_path, freeze_at_s=0.4)
    frozen = build(small.scene(), read_config(path), tmp_path / "b")
    assert len(frozen.splats[0].splats) == len(without.splats[0].splats) + 1
    with pytest.raises(ConfigError, match=r"freeze_at_s.*0 and 1; it is 3"):
        build(small.scene(), read_config(small.config_file(tmp_path, freeze_at_s=3.0)), tmp_path / "c")


def tilted(scene: Scene4D, T: np.ndarray, shrink: float) -> Scene4D:
    """The scene in another frame, lengths divided by ``shrink``."""
    cameras = []
    for camera in scene.cameras:
        pose = T @ camera.T_world_cam
        pose[:3, 3] /= shrink
        cameras.append(Camera.from_json({**camera.to_json(), "T_cam_world": np.linalg.inv(pose)}))
    R, t = T[:3, :3], T[:3, 3]
    plane = np.array([*R[:, 2], -R[:, 2] @ t / shrink])
    static = moved(scene.static, np.block([[R, t[:, None] / shrink], [np.zeros((1, 3)), np.ones((1, 1))]]), 1 / shrink)
    return replace(scene, static=static, cameras=tuple(cameras), plane=plane)


def test_the_bench_is_turned_level_and_scaled_to_metres(tmp_path: Path) -> None:
    T = np.eye(4)
    T[:3, :3] = Rotation.from_euler("xyz", [1.2, -0.4, 0.9]).as_matrix()
    T[:3, 3] = [0.3, -0.2, 0.5]
    path = small.config_file(tmp_path, scale=2.5, cut=[])
    built = build(tilted(small.scene(), T, 2.5), read_config(path), tmp_path / "b")
    background = built.splats[0].splats
    heights = background.means[:10000, 2]
    assert float(heights.abs().max()) < 1e-4
    assert torch.allclose(quat_to_matrix(background.quats)[:10000, 2, 2].abs(), torch.ones(10000), atol=1e-4)
    assert torch.allclose(background.scales[:, 0], torch.full((len(background),), 0.014), rtol=1e-4)
    true = [camera.center_w[2] for camera in small.scene().cameras]
    assert np.allclose([camera.T_body_cam[2, 3] for camera in built.cameras[:4]], true, atol=1e-4)
    assert [finding for finding in check(tmp_path / "b") if finding.severity == "error"] == []


@pytest.mark.parametrize("coefficients", [1, 4, 9, 16])
def test_scene_and_camera_turned_together_give_one_picture(coefficients: int) -> None:
    scene = small.scene(coefficients)
    generator = torch.Generator().manual_seed(0)
    sh = scene.static.sh + 0.1 * torch.randn(scene.static.sh.shape, generator=generator)
    static = replace(scene.static, sh=sh)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = Rotation.from_euler("xyz", [0.7, -1.1, 2.0]).as_matrix(), [0.1, 0.2, 0.3]
    camera = scene.cameras[0]
    turned = Camera.from_json({**camera.to_json(), "T_cam_world": camera.T_cam_world @ np.linalg.inv(T)})
    first = rasterize(Splats(**vars(static)), Cameras.of(camera)).rgb
    second = rasterize(Splats(**vars(moved(static, T))), Cameras.of(turned)).rgb
    assert first is not None
    assert second is not None
    assert float((first - second).abs().mean()) < 1e-4


def test_splats_of_a_scan_replace_those_of_geoms(tmp_path: Path) -> None:
    from recon4d.export import ExportOptions, export

    tiny = small.scene()
    static = replace(tiny.static, **{name: value[:300] for name, value in vars(tiny.static).items()})
    export(replace(tiny, static=static), tmp_path / "cube.ply", "ply", ExportOptions(time_s=0.9))
    objects = [{"name": "cube", "size": [0.05, 0.05, 0.05], "splats": "cube.ply"}]
    built = build(small.scene(4), read_config(small.config_file(tmp_path, objects=objects)), tmp_path / "b")
    part = next(part for part in built.splats if part.body == "cube")
    assert len(part.splats) == 300
    assert part.splats.sh.shape == (300, 4, 3)
    assert any("frame and unit" in finding.advice for finding in check(tmp_path / "b"))


def test_placements_are_apart_within_their_ranges_and_reproducible(tmp_path: Path) -> None:
    objects = [{"name": name, "size": [0.05, 0.05, 0.05], "spawn": [[0, 0.2], [-0.2, 0.2]]} for name in ("a", "b")]
    path = small.config_file(tmp_path, objects=objects, initial_conditions=20)
    first, second = (build(small.scene(), read_config(path), tmp_path / name) for name in ("x", "y"))
    assert first.initial_conditions == second.initial_conditions
    for episode in first.initial_conditions:
        a, b = (np.array(episode["objects"][name]["position"]) for name in ("a", "b"))
        assert np.linalg.norm(a - b) > 0.05
        assert (a[:2] >= [0, -0.2]).all()
        assert (a[:2] <= [0.2, 0.2]).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"licence": " "}, "licence is empty"),
        ({"lisense": "x"}, r"unknown field 'lisense' \(did you mean 'licence'\?\)"),
        ({"scale": "big"}, r"scale must be a finite number; it is 'big'"),
        ({"cut": [{}]}, "either a 'box' or a 'half_space'"),
        ({"robot": {"mjcf": "arm.xml", "site": "hand"}}, r"robot.site: .*no \['hand'\]; it has \['tip'\]"),
        ({"robot": {"mjcf": "gone.xml", "site": "tip"}}, r"there is no file .*gone.xml"),
        ({"robot": {"mjcf": "arm.xml", "site": "tip", "home": [1, 2]}}, "robot.home must have 1 values"),
        ({"cameras": [{"name": "x", "body": "hand"}]}, "there is no body 'hand'"),
        ({"cameras": [{"name": "c0"}]}, "'c0' is a camera of the rig"),
        ({"objects": [{"name": "a", "shape": "cone"}]}, "must be one of box, sphere, cylinder, mesh"),
        ({"objects": [{"name": "a", "size": [1, 2]}]}, "must have 3 entries; it has 2"),
    ],
)
def test_wrong_configurations_are_refused_by_name(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        build(small.scene(), read_config(small.config_file(tmp_path, **changes)), tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_toml_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('licence = "CC0-1.0"\n[[cut]]\nhalf_space = [0, 0, 1, -0.5]\n')
    assert read_config(path).cut[0].half_space == (0.0, 0.0, 1.0, -0.5)
    path.write_text("licence =")
    with pytest.raises(ConfigError, match=r"no TOML"):
        read_config(path)


def test_a_scene_without_a_plane_cannot_be_aligned(tmp_path: Path) -> None:
    scene = replace(small.scene(), plane=None)
    with pytest.raises(ConfigError, match="no bench plane"):
        build(scene, read_config(small.config_file(tmp_path)), tmp_path / "b")
    built = build(scene, read_config(small.config_file(tmp_path, bench_plane=[0, 0, 2, 0])), tmp_path / "b")
    assert built.plane is not None


def test_folders_of_others_are_left_alone_and_bundles_replaced(tmp_path: Path) -> None:
    out = tmp_path / "b"
    out.mkdir()
    (out / "thesis.txt").write_text("x")
    config = read_config(small.config_file(tmp_path))
    with pytest.raises(OutputError, match="neither empty nor a bundle"):
        build(small.scene(), config, out)
    (out / "thesis.txt").unlink()
    build(small.scene(), config, out)
    build(small.scene(), replace(config, name="second"), out)
    assert json.loads((out / "bundle.json").read_text())["name"] == "second"


def test_what_cannot_be_drawn_stops_the_build(tmp_path: Path) -> None:
    path = small.config_file(tmp_path)
    hills = small.ARM.replace(
        "<worldbody>", '<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/></asset><worldbody>'
    )
    hills = hills.replace("<worldbody>", '<worldbody><geom name="hills" type="hfield" hfield="h"/>')
    (tmp_path / "arm.xml").write_text(hills)
    with pytest.raises(ModelError, match=r"hills.*hfield"):
        build(small.scene(), read_config(path), tmp_path / "b")


def test_meshes_travel_with_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "t.obj").write_text("v 0 0 0\nv .05 0 0\nv 0 .05 0\nv 0 0 .05\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n")
    objects = [{"name": "wedge", "shape": "mesh", "mesh": "t.obj"}]
    built = build(small.scene(), read_config(small.config_file(tmp_path, objects=objects)), tmp_path / "b")
    (tmp_path / "t.obj").unlink()
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "elsewhere" / "scene.xml")).nmesh == 1
    assert 0.02 < built.objects[0].size_m[0] < 0.08


def test_no_bundle_there(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"is no bundle: it has no bundle.json"):
        load(tmp_path)


def test_a_patch_covers_the_bench_in_the_colours_around(tmp_path: Path) -> None:
    cut = [{"box": {"center": [0.2, 0.1, 0.0], "size": [0.14, 0.14, 0.3]}, "patch": True}]
    built = build(small.scene(), read_config(small.config_file(tmp_path, cut=cut, objects=[])), tmp_path / "b")
    background = built.splats[0].splats
    inside = ((background.means[:, :2] - torch.tensor([0.2, 0.1])).abs() < 0.06).all(dim=1)
    assert int(inside.sum()) > 100
    assert float(background.means[inside, 2].abs().max()) < 1e-6
    colours = background.sh[inside, 0] * 0.2820948 + 0.5
    assert float((colours[:, 1] - 0.5).abs().max()) < 1e-3
    cut[0]["box"]["center"] = [5.0, 5.0, 0.0]  # type: ignore[index]
    with pytest.raises(ConfigError, match="cannot have a patch"):
        build(small.scene(), read_config(small.config_file(tmp_path, cut=cut)), tmp_path / "c")


def test_the_sample_configuration_builds_an_arm_that_holds_its_home(tmp_path: Path) -> None:
    sample = Path(__file__).parents[3] / "samples" / "bench_sim" / "config.json"
    built = build(small.scene(), read_config(sample), tmp_path / "b")
    assert [finding for finding in check(tmp_path / "b") if finding.severity == "error"] == []
    assert built.robot is not None
    assert len(built.robot.joints) == len(built.robot.actuators) == 5
    model = mujoco.MjModel.from_xml_path(str(built.model_path))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for _ in range(300):
        mujoco.mj_step(model, data)
    joints = [float(data.joint(name).qpos[0]) for name in built.robot.joints]
    assert np.allclose(joints, built.robot.home, atol=0.05)
    assert data.body("red_block").xpos[2] == pytest.approx(0.035, abs=0.002)
