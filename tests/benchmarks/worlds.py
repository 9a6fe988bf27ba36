"""Many worlds of splats on the CPU, against MuJoCo's own OpenGL renderer on the same MJCF.

    python -m tests.benchmarks.worlds [--threads 2] [--worlds 64] [--rounds 5]

An arm of seven links and four boxes on a table in the corner of a room, seen by one fixed camera. Splats are spread
over the surfaces of the geoms, thin along the normal: 55,000 on what stands still, 11,000 on what moves, harmonics of
degree 1. Both draw the same poses into uint8 rgb; the peer draws them one by one, as it must, with its software OpenGL
told to use as many threads, once with shadows and multisampling off, once as it comes. The contenders take turns;
medians are compared. Figures go to build/worlds.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks._machine import Others, note

GROUND, MOVING = 55_000, 11_000
SIZES = (128, 224)
USUAL = "mujoco, as it comes"
SLOW = 8


def mjcf(*, plain: bool) -> str:
    """The scene; plain is without shadows and multisampling."""
    quality = '<quality shadowsize="0" offsamples="0"/>' if plain else ""
    shadow = "false" if plain else "true"
    arm = ""
    lengths = (0.12, 0.2, 0.18, 0.14, 0.1, 0.08)
    for i, length in enumerate(lengths):
        axis = "0 0 1" if i in (0, 4) else "0 1 0"
        at = "-0.25 0 0" if i == 0 else f"0 0 {lengths[i - 1]}"
        arm += (
            f'<body name="link{i}" pos="{at}"><joint name="j{i}" axis="{axis}" range="-2.5 2.5"/>'
            f'<geom type="capsule" size="{0.045 - 0.004 * i}" fromto="0 0 0 0 0 {length}"'
            f' rgba=".85 .{5 + i % 3} .2 1"/>'
        )
    arm += (
        '<body name="hand" pos="0 0 .08"><geom type="box" size=".045 .015 .02" rgba=".3 .3 .3 1"/>'
        '<geom type="box" size=".006 .012 .03" pos=".03 0 .05" rgba=".2 .2 .2 1"/>'
        '<geom type="box" size=".006 .012 .03" pos="-.03 0 .05" rgba=".2 .2 .2 1"/></body>'
    )
    arm += "</body>" * len(lengths)
    boxes = "".join(
        f'<body name="box{i}" pos="{0.1 + 0.12 * i} {-0.25 + 0.15 * i} .03"><freejoint/>'
        f'<geom type="box" size=".03 .025 .03" mass=".1" rgba=".{2 + 2 * i} .4 .8 1"/></body>'
        for i in range(4)
    )
    return f"""<mujoco><visual>{quality}<global offwidth="256" offheight="256"/></visual><worldbody>
