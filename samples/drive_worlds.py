"""Sixteen worlds of one bundle, moved at random, and a film of them.

python samples/drive_worlds.py BUNDLE --out build/worlds.mp4
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import simbridge
from recon4d.show import film
from simbridge.core import SensorConfig, WorldsConfig


def mosaic(pictures: np.ndarray, columns: int = 4) -> np.ndarray:
    """uint8 [N, H, W, 3] to one picture, row by row."""
    rows = [np.concatenate(list(pictures[i : i + columns]), 1) for i in range(0, len(pictures), columns)]
    return np.concatenate(rows, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--task", default="push_block")
    parser.add_argument("--camera", help="the bundle's first when left out")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", default="build/worlds.mp4")
    given = parser.parse_args()

    sensors = SensorConfig(cameras=(given.camera,) if given.camera else (), image_size=(160, 120))
    config = WorldsConfig(sensors=sensors, control="ee_delta", end_on_success=False)
    envs = simbridge.make(given.bundle, given.task, num_envs=16, config=config)
    observation, infos = envs.reset(seed=0)
    camera = given.camera or next(iter(observation["images"]))
    rng, push = np.random.default_rng(0), np.zeros((16, 3))
    frames, began = [mosaic(observation["images"][camera])], time.monotonic()
    for _ in range(given.steps):
        push = 0.8 * push + 0.6 * rng.uniform(-1, 1, push.shape)  # Smooth, so that arms get somewhere.
        observation, rewards, _, _, infos = envs.step(np.clip(push, -1, 1))
        frames.append(mosaic(observation["images"][camera]))
    seconds = time.monotonic() - began
    drawn = given.steps * 16 * len(observation["images"])
    print(f"{given.steps * 16 / seconds:.0f} world steps and {drawn / seconds:.0f} pictures a second")
    print(f"reward of the last step: {np.round(rewards, 2).tolist()}; succeeded: {infos['success_once'].tolist()}")
    print(f"film: {film(frames, given.out, fps=10)}")
    envs.close()


if __name__ == "__main__":
    main()
