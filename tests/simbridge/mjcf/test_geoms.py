"""Splats of geoms against ray casts of the same geoms: silhouettes, coverage, depth, bodies, colours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from scipy import ndimage
from scipy.spatial.transform import Rotation

from recon4d.errors import ConfigError
from recon4d.events import Event, Warned
from recon4d.geometry import SH_C0, look_at, quat_to_matrix
from recon4d.raster import rasterize
from recon4d.types import Camera, Cameras, RenderOutput, Splats
from simbridge.errors import ModelError
from simbridge.mjcf import Density, Shade, geom_splats
from simbridge.types import BodySplats

CUBE = "-.08 -.05 -.03 .08 -.05 -.03 -.08 .05 -.03 .08 .05 -.03 -.08 -.05 .03 .08 -.05 .03 -.08 .05 .03 .08 .05 .03"
GEOMS = {
    "box": 'type="box" size=".08 .05 .03"',
    "sphere": 'type="sphere" size=".06"',
    "cylinder": 'type="cylinder" size=".04 .06"',
    "capsule": 'type="capsule" size=".03 .06"',
    "ellipsoid": 'type="ellipsoid" size=".04 .06 .1"',
    "plane": 'type="plane" size=".12 .08 .1"',
    "mesh": 'type="mesh" mesh="block"',
    "round mesh": 'type="mesh" mesh="ball"',
    "thin cylinder": 'type="cylinder" size=".01 .15"',
}


def model_of(geoms: str, extra: str = "", euler: str = "20 30 40") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(f"""
    <mujoco><asset><mesh name="block" vertex="{CUBE}"/>
      <mesh name="ball" builtin="sphere" params="3" scale=".06 .06 .06"/>{extra}</asset>
      <worldbody><body name="thing" euler="{euler}">{geoms}</body></worldbody></mujoco>""")


def camera_of(zoom: float = 1.0, distance_m: float = 1.0) -> Camera:
    """Off its centre by (8, -9) pixels."""
    K = np.array([[250.0, 0, 88], [0, 250.0, 51], [0, 0, 1]])
    T = look_at(distance_m * np.array([0.6, 0.3, 0.742]), np.zeros(3))
    camera = Camera(name="c", width=160, height=120, K=K, T_cam_world=T)
    return camera.resized(round(160 * zoom), round(120 * zoom))


def cast(model: mujoco.MjModel, data: mujoco.MjData, camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """First geom [H, W] (-1 where none) and camera-z [H, W] at pixel centres."""
    v, u = np.mgrid[: camera.height, : camera.width] + 0.5
    K = camera.K
    rays = np.stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones(u.shape)], -1).reshape(-1, 3)
    lengths = np.linalg.norm(rays, axis=1)
    world = (rays / lengths[:, None]) @ camera.T_cam_world[:3, :3]
    geom, distance = np.full(len(rays), -1, np.int32), np.zeros(len(rays))
    center = camera.center_w[:, None]
    mujoco.mj_multiRay(
        model, data, center, world.reshape(-1, 1), None, True, -1, geom, distance, None, len(rays), 100.0
    )
    return geom.reshape(u.shape), (distance / lengths).reshape(u.shape)


def posed(parts: tuple[BodySplats, ...], model: mujoco.MjModel, data: mujoco.MjData) -> Splats:
    """All bodies' splats in the world; harmonics above degree 0 must be zero."""
    means, quats = [], []
    for part in parts:
        body = model.body(part.body).id
        turn = Rotation.from_quat(np.roll(data.xquat[body], -1))
        means.append(part.splats.means.numpy() @ data.xmat[body].reshape(3, 3).T + data.xpos[body])
        turned = turn * Rotation.from_quat(np.roll(part.splats.quats.numpy(), -1, axis=1))
        quats.append(np.roll(turned.as_quat(), 1, axis=1))
    return Splats(
        means=torch.tensor(np.concatenate(means), dtype=torch.float32),
        quats=torch.tensor(np.concatenate(quats), dtype=torch.float32),
        scales=torch.cat([part.splats.scales for part in parts]),
        opacities=torch.cat([part.splats.opacities for part in parts]),
        sh=torch.cat([part.splats.sh for part in parts]),
    )


def draw(model: mujoco.MjModel, camera: Camera, **options: object) -> tuple[RenderOutput, mujoco.MjData]:
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    parts = geom_splats(model, **options)  # type: ignore[arg-type]
    return rasterize(posed(parts, model, data), Cameras.of(camera)), data


def boundary_error_px(drawn: np.ndarray, true: np.ndarray) -> float:
    """Mean distance of the drawn mask's border pixels from the true mask's border."""
    inside = ndimage.distance_transform_edt(true) - ndimage.distance_transform_edt(~true) + np.where(true, -0.5, 0.5)
    border = drawn & ~ndimage.binary_erosion(drawn)
    return float(np.abs(inside[border] - 0.5).mean())


def overlap(drawn: np.ndarray, true: np.ndarray) -> float:
    return float((drawn & true).sum() / (drawn | true).sum())


