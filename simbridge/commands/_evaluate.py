"""``simbridge evaluate``."""

from __future__ import annotations

import json as json_
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from simbridge.core import Worlds
    from simbridge.evaluate import EpisodeResult


@dataclass(frozen=True, kw_only=True)
class Options:
    """How episodes are played and shown."""

    task: str = "reach"
    """what is to be done."""
    policy: str = "random"
    """"random", "zero", "replay:FILE.npz" or "package.module:factory"."""
    episodes: int = 50
    """how many; the first of the seed's."""
    out: Path | None = None
    """folder for summary.json, summary.html and films; evaluate-TASK when left out."""
    seed: int = 0
    """of the episodes."""
    placements: Literal["drawn", "bundle"] = "drawn"
    """where objects begin: drawn anew for every episode, or as the bundle's initial_conditions.json lists them."""
    num_envs: int = 16
    """how many are played at a time."""
    control: Literal["joint_delta", "joint_position", "ee_delta"] = "joint_delta"
    """what actions mean."""
    control_hz: float = 10.0
    """actions a second."""
    cameras: tuple[str, ...] = ()
    """what the policy sees; all of the bundle's when left out."""
    image_size: tuple[int, int] | None = None
    """width and height of its pictures; the cameras' own when left out."""
    delay_steps: int = 0
    """steps by which actions come late."""
    films: int = 4
    """of how many episodes films are made."""
    record: bool = False
    """write actions.npz, which "replay:" plays again."""
    device: str = "cpu"
    """an accelerator's name, or "auto"."""
    json: bool = False
    """print the summary as JSON."""
    quiet: bool = False
    """no progress."""


def evaluate(
    bundle: Annotated[Path, tyro.conf.Positional], /, options: Annotated[Options, tyro.conf.arg(name="")]
) -> int:
    """Play episodes of a task with a policy, and say how often it succeeds.

    Args:
        bundle: folder of a bundle.
        options: how.
    """
    from simbridge.evaluate import summarise, write_summary

    out = options.out or Path(f"evaluate-{options.task}")
    summary = summarise(_played(_worlds(bundle, options), options, out))
    files = write_summary(summary, out, title=f"{options.task} on {bundle.name}")
    if options.json:
        print(json_.dumps(summary.to_json()))
        return 0
    for row in summary.groups:
        print(
            f"{row.policy} on {row.task}: {row.successes} of {row.trials} succeeded"
            f" ({row.wilson.low:.0%} to {row.wilson.high:.0%} with 95 % confidence)"
        )
    print(f"open {files['html']} in a browser", file=sys.stderr)
    return 0


def _worlds(bundle: Path, options: Options) -> Worlds:
    from recon4d.accelerators import resolve
    from recon4d.errors import ConfigError
    from simbridge.bundle import load
    from simbridge.core import SensorConfig, Worlds, WorldsConfig
    from simbridge.tasks import make_task

    if options.episodes < 1 or options.num_envs < 1:
        raise ConfigError(f"episodes and num_envs must be at least 1; they are {options.episodes}, {options.num_envs}")
    device = resolve(options.device).torch_device
    sensors = SensorConfig(cameras=options.cameras, image_size=options.image_size, device=device)
    config = WorldsConfig(
        sensors=sensors,
        control=options.control,
        control_hz=options.control_hz,
        placements=options.placements,
    )
    count = min(options.num_envs, options.episodes)
    return Worlds(load(bundle), make_task(options.task), count, seed=options.seed, config=config)


def _played(worlds: Worlds, options: Options, out: Path) -> list[EpisodeResult]:
    from simbridge.play import PlayConfig, load_policy, play

    return play(
        worlds,
        load_policy(options.policy, worlds.controller.width),
        range(options.episodes),
        name=options.policy,
        config=PlayConfig(delay_steps=options.delay_steps, films=options.films, record=options.record),
        out=out,
        on_event=(lambda event: None) if options.quiet or options.json else _say,
    )


def _say(event: object) -> None:
    from recon4d.events import Progress

    if isinstance(event, Progress):
        left = f", {event.eta_s:.0f} s left" if event.eta_s is not None else ""
        end = "\n" if event.step == event.total else ""
        print(f"\r{event.step} of {event.total} episodes{left}   ", end=end, file=sys.stderr, flush=True)
