"""Draws textured geoms with MuJoCo's OpenGL renderer and as splats, and fails where they differ.

Exit code 77: there is no OpenGL.
"""

from __future__ import annotations

import sys

import cv2
import mujoco
import numpy as np
import torch

from recon4d.geometry import OPENGL_TO_OPENCV
from recon4d.raster import rasterize
from recon4d.types import Camera, Cameras, Splats
from simbridge.mjcf import Density, geom_splats

SIZE = 120
QUAD = b"""v -.15 -.15 0\nv .15 -.15 0\nv .15 .15 0\nv -.15 .15 0\nv 0 0 -.15
vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvt .5 .5
f 1/1 2/2 3/3\nf 1/1 3/3 4/4\nf 1/1 5/5 2/2\nf 2/2 5/5 3/3\nf 3/3 5/5 4/4\nf 4/4 5/5 1/1
"""
CASES = {
    "box": ('type="box" size=".1 .15 .12"', "cube", ""),
    "box, uniform": ('type="box" size=".1 .15 .12"', "cube", 'texuniform="true"'),
    "sphere": ('type="sphere" size=".15"', "cube", ""),
    "ellipsoid": ('type="ellipsoid" size=".1 .15 .2"', "cube", ""),
    "cylinder": ('type="cylinder" size=".12 .15"', "cube", ""),
    "capsule": ('type="capsule" size=".08 .1"', "cube", ""),
    "plane": ('type="plane" size=".2 .15 .1"', "flat", ""),
    "plane, repeated": ('type="plane" size=".2 .15 .1"', "flat", 'texrepeat="2 1"'),
    "plane, uniform": ('type="plane" size=".2 .15 .1"', "flat", 'texrepeat="4 3" texuniform="true"'),
    "mesh": ('type="mesh" mesh="quad"', "flat", ""),
}


def difference(geom: str, texture: str, material: str) -> float:
    """Mean absolute difference of colours in [0, 1], well inside the geom."""
    draw = np.random.default_rng(0)
    cube = (cv2.resize(draw.random((24, 4, 3)), (32, 192), interpolation=cv2.INTER_NEAREST) * 255).astype(np.uint8)
    flat = (cv2.resize(draw.random((5, 7, 3)), (70, 50), interpolation=cv2.INTER_NEAREST) * 255).astype(np.uint8)
    assets = {f"{n}.png": cv2.imencode(".png", i)[1].tobytes() for n, i in (("cube", cube), ("flat", flat))}
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/><map znear=".01"/></visual>
        <statistic extent="1"/><asset>
        <texture name="cube" type="cube" file="cube.png" gridsize="6 1" gridlayout="RLUDFB"/>
        <texture name="flat" type="2d" file="flat.png"/><mesh name="quad" file="quad.obj"/>
        <material name="m" texture="{texture}" {material}/></asset>
        <worldbody><camera name="c" pos=".5 .3 .6" xyaxes="-.3 .5 0 -.36 -.216 .408" fovy="40"/>
        <body name="thing"><geom {geom} material="m"/></body></worldbody></mujoco>""",
        {**assets, "quad.obj": QUAD},
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    with mujoco.Renderer(model, SIZE, SIZE) as renderer:
        renderer.update_scene(data, "c")
        true = renderer.render() / 255.0
    focal = SIZE / 2 / np.tan(np.deg2rad(20))
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = data.cam_xmat[0].reshape(3, 3), data.cam_xpos[0]
    camera = Camera(
        name="c",
        width=SIZE,
        height=SIZE,
        K=np.array([[focal, 0, SIZE / 2], [0, focal, SIZE / 2], [0, 0, 1]]),
        T_cam_world=np.linalg.inv(T @ OPENGL_TO_OPENCV),
    )
    (part,) = geom_splats(model, shade=None, density=Density(reference_distance_m=0.8, reference_focal_px=300))
    output = rasterize(Splats(**vars(part.splats)), Cameras.of(camera))
    assert output.rgb is not None
    assert output.alpha is not None
    inside = torch.from_numpy(true.max(axis=2) > 0.02) & (output.alpha[0] > 0.99)
    assert int(inside.sum()) > 600
    return float((output.rgb[0] - torch.from_numpy(true)).abs()[inside].mean())


def main() -> int:
    try:
        mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 8, 8).close()
    except (RuntimeError, AttributeError, ImportError, mujoco.FatalError) as error:
        sys.stderr.write(f"{error}\n")
        return 77
    differences = {name: difference(*case) for name, case in CASES.items()}
    sys.stderr.write(f"{differences}\n")
    return int(max(differences.values()) > 0.12)  # A texture that lies otherwise differs by 0.25 and more.


if __name__ == "__main__":
    sys.exit(main())