@pytest.mark.parametrize("kind", list(GEOMS))
@pytest.mark.parametrize("euler", ["0 0 0", "20 30 40"])
def test_silhouettes_are_the_geoms(kind: str, euler: str) -> None:
    model = model_of(f"<geom {GEOMS[kind]}/>", euler=euler)
    output, data = draw(model, camera_of())
    assert output.alpha is not None
    alpha, true = output.alpha[0].numpy(), cast(model, data, camera_of())[0] >= 0
    assert true.sum() > 200
    assert boundary_error_px(alpha > 0.5, true) < 0.5
    assert overlap(alpha > 0.5, true) > (0.95 if true.sum() > 400 else 0.90)
    assert alpha[ndimage.binary_erosion(true, iterations=2)].min(initial=1.0) > 0.95


@pytest.mark.parametrize("kind", ["box", "cylinder", "mesh"])
def test_finer_views_have_finer_splats(kind: str) -> None:
    model, camera = model_of(f"<geom {GEOMS[kind]}/>"), camera_of(3.0)
    output, data = draw(model, camera, density=Density(reference_focal_px=750.0))
    assert output.alpha is not None
    true = cast(model, data, camera)[0] >= 0
    assert true.sum() > 4000
    assert boundary_error_px(output.alpha[0].numpy() > 0.5, true) < 0.5
    assert overlap(output.alpha[0].numpy() > 0.5, true) > 0.97


def test_a_nearer_view_has_no_holes() -> None:
    model, camera = model_of(f"<geom {GEOMS['sphere']}/>"), camera_of(distance_m=0.4)
    output, data = draw(model, camera)
    assert output.alpha is not None
    true = ndimage.binary_erosion(cast(model, data, camera)[0] >= 0, iterations=6)
    assert output.alpha[0].numpy()[true].min() > 0.95


def test_depth_lies_just_below_the_surface() -> None:
    model = model_of(f"<geom {GEOMS['box']}/>")
    output, data = draw(model, camera_of())
    geom, true = cast(model, data, camera_of())
    assert output.depth is not None
    inner = ndimage.binary_erosion(geom >= 0, iterations=4)
    error = output.depth[0].numpy()[inner] - true[inner]
    assert np.abs(np.median(error)) < Density().pixel_m


ARM = """
<mujoco><worldbody>
  <geom type="box" size=".3 .3 .01" pos="0 0 -.01"/>
  <body name="base"><geom type="cylinder" size=".05 .04" pos="0 0 .04"/>
    <body name="upper" pos="0 0 .08"><joint name="j0" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 .15" size=".025"/>
      <body name="fore" pos="0 0 .15"><joint name="j1" axis="0 1 0"/>
        <geom type="box" size=".02 .02 .06" pos="0 0 .06"/>
        <body name="hand" pos="0 0 .13"><joint name="j2" axis="1 0 0"/><geom type="sphere" size=".03"/>
          <geom type="box" size=".5 .5 .5" group="3"/><geom type="box" size=".5 .5 .5" rgba="1 1 1 0"/></body>
      </body>
    </body>
  </body>
</worldbody></mujoco>"""


def test_an_arm_is_seen_where_its_joints_put_it() -> None:
    model, camera = mujoco.MjModel.from_xml_string(ARM), camera_of(2.0)
    model.geom_contype[:] = 0
    parts = geom_splats(model, density=Density(reference_focal_px=500.0))
    assert [part.body for part in parts] == ["world", "base", "upper", "fore", "hand"]
    data = mujoco.MjData(model)
    data.qpos[:] = [0.5, 0.9, -0.4]
    mujoco.mj_forward(model, data)
    shown = mujoco.MjModel.from_xml_string(ARM.replace('size=".5 .5 .5"', 'size="1e-6 1e-6 1e-6"'))
    true_geom = cast(shown, data, camera)[0]
    bodies = np.where(true_geom >= 0, shown.geom_bodyid[true_geom], -1)
    splats = posed(parts, model, data)
    index = torch.repeat_interleave(
        torch.tensor([model.body(part.body).id for part in parts]), torch.tensor([len(part.splats) for part in parts])
    )
    # A colour channel a body: the largest is the body that contributes most, as segmentation would say.
    weights = []
    for first in (0, 3):
        onehot = torch.nn.functional.one_hot(index, 6)[:, None, first : first + 3].float()
        painted = rasterize(Splats(**{**vars(splats), "sh": (onehot - 0.5) / SH_C0}), Cameras.of(camera))
        assert painted.rgb is not None
        weights.append(painted.rgb[0].numpy())
    stacked = np.concatenate(weights, axis=-1)
    nearest = np.where(stacked.sum(-1) > 0.5, stacked.argmax(-1), -1)
    for body in range(model.nbody):
        true, drawn = bodies == body, nearest == body
        assert true.sum() > 400, body
        assert overlap(drawn, true) > (0.97 if true.sum() > 4000 else 0.90), (body, overlap(drawn, true))