<light pos="0 0 3" dir="0 0 -1" castshadow="{shadow}"/><light pos="1 -2 2" dir="-.3 .6 -.6" castshadow="{shadow}"/>
<geom name="table" type="box" size=".7 .6 .02" pos="0 0 -.02" rgba=".7 .6 .5 1"/>
<geom name="floor" type="box" size="2 2 .02" pos="0 0 -.75" rgba=".5 .5 .5 1"/>
<geom name="wall" type="box" size=".02 2 1.2" pos="-1.2 0 .4" rgba=".8 .8 .75 1"/>
<geom name="side" type="box" size="2 .02 1.2" pos="0 1.2 .4" rgba=".75 .8 .8 1"/>
<geom name="rack" type="cylinder" size=".12 .25" pos="-.3 .4 .25" rgba=".4 .5 .4 1"/>
<camera name="front" pos="1.0 -.9 .8" xyaxes=".67 .74 0 -.36 .33 .87" fovy="50"/>{arm}{boxes}
</worldbody></mujoco>"""


def surface(model: Any, geom: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Points on a geom and their normals [count, 3], in its body's frame, and its area, m^2."""
    kind, (a, b, c) = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == 6:  # Box.
        areas = np.array([b * c, b * c, a * c, a * c, a * b, a * b]) * 4
        face = rng.choice(6, count, p=areas / areas.sum())
        points = rng.uniform(-1, 1, (count, 3))
        normals = np.zeros((count, 3))
        normals[np.arange(count), face // 2] = 1 - 2 * (face % 2)
        points[np.arange(count), face // 2] = 1 - 2 * (face % 2)
        points *= (a, b, c)
        area = float(areas.sum())
    else:  # Capsule (3) or cylinder (5), of radius a and half length b; a cylinder's lids are left open.
        area = float(4 * np.pi * a * (b + (a if kind == 3 else 0)))
        turn, z = rng.uniform(0, 2 * np.pi, count), rng.uniform(-1, 1, count) * (b + (a if kind == 3 else 0))
        lid = np.clip(np.abs(z) - b, 0, None) * np.sign(z)
        ring = np.sqrt(np.clip(a * a - lid * lid, 0, None))
        points = np.stack([ring * np.cos(turn), ring * np.sin(turn), z], 1)
        normals = np.stack([ring * np.cos(turn), ring * np.sin(turn), lid], 1)
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    w, x, y, z = model.geom_quat[geom]
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return points @ R.T + model.geom_pos[geom], normals @ R.T, area


def splats(model: Any) -> Any:
    """WorldSplats of a model: as many a square metre on all that stands still, and on all that moves."""
    import torch

    from recon4d.geometry import SH_C0
    from recon4d.raster import WorldSplats
    from recon4d.types import StaticPool

    rng = np.random.default_rng(0)
    areas = np.array([surface(model, g, 1, rng)[2] for g in range(model.ngeom)])
    still = model.geom_bodyid == 0
    groups = []
    for geom in range(model.ngeom):
        total = GROUND if still[geom] else MOVING
        count = max(int(total * areas[geom] / areas[still == still[geom]].sum()), 8)
        points, normals, area = surface(model, geom, count, rng)
        size = 0.7 * np.sqrt(area / count)
        # The quaternion that turns z into the normal.
        quats = np.concatenate([1 + normals[:, 2:], -normals[:, 1:2], normals[:, :1], np.zeros((count, 1))], 1)
        quats[np.linalg.norm(quats, axis=1) < 1e-3] = (0, 1, 0, 0)
        quats /= np.linalg.norm(quats, axis=1, keepdims=True)
        sh = rng.normal(0, 0.05, (count, 4, 3))
        sh[:, 0] += (model.geom_rgba[geom, :3] - 0.5) / SH_C0
        values = {
            "means": points,
            "quats": quats,
            "scales": size * np.array([1, 1, 0.1]) * np.exp(rng.normal(0, 0.25, (count, 3))),
            "opacities": rng.uniform(0.7, 1.0, count),
            "sh": sh,
        }
        tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()}
        groups.append((int(model.geom_bodyid[geom]), StaticPool(**tensors)))
    return WorldSplats.of(groups, model.nbody)


def poses(mujoco: Any, model: Any, worlds: int) -> tuple[np.ndarray, np.ndarray]:
    """qpos [W, nq] of random arms and boxes, and T_world_body [W, B, 4, 4]."""
    rng, data = np.random.default_rng(1), mujoco.MjData(model)
    states, T = [], np.tile(np.eye(4), (worlds, model.nbody, 1, 1))
    for w in range(worlds):
        data.qpos[:] = model.qpos0
        data.qpos[:6] = rng.uniform(-0.8, 0.8, 6)
        for box in range(4):
            data.qpos[6 + 7 * box : 8 + 7 * box] += rng.uniform(-0.1, 0.1, 2)
        mujoco.mj_forward(model, data)
        states.append(data.qpos.copy())
        T[w, :, :3, :3], T[w, :, :3, 3] = data.xmat.reshape(-1, 3, 3), data.xpos
    return np.stack(states), T


def cameras(mujoco: Any, model: Any, size: int) -> Any:
    """The model's camera, as splats are seen by it."""
    import torch

    from recon4d.raster import WorldCameras

    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    R = data.cam_xmat[0].reshape(3, 3) @ np.diag([1.0, -1.0, -1.0])
    view = np.eye(4)
    view[:3, :3], view[:3, 3] = R.T, -R.T @ data.cam_xpos[0]
    focal = size / 2 / np.tan(np.radians(model.cam_fovy[0]) / 2)
    K = np.array([[focal, 0, size / 2], [0, focal, size / 2], [0, 0, 1]])
    return WorldCameras(
        viewmats=torch.from_numpy(view)[None, None], Ks=torch.from_numpy(K)[None, None], width=size, height=size
    )


def peer(mujoco: Any, states: np.ndarray, size: int, *, plain: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """Draws all states by MuJoCo; and what closes it."""
    model = mujoco.MjModel.from_xml_string(mjcf(plain=plain))
    data, renderer = mujoco.MjData(model), mujoco.Renderer(model, size, size)
    frames = [np.empty((size, size, 3), np.uint8) for _ in states]
    # Poses are no part of the comparison, so each state keeps its own.
    datas = []
    for state in states:
        data.qpos[:] = state
        mujoco.mj_forward(model, data)
        own = mujoco.MjData(model)
        mujoco.mj_copyData(own, model, data)
        datas.append(own)

    def draw() -> None:
        for own, frame in zip(datas, frames, strict=True):
            renderer.update_scene(own, "front")
            renderer.render(out=frame)

    return draw, renderer.close


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def measure(worlds: int, size: int, rounds: int) -> dict[str, float]:
    """Frames per second of each contender."""
    import mujoco
    import torch

    from recon4d.raster import WorldCache, render_worlds

    model = mujoco.MjModel.from_xml_string(mjcf(plain=True))
    states, T = poses(mujoco, model, worlds)
    world, seen, cache = splats(model), cameras(mujoco, model, size), WorldCache()
    outs = {}

    def ours(outputs: tuple[str, ...], kept: WorldCache | None) -> Callable[[], None]:
        key = (outputs, kept is None)

        def draw() -> None:
            outs[key] = render_worlds(world, T, seen, outputs=outputs, cache=kept, dtype=torch.uint8, out=outs.get(key))

        return draw

    everything = ("rgb", "alpha", "depth", "segmentation")
    plain, close_plain = peer(mujoco, states, size, plain=True)
    # Seconds a round; few frames say enough.
    usual, close_usual = peer(mujoco, states[:SLOW], size, plain=False)
    contenders = {
        "cached": ours(("rgb",), cache),
        "uncached": ours(("rgb",), None),
        "cached, all outputs": ours(everything, cache),
        "mujoco, plain": plain,
        USUAL: usual,
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for step in contenders.values():
        step()
    for turn in range(rounds):
        for name, step in contenders.items():
            if turn == 0 or name != USUAL:
                times[name].append(seconds(step))
    close_plain()
    close_usual()
    frames = dict.fromkeys(contenders, worlds) | {USUAL: min(worlds, SLOW)}
    return {name: frames[name] / statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    # llvmpipe draws in the calling thread where it has none of its own.
    os.environ["LP_NUM_THREADS"] = "0" if options.threads == 1 else str(options.threads)
    os.environ.setdefault("MUJOCO_GL", "egl")
    os.environ["NUMBA_NUM_THREADS"] = str(options.threads)
    rows: dict[str, Any] = {}
    with Others() as others:
        for size in SIZES:
            found = measure(options.worlds, size, options.rounds)
            ratios = {
                "cached / uncached": found["cached"] / found["uncached"],
                "cached / mujoco, plain": found["cached"] / found["mujoco, plain"],
                f"cached / {USUAL}": found["cached"] / found[USUAL],
            }
            rows[str(size)] = {"frames_per_s": found, "ratios": ratios}
            for name, value in found.items():
                print(f"{size:4d} px  {name:24s} {value:9.0f} frames/s")
            for name, value in ratios.items():
                print(f"{size:4d} px  {name:32s} {value:6.2f}")
    print(note(others.cores))
    record = {"threads": options.threads, "worlds": options.worlds, "others_cores": others.cores, "sizes": rows}
    path = Path("build/worlds.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1), "utf-8")


if __name__ == "__main__":
    main()
