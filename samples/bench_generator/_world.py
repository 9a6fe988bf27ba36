"""The world as an MJCF model: room, bench, things on it, the arm, the block, the lights and the cameras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.random import Generator

from bench_generator._config import BenchConfig
from bench_generator._motion import (
    BASE_XY_M,
    BLOCK_SIZE_M,
    FOREARM_M,
    SHOULDER_HEIGHT_M,
    TOOL_M,
    UPPER_ARM_M,
    Motion,
)
from bench_generator._rig import RigCamera
from bench_generator._textures import bench_top, block_surface, free_colour, painted, surface
from recon4d.geometry import OPENGL_TO_OPENCV

BENCH_M = (1.8, 2.4)
"""Along x (away from the arm) and along y."""
ROOM_M = 2.2
"""Half the room's side."""
FLOOR_M = -0.7
BLOCK_GEOM = "block"


@dataclass(frozen=True, kw_only=True)
class World:
    """MJCF text, and the texture files it names."""

    xml: str
    assets: dict[str, bytes]


def build_world(config: BenchConfig, motion: Motion, rig: tuple[RigCamera, ...], attempt: int) -> World:
    """Builds the world of one seed."""
    paint, layout = config.rng("textures", attempt), config.rng("layout", attempt)
    files: dict[str, bytes] = {}
    assets, bodies = [], []

    def material(name: str, image: np.ndarray, kind: str, specular: float = 0.0) -> None:
        files[f"{name}.png"] = cv2.imencode(".png", image[..., ::-1])[1].tobytes()
        assets.append(f'<texture name="{name}" type="{kind}" file="{name}.png"/>')
        assets.append(f'<material name="{name}" texture="{name}" specular="{specular}" shininess="0.3"/>')

    material("top", bench_top(paint, BENCH_M), "2d")
    material("floor", painted(paint, free_colour(paint, (0.05, 0.15), (0.6, 0.7))), "2d")
    walls = free_colour(paint, (0.03, 0.12), (0.65, 0.78))
    for side in range(4):
        material(f"wall{side}", painted(paint, walls), "2d")
    material("block", block_surface(paint), "cube")
    for i, (kind, size, position, yaw) in enumerate(_layout(layout, motion)):
        material(f"thing{i}", surface(paint, free_colour(paint, (0.35, 0.9), (0.45, 0.85))), "cube", 0.15)
        bodies.append(_geom(kind, size, position, material=f"thing{i}", euler=f"0 0 {yaw:.4f}"))
    arm = free_colour(paint, (0.4, 0.7), (0.16, 0.28))
    material("arm", surface(paint, arm, contrast=0.25), "cube", 0.1)
    block = _geom("box", BLOCK_SIZE_M / 2, (0, 0, 0), name=BLOCK_GEOM, material="block")
    xml = f"""
<mujoco model="bench">
  <compiler angle="radian"/>
  <statistic extent="1" center="0 0 0"/>
  <visual>
    <global offwidth="{max(c.drawn_size[0] for c in rig)}" offheight="{max(c.drawn_size[1] for c in rig)}"/>
    <quality shadowsize="2048" offsamples="0"/>
    <headlight ambient="0.46 0.46 0.46" diffuse="0 0 0" specular="0 0 0"/>
    <map znear="0.1" zfar="10" shadowclip="3"/>
  </visual>
  <asset>{"".join(assets)}</asset>
  <worldbody>
    {_lights(layout)}
    {_room()}
    {"".join(bodies)}
    {_arm()}
    <body name="block" mocap="true">{block}</body>
    {"".join(_camera(c) for c in rig)}
  </worldbody>
</mujoco>"""
    return World(xml=xml, assets=files)


def _numbers(values: Any) -> str:
    return " ".join(f"{v:.9g}" for v in np.ravel(values))


def _geom(kind: str, size: Any, position: Any, **attributes: str) -> str:
    extra = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f'<geom type="{kind}" size="{_numbers(size)}" pos="{_numbers(position)}"{extra}/>'


def _lights(rng: Generator) -> str:
    """Three lamps side by side cast shadows, which makes their edges soft; one lamp opposite only fills."""
    azimuth = rng.uniform(-0.8, 0.8)
    key = np.array([0.5 * np.cos(azimuth), 0.5 * np.sin(azimuth), 1.9])
    side = 0.07 * np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    lamps = []
    for i in (-1, 0, 1):
        position = key + i * side
        lamps.append(
            f'<light type="directional" pos="{_numbers(position)}" dir="{_numbers(-position)}" castshadow="true"'
            ' diffuse="0.13 0.13 0.125" specular="0.1 0.1 0.1"/>'
        )
    fill = np.array([-1.0, 0.6 * rng.choice([-1.0, 1.0]), 1.2])
    lamps.append(
        f'<light type="directional" pos="{_numbers(fill)}" dir="{_numbers(-fill)}" castshadow="false"'
        ' diffuse="0.18 0.18 0.19" specular="0 0 0"/>'
    )
    return "".join(lamps)