def test_splats_are_unit_discs_that_face_outwards_in_the_bodys_frame() -> None:
    model = model_of('<geom type="sphere" size=".05" pos=".1 .2 .3"/>')
    (part,) = geom_splats(model, shade=None)
    assert part.body == "thing"
    outwards = part.splats.means - torch.tensor([0.1, 0.2, 0.3])
    thin_axis = quat_to_matrix(part.splats.quats)[:, :, 2]
    assert torch.allclose((thin_axis * outwards).sum(1), outwards.norm(dim=1), atol=1e-5)
    assert (part.splats.scales[:, 2] < 0.1 * part.splats.scales[:, 0]).all()
    assert torch.allclose(part.splats.quats.norm(dim=1), torch.ones(len(part.splats)), atol=1e-5)


def test_the_same_model_gives_the_same_splats() -> None:
    first, second = (geom_splats(model_of(f"<geom {GEOMS['mesh']}/><geom {GEOMS['ellipsoid']}/>")) for _ in range(2))
    for name, value in vars(first[0].splats).items():
        assert torch.equal(value, getattr(second[0].splats, name)), name


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_harmonics_are_padded_to_the_degree(degree: int) -> None:
    (part,) = geom_splats(model_of(f"<geom {GEOMS['box']}/>"), sh_degree=degree)
    assert part.splats.sh.shape[1] == (degree + 1) ** 2
    assert not part.splats.sh[:, 1:].any()


def base_colours(part: BodySplats) -> np.ndarray:
    return part.splats.sh[:, 0].numpy() * SH_C0 + 0.5


def test_colours_are_the_materials_and_light_can_be_switched_off() -> None:
    material = '<material name="red" rgba=".8 .1 .2 1"/>'
    model = model_of('<geom type="box" size=".1 .1 .1" material="red"/>', material, euler="0 0 0")
    (plain,) = geom_splats(model, shade=None)
    assert np.allclose(base_colours(plain), [0.8, 0.1, 0.2], atol=1e-6)
    (lit,) = geom_splats(model, shade=Shade(ambient=0.5, diffuse=0.5, direction=(0, 0, -2)))
    top = lit.splats.means[:, 2] > 0.097
    assert np.allclose(base_colours(lit)[top.numpy()], [0.8, 0.1, 0.2], atol=1e-6)
    assert np.allclose(base_colours(lit)[(lit.splats.means[:, 2] < -0.097).numpy()], [0.4, 0.05, 0.1], atol=1e-6)
    own = model_of('<geom type="box" size=".1 .1 .1" material="red" rgba="0 1 0 1"/>', material)
    assert np.allclose(base_colours(geom_splats(own, shade=None)[0]), [0, 1, 0], atol=1e-6)


def test_transparent_geoms_let_that_much_light_through() -> None:
    model = model_of('<geom type="plane" size=".2 .2 .1" rgba="1 1 1 .4"/>', euler="0 0 0")
    alpha = draw(model, camera_of())[0].alpha
    assert alpha is not None
    assert abs(float(alpha[0, 40:60, 80:96].mean()) - 0.4) < 0.05


def test_planes_without_end_are_cropped() -> None:
    (part,) = geom_splats(model_of('<geom type="plane" size="0 0 .1"/>'), density=Density(plane_half_m=0.3))
    assert 0.28 < float(part.splats.means.abs().max()) < 0.3


HFIELD = '<hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/>'


def test_what_cannot_be_drawn_is_refused_by_name_or_told_when_invisible() -> None:
    with pytest.raises(ModelError, match=r"'bumps' of body 'thing' \(hfield\).*plane, box"):
        geom_splats(model_of('<geom name="bumps" type="hfield" hfield="h"/>', HFIELD))
    events: list[Event] = []
    hidden = model_of('<geom name="bumps" type="hfield" hfield="h" group="4"/><geom size=".1"/>', HFIELD)
    (part,) = geom_splats(hidden, on_event=events.append)
    assert len(part.splats) > 100
    (warned,) = events
    assert isinstance(warned, Warned)
    assert "bumps" in warned.message
    assert geom_splats(hidden, skip=("thing",)) == ()


def test_a_flexible_body_is_refused() -> None:
    model = mujoco.MjModel.from_xml_string("""<mujoco><worldbody><body name="b">
      <flexcomp name="rag" type="grid" count="3 3 1" spacing=".1 .1 .1" dim="2" mass="1" radius=".01"/>
      </body></worldbody></mujoco>""")
    with pytest.raises(ModelError, match="flex 'rag'"):
        geom_splats(model)


def test_densities_and_shades_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"pixels_per_splat.*-1"):
        Density(pixels_per_splat=-1)
    with pytest.raises(ConfigError, match="direction"):
        Shade(direction=(0, 0, 0))
    with pytest.raises(ValueError, match="0 to 3; it is 4"):
        geom_splats(model_of("<geom size='.1'/>"), sh_degree=4)


def test_textures_lie_as_in_mujocos_own_picture() -> None:
    """In a process of its own: MuJoCo binds its OpenGL when it is first imported."""
    environment = {"MUJOCO_GL": "egl", **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = Path(__file__).with_name("compare_textures.py")
    result = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    if result.returncode == 77:
        pytest.skip(f"MuJoCo cannot draw here: {result.stderr.strip()}")
    assert result.returncode == 0, result.stdout + result.stderr
