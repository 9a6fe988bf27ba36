"""Plays episodes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recon4d.errors import ConfigError, Stopped
from recon4d.events import Finished, OnEvent, Progress, ShouldStop, Started, ignore, never
from recon4d.show import film
from simbridge.core import Step, Worlds
from simbridge.errors import EvaluationError
from simbridge.evaluate import EpisodeResult
from simbridge.play._policies import Policy

_STAGE = "evaluate"


@dataclass(frozen=True, kw_only=True)
class PlayConfig:
    """How episodes are played."""

    delay_steps: int = 0
    """Control steps by which actions come late, as a policy takes time to think; nothing is done before the first."""
    films: int = 4
    """Of how many episodes films are made, all cameras side by side."""
    record: bool = False
    """Whether ``actions.npz`` is written: what ``replay:`` plays again."""

    def __post_init__(self) -> None:
        if self.delay_steps < 0 or self.films < 0:
            raise ConfigError(f"delay_steps and films must be at least 0; they are {self.delay_steps}, {self.films}")


def play(
    worlds: Worlds,
    policy: Policy,
    episodes: Sequence[int],
    *,
    name: str,
    config: PlayConfig | None = None,
    out: Path | None = None,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> list[EpisodeResult]:
    """Plays every episode once, as many at a time as there are worlds.

    A policy that gives chunks is asked again when they have been done; only what it is shown is drawn.

    Args:
        worlds: where.
        policy: what acts.
        episodes: which, by number.
        name: the policy's, for the results.
        out: folder for films and recorded actions; needed for either.

    Raises:
        EvaluationError: the policy's actions cannot be used.
        Stopped: on request; nothing is kept.
    """
    config = config or PlayConfig()
    began = time.monotonic()
    on_event(Started(stage=_STAGE, total=len(episodes), detail=f"{name} on {worlds.task.name}"))
    results: list[EpisodeResult] = []
    recorded: dict[str, np.ndarray] = {}
    for first in range(0, len(episodes), worlds.count):
        batch = list(episodes[first : first + worlds.count])
        filmed = max(0, min(config.films - first, len(batch))) if out is not None else 0
        run = _Batch(worlds, policy, batch, config.delay_steps, filmed)
        while not run.over:
            if should_stop():
                raise Stopped(f"stopped after {len(results)} of {len(episodes)} episodes; start again to play all")
            run.advance()
        results += run.results(name, out)
        recorded |= {f"actions_{e}": actions for e, actions in zip(batch, run.actions(), strict=True)}
        elapsed = time.monotonic() - began
        on_event(
            Progress(
                stage=_STAGE,
                step=len(results),
                total=len(episodes),
                eta_s=elapsed / len(results) * (len(episodes) - len(results)),
            )
        )
    if config.record and out is not None:
        out.mkdir(parents=True, exist_ok=True)
        np.savez(out / "actions.npz", allow_pickle=False, **recorded)
    on_event(Finished(stage=_STAGE, seconds=time.monotonic() - began))
    return results


class _Batch:
    """Episodes that are played side by side."""

    def __init__(self, worlds: Worlds, policy: Policy, episodes: list[int], delay: int, filmed: int) -> None:
        self._worlds, self._policy, self._episodes = worlds, policy, np.array(episodes, np.int64)
        self._filmed = filmed
        self._going = np.arange(len(episodes))
        self._steps = np.zeros(len(episodes), np.int64)
        self._done: list[list[np.ndarray]] = [[] for _ in episodes]
        self._frames: list[list[np.ndarray]] = [[] for _ in range(filmed)]
        self._last: dict[int, dict[str, Any]] = {}
        width = worlds.controller.width
        self._queues: list[list[np.ndarray]] = [[np.zeros(width)] * delay for _ in episodes]
        self._delay = delay
        self._seen = worlds.reset(self._going, episodes)
        self._keep_frames(self._going, self._seen)

    @property
    def over(self) -> bool:
        """Whether all episodes have ended."""
        return not len(self._going)

    def advance(self) -> None:
        """Asks the policy and does what it said, until a world runs out of actions."""
        self._ask()
        steps = min(len(self._queues[i]) for i in self._going) - self._delay
        for k in range(steps):
            if self.over:
                return
            shown = k == steps - 1
            ids = self._going
            actions = np.stack([self._queues[i].pop(0) for i in ids])
            for i, action in zip(ids, actions, strict=True):
                self._done[i].append(action)
            step = self._worlds.step(ids, actions, render=shown or bool((ids < self._filmed).any()))
            self._steps[ids] += 1
            self._keep_frames(ids, step)
            ended = step.terminated | step.truncated
            for row, i in enumerate(ids):
                if ended[row]:
                    self._last[int(i)] = {key: value[row] for key, value in step.infos.items()}
            self._going = ids[~ended]
            self._seen = _rows(step, ~ended)

    def results(self, policy: str, out: Path | None) -> list[EpisodeResult]:
        """How the episodes ended; writes their films."""
        results = []
        for i, episode in enumerate(self._episodes.tolist()):
            infos = self._last[i]
            extra: dict[str, Any] = {"unstable": bool(infos["unstable"])}
            if i < self._filmed and out is not None:
                path = out / "videos" / f"episode-{episode}.mp4"
                film(self._frames[i], path, fps=max(1, round(self._worlds.config.control_hz)))
                extra["video"] = path.relative_to(out).as_posix()
            results.append(
                EpisodeResult(
                    policy=policy,
                    task=self._worlds.task.name,
                    initial_state=int(infos["initial_state"]),
                    seed=episode,  # All that is drawn for it comes from this number.
                    success=bool(infos["success_once"]),
                    reward=float(infos["return"]),
                    length=int(infos["elapsed_steps"]),
                    extra=extra,
                )
            )
        return results

    def actions(self) -> list[np.ndarray]:
        """[T, A] what was done in each episode."""
        return [np.array(done) for done in self._done]

    def _ask(self) -> None:
        seen = self._seen
        images = {camera: kinds["rgb"] for camera, kinds in (seen.pictures or {}).items()}
        observation = {
            "state": seen.states,
            "images": images,
            "episodes": self._episodes[self._going],
            "steps": self._steps[self._going],
            "task": self._worlds.task.description(),
        }
        actions = np.asarray(self._policy(observation), np.float64)
        if actions.ndim == 2:
            actions = actions[:, None]
        wanted = (len(self._going), self._worlds.controller.width)
        if actions.ndim != 3 or (actions.shape[0], actions.shape[2]) != wanted or not actions.shape[1]:
            raise EvaluationError(
                f"the policy must give actions {list(wanted)}, or chunks [{wanted[0]}, K, {wanted[1]}]; it gave"
                f" {list(actions.shape)}"
            )
        for i, chunk in zip(self._going, actions, strict=True):
            self._queues[i] += list(chunk)

    def _keep_frames(self, ids: np.ndarray, step: Step) -> None:
        if step.pictures is None:
            return
        for row, i in enumerate(ids):
            if i < self._filmed:
                self._frames[i].append(side_by_side([kinds["rgb"][row] for kinds in step.pictures.values()]))


def side_by_side(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """uint8 [H, W, 3] of even height and width, pictures of any sizes from left to right."""
    height = max(picture.shape[0] for picture in pictures)
    height += height % 2
    parts = []
    for picture in pictures:
        part = np.zeros((height, picture.shape[1], 3), np.uint8)
        part[: picture.shape[0]] = picture
        parts.append(part)
    joined = np.concatenate(parts, 1)
    return joined if joined.shape[1] % 2 == 0 else np.concatenate([joined, joined[:, -1:]], 1)


def _rows(step: Step, keep: np.ndarray) -> Step:
    """The worlds that go on."""
    pictures = step.pictures
    if pictures is not None:
        pictures = {c: {kind: value[keep] for kind, value in kinds.items()} for c, kinds in pictures.items()}
    return Step(
        pictures=pictures,
        states=step.states[keep],
        rewards=step.rewards[keep],
        terminated=step.terminated[keep],
        truncated=step.truncated[keep],
        success=step.success[keep],
        infos={name: value[keep] for name, value in step.infos.items()},
    )