def _room() -> str:
    """Floor, four walls and the bench, whose top is the plane z = 0."""
    half = (BENCH_M[0] / 2, BENCH_M[1] / 2)
    parts = [
        _geom("plane", (ROOM_M, ROOM_M, 1), (0, 0, FLOOR_M), material="floor"),
        _geom("plane", (*half, 1), (0, 0, 0), material="top"),
        # The board ends just below the top's plane: two surfaces at one depth would flicker.
        _geom("box", (half[0], half[1], 0.018), (0, 0, -0.020), rgba="0.55 0.52 0.46 1"),
    ]
    for side in range(4):
        angle = side * np.pi / 2
        inward = np.array([-np.cos(angle), -np.sin(angle), 0.0])
        along = np.array([-inward[1], inward[0], 0.0])
        axes = _numbers([along, np.cross(inward, along)])
        position = -ROOM_M * inward + [0, 0, FLOOR_M + ROOM_M]
        frame = f'<body pos="{_numbers(position)}" xyaxes="{axes}">'
        parts.append(frame + _geom("plane", (ROOM_M, ROOM_M, 1), (0, 0, 0), material=f"wall{side}") + "</body>")
    for x in (-1, 1):
        for y in (-1, 1):
            leg = (x * (half[0] - 0.05), y * (half[1] - 0.05), (FLOOR_M - 0.038) / 2)
            parts.append(_geom("box", (0.025, 0.025, (-FLOOR_M - 0.038) / 2), leg, rgba="0.3 0.31 0.33 1"))
    return "".join(parts)


def _arm() -> str:
    """A turret, two links, a wrist and a suction cup; joints turn as `Motion.joints` orders them."""
    look = {"material": "arm"}
    cup = {"rgba": "0.80 0.82 0.85 1"}
    pitch = '<joint type="hinge" axis="0 1 0"/>'
    return f"""
    <body pos="{_numbers([*BASE_XY_M, 0.0])}">
      {_geom("cylinder", (0.07, 0.05), (0, 0, 0.05), rgba="0.62 0.64 0.68 1")}
      <body><joint type="hinge" axis="0 0 1"/>
        {_geom("cylinder", (0.05, (SHOULDER_HEIGHT_M - 0.08) / 2), (0, 0, SHOULDER_HEIGHT_M / 2 + 0.04), **look)}
        <body pos="0 0 {SHOULDER_HEIGHT_M}">{pitch}
          {_geom("box", (UPPER_ARM_M / 2, 0.03, 0.028), (UPPER_ARM_M / 2, 0, 0), **look)}
          <body pos="{UPPER_ARM_M} 0 0">{pitch}
            {_geom("cylinder", (0.036, 0.042), (0, 0, 0), euler="1.5707963 0 0", rgba="0.62 0.64 0.68 1")}
            {_geom("box", (FOREARM_M / 2, 0.024, 0.023), (FOREARM_M / 2, 0, 0), **look)}
            <body pos="{FOREARM_M} 0 0">{pitch}
              {_geom("cylinder", (0.028, 0.032), (0, 0, 0), euler="1.5707963 0 0", rgba="0.62 0.64 0.68 1")}
              <body euler="0 1.5707963 0"><joint type="hinge" axis="0 0 -1"/>
                {_geom("cylinder", (0.016, TOOL_M / 2 - 0.01), (0, 0, TOOL_M / 2 - 0.01), **look)}
                {_geom("cylinder", (0.026, 0.01), (0, 0, TOOL_M - 0.01), **cup)}
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>"""


def _camera(rig_camera: RigCamera) -> str:
    T = rig_camera.camera.T_world_cam @ OPENGL_TO_OPENCV
    return (
        f'<camera name="{rig_camera.name}" pos="{_numbers(T[:3, 3])}" xyaxes="{_numbers(T[:3, :2].T)}"'
        f' fovy="{rig_camera.fovy_deg:.12g}"/>'
    )


def _layout(rng: Generator, motion: Motion) -> list[tuple[str, tuple[float, ...], np.ndarray, float]]:
    """Things on the bench, as (geom type, size, position, yaw): apart from each other and from the block's way."""
    way = np.array([motion.block(t)[0][:2] for t in np.linspace(0.0, motion.seconds, 40)])
    placed: list[tuple[np.ndarray, float]] = [(BASE_XY_M, 0.10)]
    things = []
    kinds = ["box", "cylinder", "box", "sphere", "box", "cylinder", "box", "cylinder"]
    for _ in range(400):
        if not kinds:
            break
        kind = kinds[0]
        size, height, radius = _thing(rng, kind)
        xy = rng.uniform([-0.36, -0.52], [0.38, 0.52])
        if np.linalg.norm(way - xy, axis=1).min() < radius + 0.095:
            continue
        if any(np.linalg.norm(xy - other) < radius + r + 0.01 for other, r in placed):
            continue
        kinds.pop(0)
        placed.append((xy, radius))
        things.append((kind, size, np.array([*xy, height / 2]), float(rng.uniform(0, np.pi))))
    return things


def _thing(rng: Generator, kind: str) -> tuple[tuple[float, ...], float, float]:
    """Half sizes, height and radius on the bench of one thing, in metres."""
    if kind == "box":
        half = rng.uniform([0.025, 0.025, 0.02], [0.06, 0.05, 0.06])
        return tuple(half), float(2 * half[2]), float(np.hypot(half[0], half[1]))
    if kind == "cylinder":
        radius, half_height = rng.uniform(0.025, 0.045), rng.uniform(0.02, 0.065)
        return (float(radius), float(half_height)), float(2 * half_height), float(radius)
    radius = float(rng.uniform(0.035, 0.05))
    return (radius,), 2 * radius, radius
