"""A small bundle made in code: a bench, an arm of three joints, two blocks, three cameras."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import torch

from recon4d.geometry import look_at
from recon4d.types import StaticPool
from simbridge.mjcf import geom_splats
from simbridge.types import WORLD, BodySplats, Bundle, BundleCamera, ObjectSpec, RobotSpec

MJCF = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.005"/>
  <worldbody>
    <geom name="bench" type="plane" size="0.6 0.6 0.1" rgba="0.6 0.5 0.4 1"/>
    <body name="base" pos="-0.3 0 0">
      <geom type="cylinder" size="0.04 0.03" pos="0 0 0.03" rgba="0.5 0.5 0.55 1"/>
      <body name="turret" pos="0 0 0.06">
        <joint name="turn" axis="0 0 1" range="-1.6 1.6" damping="1"/>
        <geom type="box" size="0.02 0.02 0.03" pos="0 0 0.03" rgba="0.9 0.6 0.1 1"/>
        <body name="upper" pos="0 0 0.06">
          <joint name="shoulder" axis="0 1 0" range="-1.2 1.6" damping="1"/>
          <geom type="capsule" fromto="0 0 0 0.22 0 0" size="0.016" rgba="0.9 0.6 0.1 1"/>
          <body name="fore" pos="0.22 0 0">
            <joint name="elbow" axis="0 1 0" range="-2.2 2.2" damping="1"/>
            <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.013" rgba="0.85 0.85 0.9 1"/>
            <site name="tip" pos="0.21 0 0"/>
          </body>
        </body>
      </body>
    </body>
    <body name="block" pos="0.1 0.1 0.025">
      <freejoint name="block_joint"/>
      <geom type="box" size="0.03 0.025 0.025" rgba="0.8 0.15 0.15 1" mass="0.1"/>
    </body>
    <body name="other" pos="0.05 -0.15 0.02">
      <freejoint name="other_joint"/>
      <geom type="box" size="0.02 0.02 0.02" rgba="0.2 0.3 0.8 1" mass="0.05"/>
    </body>
  </worldbody>
  <actuator>
    <position name="turn" joint="turn" kp="20" ctrlrange="-1.6 1.6"/>
    <position name="shoulder" joint="shoulder" kp="20" ctrlrange="-1.2 1.6"/>
    <position name="elbow" joint="elbow" kp="20" ctrlrange="-2.2 2.2"/>
  </actuator>
</mujoco>
"""
LIMITS = ((-1.6, 1.6), (-1.2, 1.6), (-2.2, 2.2))
SPAWN = ((-0.05, 0.15), (-0.2, 0.2))


def backdrop(count: int = 3000, seed: int = 0) -> StaticPool:
    """Flat splats on the bench, of many colours."""
    rng = np.random.default_rng(seed)
    means = np.concatenate([rng.uniform(-0.6, 0.6, (count, 2)), np.zeros((count, 1))], 1)
    tensor = lambda a: torch.tensor(np.asarray(a), dtype=torch.float32)  # noqa: E731
    return StaticPool(
        means=tensor(means),
        quats=tensor(np.tile([1.0, 0, 0, 0], (count, 1))),
        scales=tensor(np.tile([0.02, 0.02, 0.001], (count, 1))),
        opacities=torch.full((count,), 0.9),
        sh=tensor(rng.uniform(-0.8, 0.8, (count, 1, 3))),
    )


def cameras(width: int = 64, height: int = 48) -> tuple[BundleCamera, ...]:
    """Two that stand, of an off-centre principal point, and one on the arm."""
    focal = 60.0 * width / 64
    K = np.array([[focal, 0, width / 2 + 1.5], [0, focal, height / 2 - 1], [0, 0, 1]])
    made = []
    for name, center in (("front", (0.7, 0.1, 0.5)), ("side", (0.1, -0.7, 0.45))):
        T_world_cam = np.linalg.inv(look_at(np.array(center), np.array([0.0, 0.0, 0.05])))
        made.append(BundleCamera(name=name, width=width, height=height, K=K, body=WORLD, T_body_cam=T_world_cam))
    T_body_cam = np.linalg.inv(look_at(np.array([0.05, 0.0, 0.06]), np.array([0.25, 0.0, -0.05])))
    made.append(BundleCamera(name="wrist", width=width, height=height, K=K, body="fore", T_body_cam=T_body_cam))
    return tuple(made)


def bundle(folder: Path, *, width: int = 64, height: int = 48) -> Bundle:
    """Writes the MJCF to a folder, and the rest to memory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scene.xml").write_text(MJCF, "utf-8")
    model = mujoco.MjModel.from_xml_string(MJCF)
    parts = [part for part in geom_splats(model, sh_degree=0) if part.body != WORLD]
    return Bundle(
        path=folder,
        splats=(BodySplats(body=WORLD, splats=backdrop()), *parts),
        cameras=cameras(width, height),
        background=(0.2, 0.3, 0.4),
        plane=np.array([0.0, 0.0, 1.0, 0.0]),
        robot=RobotSpec(
            joints=("turn", "shoulder", "elbow"),
            actuators=("turn", "shoulder", "elbow"),
            site="tip",
            home=(0.0, -0.6, 1.5),
            limits=LIMITS,
        ),
        objects=(
            ObjectSpec(body="block", joint="block_joint", size_m=(0.06, 0.05, 0.05), spawn=SPAWN),
            ObjectSpec(body="other", joint="other_joint", size_m=(0.04, 0.04, 0.04), spawn=SPAWN),
        ),
        colour=None,
        licence="Apache-2.0",
    )


def saved(folder: Path) -> Path:
    """The same bundle as a folder that can be loaded."""
    from simbridge.bundle import save

    return save(bundle(folder.parent / f"{folder.name}-parts"), folder).path
