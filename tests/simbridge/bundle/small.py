"""A small scene and configuration, made in code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from recon4d.geometry import SH_C0
from recon4d.types import DynamicPool, Scene4D, StaticPool
from tests import worlds

ARM = """
<mujoco model="arm"><compiler angle="radian"/>
  <worldbody><body name="base"><geom type="cylinder" size=".04 .03" pos="0 0 .03" rgba=".6 .6 .6 1"/>
    <body name="link" pos="0 0 .06"><joint name="lift" axis="0 1 0" range="-1 1"/>
      <geom type="capsule" fromto="0 0 0 0 0 .15" size=".015" rgba=".2 .2 .3 1"/><site name="tip" pos="0 0 .165"/>
    </body></body></worldbody>
  <actuator><position name="lift" joint="lift" kp="20" ctrlrange="-1 1"/></actuator>
  <keyframe><key name="own" qpos="0.1"/></keyframe>
</mujoco>"""


def pool(means: np.ndarray, quats: np.ndarray, colours: np.ndarray, coefficients: int = 1) -> StaticPool:
    """Discs of 2 cm."""
    n = len(means)
    sh = np.zeros((n, coefficients, 3))
    sh[:, 0] = (colours - 0.5) / SH_C0
    values = {
        "means": means,
        "quats": quats,
        "scales": np.tile([0.014, 0.014, 0.0008], (n, 1)),
        "opacities": np.full(n, 0.99),
        "sh": sh,
    }
    return StaticPool(**{name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()})


def bench(coefficients: int = 1) -> StaticPool:
    """A square bench at z = 0, 2 m wide, and a red heap at (0.2, 0.1)."""
    x, y = (axis.reshape(-1) for axis in np.meshgrid(np.arange(-1, 1, 0.02), np.arange(-1, 1, 0.02)))
    flat = np.stack([x, y, np.zeros_like(x)], -1)
    heap = np.random.default_rng(0).uniform([0.15, 0.05, 0.01], [0.25, 0.15, 0.1], (200, 3))
    # About z by any angle, so that w, x, y, z and x, y, z, w differ.
    turns = Rotation.from_euler("z", np.random.default_rng(1).uniform(0, 3, (len(flat) + len(heap), 1)))
    colours = np.concatenate([np.stack([0.5 + 0.2 * np.sin(8 * x), np.full_like(x, 0.5), 0.4 + 0.1 * y], -1),
                              np.tile([0.8, 0.1, 0.1], (len(heap), 1))])  # fmt: skip
    quats = turns.as_quat()[:, [3, 0, 1, 2]]
    return pool(np.concatenate([flat, heap]), quats, colours, coefficients)


def scene(coefficients: int = 1) -> Scene4D:
    """The bench seen by a ring of cameras; one moving splat, there at 0.4 s."""
    static = bench(coefficients)
    one = {name: value[:1].clone() for name, value in vars(static).items()}
    one["means"] = torch.tensor([[0.0, 0.0, 0.3]])
    times = {"centers_s": torch.tensor([0.4]), "radii_s": torch.tensor([0.1]), "tails_s": torch.tensor([0.02])}
    return Scene4D(
        static=static,
        dynamic=DynamicPool(**one, velocities=torch.zeros(1, 3), **times),
        cameras=tuple(worlds.ring(4)),
        duration_s=1.0,
        plane=worlds.PLANE,
        input_hash="abc",
        software="test",
    )


def config_file(folder: Path, **changes: Any) -> Path:
    """Writes a configuration and the arm beside it."""
    (folder / "arm.xml").write_text(ARM)
    value: dict[str, Any] = {
        "licence": "CC0-1.0",
        "cut": [{"box": {"center": [0.2, 0.1, 0.06], "size": [0.12, 0.12, 0.11]}}],
        "robot": {"mjcf": "arm.xml", "site": "tip", "position": [-0.3, 0, 0], "home": [0.3], "licence": "CC0-1.0"},
        "objects": [{"name": "cube", "size": [0.05, 0.05, 0.05], "spawn": [[0, 0.2], [-0.1, 0.1]],
                     "licence": "CC0-1.0"}],
        "cameras": [{"name": "wrist", "width": 48, "height": 48, "body": "link", "position": [0.05, 0, 0.1],
                     "look_at": [0.3, 0, -0.1]}],
        "envelope": {"samples": 1},
        "initial_conditions": 5,
    }  # fmt: skip
    path = folder / "config.json"
    path.write_text(json.dumps(value | changes))
    return path
