"""The process of one environment session: worlds of one client, stepped by its messages."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from api.sessions._channel import Channel, pack, unpack
from recon4d.errors import ConfigError, MissingExtraError, Recon4DError

LARGEST_OBSERVATION = 64 * 2**20
"""Bytes of all worlds' observation of one step; with last observations beside it, a message is twice as large."""


def serve(channel: Channel) -> None:
    """Makes the worlds that the first frame asks for, says what they are, and answers until the client leaves."""
    data = channel.receive()
    if data is None:
        return
    try:
        served, facts = _make(unpack(data))
    except (Recon4DError, ValueError, TypeError) as error:
        channel.send(pack({"refused": str(error)}), last=True)
        return
    channel.send(pack({"hello": served.hello(), "facts": facts}))
    while not served.closed and (message := channel.receive()) is not None:
        channel.send(served.answer(message), last=served.closed)


def _make(spec: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What answers the client's messages, and facts about it."""
    try:
        from simbridge.adapters.gymnasium import SplatVectorEnv
        from simbridge.core import Randomisation, SensorConfig, WorldsConfig
        from simbridge.remote import Served
        from simbridge.tasks import make_task
    except ImportError as error:
        raise MissingExtraError(error.name or "mujoco", "sim", "an environment") from error
    given = spec["options"]
    size = (given["width"], given["height"])
    sensors = SensorConfig(
        cameras=tuple(given["cameras"]), image_size=None if None in size else size, kinds=tuple(given["kinds"])
    )
    config = WorldsConfig(
        sensors=sensors,
        randomisation=Randomisation(**given["randomisation"]),
        control=given["control"],
        control_hz=given["control_hz"],
        home_noise=given["home_noise"],
        max_steps=given["max_steps"],
        end_on_success=given["end_on_success"],
    )
    task = make_task(spec["task"], **given["task_options"])
    env = SplatVectorEnv(
        Path(spec["bundle"]),
        task,
        spec["num_envs"],
        config=config,
        autoreset_mode=spec["autoreset_mode"],
        render_mode="rgb_array" if "rgb" in sensors.kinds else None,
    )
    _check_size(env)
    facts = {
        "task": task.name,
        "description": task.description(),
        "max_steps": config.max_steps or task.max_steps,
        "control": config.control,
        "control_hz": config.control_hz,
    }
    return Served(env, images=spec["images"], facts=facts), facts | {"spaces": _spaces(env)}


def _check_size(env: Any) -> None:
    """Raises:
    ConfigError: a step's observation would be too large to send.
    """
    parts = _boxes(env.single_observation_space)
    size = env.num_envs * sum(math.prod(box.shape) * box.dtype.itemsize for box in parts.values())
    if size > LARGEST_OBSERVATION:
        raise ConfigError(
            f"{env.num_envs} worlds give {size / 2**20:.0f} MiB a step; {LARGEST_OBSERVATION // 2**20} MiB are allowed:"
            " ask for fewer worlds or cameras, or smaller pictures"
        )


def _spaces(env: Any) -> dict[str, Any]:
    """Shapes and types of a world's observation and action, by name."""
    boxes = {**_boxes(env.single_observation_space), "action": env.single_action_space}
    return {name: {"shape": list(box.shape), "dtype": box.dtype.name} for name, box in boxes.items()}


def _boxes(space: Any, prefix: str = "") -> dict[str, Any]:
    found = {}
    for name, part in space.spaces.items():
        found |= _boxes(part, f"{prefix}{name}/") if hasattr(part, "spaces") else {f"{prefix}{name}": part}
    return found
