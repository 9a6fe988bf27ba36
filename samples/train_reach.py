"""Trains a small policy on pixels with PPO, on `reach` in a bundle, and says how often it succeeds.

    python samples/train_reach.py BUNDLE --cameras front --minutes 7 --seed 0 --out build/train

Needs stable-baselines3. The goal is seen by the cameras alone: with --blank the policy gets black pictures, and fails.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

import simbridge
from simbridge.bundle import load
from simbridge.core import SensorConfig, WorldsConfig

ENVS, STEPS = 32, 32


class Worlds(VecEnv):
    """Our vector environment as stable-baselines3 wants one: pictures channels first, worlds that begin anew by
    themselves."""

    def __init__(
        self, bundle: Any, config: WorldsConfig, count: int, seed: int, *, blank: bool, **options: Any
    ) -> None:
        self.inner = simbridge.make(
            bundle, "reach", num_envs=count, task_options=options, config=config, autoreset_mode="SameStep"
        )
        self.blank = blank
        width, height = config.sensors.image_size or (64, 64)
        pictures = spaces.Box(0, 255, (3 * len(config.sensors.cameras), height, width), np.uint8)
        state = self.inner.single_observation_space["state"]
        super().__init__(count, spaces.Dict({"pictures": pictures, "state": state}), self.inner.single_action_space)
        self._first, _ = self.inner.reset(seed=seed)

    def reset(self) -> dict[str, np.ndarray]:
        return self._seen(self._first)

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = np.clip(actions, -1, 1)

    def step_wait(self) -> tuple[Any, ...]:
        observation, rewards, terminated, truncated, infos = self.inner.step(self._actions)
        told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for world in np.flatnonzero(terminated | truncated):
            final = {name: _batched(value) for name, value in infos["final_obs"][world].items()}
            told[world] = {
                "terminal_observation": {name: value[0] for name, value in self._seen(final).items()},
                "TimeLimit.truncated": bool(truncated[world] and not terminated[world]),
                "episode": {
                    "r": float(infos["final_info"]["return"][world]),
                    "l": int(infos["final_info"]["elapsed_steps"][world]),
                },
                "is_success": bool(infos["final_info"]["success_once"][world]),
            }
        return self._seen(observation), rewards.astype(np.float32), terminated | truncated, told

    def close(self) -> None:
        self.inner.close()

    def _seen(self, observation: dict[str, Any]) -> dict[str, np.ndarray]:
        pictures = np.concatenate([p.transpose(0, 3, 1, 2) for p in observation["images"].values()], 1)
        return {"pictures": np.zeros_like(pictures) if self.blank else pictures, "state": observation["state"]}

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def _batched(value: Any) -> Any:
    return {name: part[None] for name, part in value.items()} if isinstance(value, dict) else value[None]


class Features(BaseFeaturesExtractor):
    """Three convolutions whose maps are read as points (spatial softmax: Levine et al. 2016), beside the state."""

    def __init__(self, space: spaces.Dict, channels: int = 24) -> None:
        pictures, state = space["pictures"].shape, space["state"].shape
        super().__init__(space, 3 * channels + state[0])
        self.net = nn.Sequential(
            nn.Conv2d(pictures[0], 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(16, channels, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )  # fmt: skip
        height, width = pictures[1] // 4, pictures[2] // 4
        y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
        self.register_buffer("grid", torch.stack([x.flatten(), y.flatten()], 1))

    def forward(self, seen: dict[str, torch.Tensor]) -> torch.Tensor:
        maps = self.net(seen["pictures"] - 0.5).flatten(2)
        places = torch.softmax(4 * maps, -1) @ self.grid
        return torch.cat([places.flatten(1), maps.amax(-1), seen["state"]], 1)


class Clock(BaseCallback):
    """Ends the training in time, and keeps its curve."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.began, self.curve = seconds, time.monotonic(), []

    def _on_step(self) -> bool:
        return time.monotonic() - self.began < self.seconds

    def _on_rollout_start(self) -> None:
        share = min(1.0, (time.monotonic() - self.began) / self.seconds)
        self.model.lr_schedule = lambda _: 7e-4 * (1 - 0.9 * share)
        recent = [episode["l"] for episode in self.model.ep_info_buffer or []]
        success = float(np.mean(self.model.ep_success_buffer)) if self.model.ep_success_buffer else 0.0
        self.curve.append({"seconds": time.monotonic() - self.began, "steps": self.num_timesteps, "success": success})
        if len(self.curve) % 5 == 0:
            print(f"{self.curve[-1]['seconds']:6.0f} s {self.num_timesteps:8d} steps  success {success:.2f}"
                  f"  length {np.mean(recent) if recent else 0:.1f}", flush=True)  # fmt: skip


def rate(model: PPO, worlds: Worlds, episodes: int) -> float:
    """Share of episodes that succeed."""
    seen, ended = worlds.reset(), []
    while len(ended) < episodes:
        actions, _ = model.predict(seen, deterministic=True)
        worlds.step_async(actions)
        seen, _, done, infos = worlds.step_wait()
        ended += [infos[world]["is_success"] for world in np.flatnonzero(done)]
    return float(np.mean(ended[:episodes]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=64, help="width and height of the pictures")
    parser.add_argument("--cameras", nargs="+", help="what the policy sees; the bundle's first two when left out")
    parser.add_argument("--blank", action="store_true", help="black pictures")
    parser.add_argument("--out", type=Path, default=Path("build/train"))
    given = parser.parse_args()
    train(load(Path(given.bundle)), given)


def train(bundle: Any, given: argparse.Namespace) -> dict[str, Any]:
    cameras = tuple(given.cameras or [camera.name for camera in bundle.cameras[:2]])
    sensors = SensorConfig(cameras=cameras, image_size=(given.size, given.size))
    config = WorldsConfig(sensors=sensors, control="ee_delta", home_noise=0.05, max_steps=30)
    worlds = Worlds(bundle, config, ENVS, given.seed, blank=given.blank)
    model = PPO(
        "MultiInputPolicy",
        worlds,
        n_steps=STEPS,
        batch_size=256,
        n_epochs=6,
        gamma=0.95,
        gae_lambda=0.9,
        learning_rate=7e-4,
        ent_coef=0.0,
        seed=given.seed,
        policy_kwargs={
            "features_extractor_class": Features,
            "net_arch": [128, 64],
            "log_std_init": -0.7,
            "normalize_images": True,
        },
        device="cpu",
    )
    fresh = [Worlds(bundle, config, ENVS, 10_000 + given.seed, blank=blank) for blank in (given.blank, True)]
    before = rate(model, fresh[0], 100)
    clock = Clock(60 * given.minutes)
    model.learn(10**9, callback=clock)
    fresh = [Worlds(bundle, config, ENVS, 20_000 + given.seed, blank=blank) for blank in (given.blank, True)]
    result = {
        "seed": given.seed,
        "before": before,
        "after": rate(model, fresh[0], 100),
        "after_blank": rate(model, fresh[1], 100),
        "steps": model.num_timesteps,
        "minutes": given.minutes,
        "curve": clock.curve,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    model.save(given.out / f"reach-{given.seed}")
    (given.out / f"reach-{given.seed}.json").write_text(json.dumps(result), "utf-8")
    print({name: value for name, value in result.items() if name != "curve"})
    return result


if __name__ == "__main__":
    main()
