"""Worlds of a service over loopback, against the same worlds in this process.

    python -m tests.benchmarks.remote [--bundle FOLDER --task reach] [--worlds 16] [--size 128] [--images raw]

Without a bundle it takes the one of the tests: a bench of 3,000 splats, an arm and two blocks, one camera. Its worlds
cost little to step and to draw, so that what the way there and back costs shows as much as it can. Both are stepped by
turns with the same actions; medians are compared. Figures go to build/remote.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import simbridge
from api.database import Database
from api.settings import Settings
from api.storage import add_bundle
from simbridge.bundle import load
from simbridge.core import SensorConfig, WorldsConfig
from simbridge.remote import RemoteEnv
from tests.api.service import running
from tests.benchmarks._machine import Others, note
from tests.simbridge.worlds import saved


def put(data_dir: Path, bundle: Path) -> str:
    """Gives a service a bundle."""
    settings = Settings(data_dir=data_dir)
    database = Database(settings.database)
    try:
        return add_bundle(database, settings, bundle, name="benchmark", scene_id="scn_of_code")
    finally:
        database.close()


def measure(envs: dict[str, Any], steps: int, rounds: int) -> dict[str, float]:
    """Milliseconds a step of each, the median of rounds by turns."""
    taken: dict[str, list[float]] = {name: [] for name in envs}
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, *next(iter(envs.values())).action_space.shape))
    for env in envs.values():
        env.reset(seed=0)
        env.step(actions[0])
    for _ in range(rounds):
        for name, env in envs.items():
            began = time.perf_counter()
            for action in actions:
                env.step(action)
            taken[name].append((time.perf_counter() - began) / steps * 1000)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--task", default="reach")
    parser.add_argument("--worlds", type=int, default=16)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--images", default="raw", choices=("raw", "png", "jpeg"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bundle = given.bundle or saved(Path(scratch) / "bundle")
        camera = load(bundle).cameras[0].name
        sensors = SensorConfig(cameras=(camera,), image_size=(given.size, given.size))
        options = {"num_envs": given.worlds, "cameras": [camera], "width": given.size, "height": given.size}
        with running(Path(scratch) / "data", worker=False) as service, Others() as others:
            wanted = {"bundle": put(service.data_dir, bundle), "task": given.task, "options": options}
            answer = httpx.post(f"{service.url}/v1/environments", json=wanted, timeout=300).raise_for_status()
            here = simbridge.make(bundle, given.task, num_envs=given.worlds, config=WorldsConfig(sensors=sensors))
            address = f"{service.url}/v1/environments/{answer.json()['id']}"
            with closing(RemoteEnv(address, images=given.images)) as there, closing(here):
                ms = measure({"in this process": here, "over loopback": there}, given.steps, given.rounds)
    ratio = ms["in this process"] / ms["over loopback"]
    for name, value in ms.items():
        print(
            f"{name:16s} {value:7.2f} ms a step of {given.worlds} worlds, {given.worlds * 1000 / value:6.0f} worlds/s"
        )
    print(f"rate over loopback / rate in this process: {ratio:.2f}")
    print(note(others.cores))
    path = Path("build/remote.json")
    path.parent.mkdir(exist_ok=True)
    record = {"arguments": {**vars(given), "bundle": str(given.bundle)}, "ms": ms, "ratio": ratio}
    path.write_text(json.dumps(record | {"others_cores": others.cores}, indent=1), "utf-8")


if __name__ == "__main__":
    main()
