"""The process of one environment session: worlds of one client, stepped by its messages."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from api.sessions._channel import Channel, pack, unpack
from recon4d.errors import ConfigError, MissingExtraError, Recon4DError

LARGEST_OBSERVATION = 64 * 2**20
"""Bytes of all worlds' observation of one step; with last observations beside it, a message is twice as large."""

_PIXEL = {"rgb": 3, "depth": 4, "segmentation": 8}  # Bytes.


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
        try:
            answer = served.answer(message)
        except Exception:
            logging.getLogger("api.sessions").exception("an environment failed")
            return  # Its worlds are in no known state; the client is told that they are gone.
        channel.send(answer, last=served.closed)


def engine() -> tuple[Any, Any, Any, Any, Any]:
    """The modules that worlds are made of, which an installation of the service alone does not have.

    Raises:
        MissingExtraError: one cannot be imported.
    """
    try:
        from simbridge import bundle, core, remote, tasks
        from simbridge.adapters import gymnasium
    except ImportError as error:
        raise MissingExtraError(error.name or "mujoco", "sim", "an environment") from error
    return bundle, core, remote, tasks, gymnasium


def _make(spec: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What answers the client's messages, and facts about it."""
    bundle, core, remote, tasks, gymnasium = engine()
    given = spec["options"]
    size = (given["width"], given["height"])
    sensors = core.SensorConfig(
        cameras=tuple(given["cameras"]), image_size=None if None in size else size, kinds=tuple(given["kinds"])
    )
    config = core.WorldsConfig(
        sensors=sensors,
        randomisation=core.Randomisation(**given["randomisation"]),
        control=given["control"],
        control_hz=given["control_hz"],
        placements=given["placements"],
        home_noise=given["home_noise"],
        max_steps=given["max_steps"],
        end_on_success=given["end_on_success"],
    )
    loaded = bundle.load(Path(spec["bundle"]))
    _check_size(loaded, sensors, spec["num_envs"])
    task = tasks.make_task(spec["task"], **given["task_options"])
    env = gymnasium.SplatVectorEnv(
        loaded,
        task,
        spec["num_envs"],
        config=config,
        autoreset_mode=spec["autoreset_mode"],
        render_mode="rgb_array" if "rgb" in sensors.kinds else None,
    )
    facts = {
        "task": task.name,
        "description": task.description(),
        "max_steps": config.max_steps or task.max_steps,
        "control": config.control,
        "control_hz": config.control_hz,
    }
    return remote.Served(env, images=spec["images"], facts=facts), facts | {"spaces": _spaces(env)}


def _check_size(bundle: Any, sensors: Any, num_envs: int) -> None:
    """Looks before anything is made: spaces alone take as much memory as what they describe.

    Raises:
        ConfigError: a step's pictures would be too large to send.
    """
    cameras = [camera for camera in bundle.cameras if camera.name in (sensors.cameras or (camera.name,))]
    sizes = [sensors.image_size or (camera.width, camera.height) for camera in cameras]
    size = num_envs * sum(width * height * _PIXEL[kind] for width, height in sizes for kind in sensors.kinds)
    if size > LARGEST_OBSERVATION:
        raise ConfigError(
            f"pictures of {num_envs} worlds take {size / 2**20:.0f} MiB a step; {LARGEST_OBSERVATION // 2**20} MiB are"
            " allowed: ask for fewer worlds or cameras, or smaller pictures"
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
