"""``simbridge evaluate``."""

from __future__ import annotations

import json as json_
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro


def evaluate(
    bundle: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    task: str = "reach",
    policy: str = "random",
    episodes: int = 50,
    out: Path | None = None,
    seed: int = 0,
    num_envs: int = 16,
    control: Literal["joint_delta", "joint_position", "ee_delta"] = "joint_delta",
    control_hz: float = 10.0,
    cameras: tuple[str, ...] = (),
    image_size: tuple[int, int] | None = None,
    delay_steps: int = 0,
    films: int = 4,
    record: bool = False,
    device: str = "cpu",
    json: bool = False,
    quiet: bool = False,
) -> int:
    """Play episodes of a task with a policy, and say how often it succeeds.

    Args:
        bundle: folder of a bundle.
        task: what is to be done.
        policy: "random", "zero", "replay:FILE.npz" or "package.module:factory".
        episodes: how many; the first of the seed's.
        out: folder for summary.json, summary.html and films; evaluate-TASK when left out.
        seed: of the episodes.
        num_envs: how many are played at a time.
        control: what actions mean.
        control_hz: actions a second.
        cameras: what the policy sees; all of the bundle's when left out.
        image_size: width and height of its pictures; the cameras' own when left out.
        delay_steps: steps by which actions come late.
        films: of how many episodes films are made.
        record: write actions.npz, which "replay:" plays again.
        device: an accelerator's name, or "auto".
        json: print the summary as JSON.
        quiet: no progress.
    """
    from recon4d.accelerators import resolve
    from recon4d.errors import ConfigError
    from simbridge.bundle import load
    from simbridge.core import SensorConfig, Worlds, WorldsConfig
    from simbridge.evaluate import summarise, write_summary
    from simbridge.play import PlayConfig, load_policy, play
    from simbridge.tasks import make_task

    if episodes < 1:
        raise ConfigError(f"episodes must be at least 1; it is {episodes}")
    out = out or Path(f"evaluate-{task}")
    sensors = SensorConfig(cameras=cameras, image_size=image_size, device=resolve(device).torch_device)
    config = WorldsConfig(sensors=sensors, control=control, control_hz=control_hz)
    worlds = Worlds(load(bundle), make_task(task), min(num_envs, episodes), seed=seed, config=config)
    results = play(
        worlds,
        load_policy(policy, worlds.controller.width),
        range(episodes),
        name=policy,
        config=PlayConfig(delay_steps=delay_steps, films=films, record=record),
        out=out,
        on_event=(lambda event: None) if quiet or json else _say,
    )
    summary = summarise(results)
    files = write_summary(summary, out, title=f"{task} on {bundle.name}")
    if json:
        print(json_.dumps(summary.to_json()))
        return 0
    for row in summary.groups:
        print(
            f"{row.policy} on {row.task}: {row.successes} of {row.trials} succeeded"
            f" ({row.wilson.low:.0%} to {row.wilson.high:.0%} with 95 % confidence)"
        )
    print(f"open {files['html']} in a browser", file=sys.stderr)
    return 0


def _say(event: object) -> None:
    from recon4d.events import Progress

    if isinstance(event, Progress):
        left = f", {event.eta_s:.0f} s left" if event.eta_s is not None else ""
        print(f"\r{event.step} of {event.total} episodes{left}   ", end="", file=sys.stderr, flush=True)
        if event.step == event.total:
            print(file=sys.stderr)
