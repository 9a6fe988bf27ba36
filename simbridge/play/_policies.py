"""What acts."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from simbridge.errors import EvaluationError


class Policy(Protocol):
    """Anything that turns observations of n worlds into their actions.

    Args:
        observation: ``state`` float32 [n, D]; ``images`` by camera, uint8 [n, H, W, 3]; ``episodes`` int64 [n], which
            episodes the worlds play; ``steps`` int64 [n], how many steps those have had; ``task``, in words.

    Returns:
        [n, A] one action a world, or [n, K, A] a chunk of K, in [-1, 1].
    """

    def __call__(self, observation: Mapping[str, Any]) -> np.ndarray: ...


def load_policy(name: str, width: int) -> Policy:
    """A policy by name.

    Args:
        name: "random"; "zero"; "replay:FILE.npz", actions [T, A] by episode number as ``actions_<episode>``; or
            "package.module:factory", called with ``width`` and giving a :class:`Policy`.
        width: numbers of an action.

    Raises:
        EvaluationError: there is no such policy, or it cannot be loaded.
    """
    if name == "random":
        return _Random(width)
    if name == "zero":
        return lambda observation: np.zeros((len(observation["state"]), width))
    if name.startswith("replay:"):
        return _Replay(Path(name.removeprefix("replay:")), width)
    if ":" not in name:
        raise EvaluationError(
            f"no policy '{name}'; there are 'random', 'zero', 'replay:FILE.npz' and 'package.module:factory'"
        )
    module, _, factory = name.partition(":")
    try:
        make = getattr(importlib.import_module(module), factory)
    except (ImportError, AttributeError, ValueError) as error:
        raise EvaluationError(f"the policy '{name}' cannot be loaded: {error}") from error
    if not callable(make):
        raise EvaluationError(f"the policy '{name}' is a {type(make).__name__}; it must be a function of one argument")
    made = make(width)
    if not callable(made):
        raise EvaluationError(f"the policy '{name}' gave a {type(made).__name__}, which cannot be called")
    return cast(Policy, made)


class _Random:
    """Uniform actions, decided by episode and step alone."""

    def __init__(self, width: int) -> None:
        self._width = width

    def __call__(self, observation: Mapping[str, Any]) -> np.ndarray:
        pairs = zip(observation["episodes"], observation["steps"], strict=True)
        return np.stack([np.random.default_rng([int(e), int(s)]).uniform(-1, 1, self._width) for e, s in pairs])


class _Replay:
    """Recorded actions, step by step; nothing is done once they have run out."""

    def __init__(self, path: Path, width: int) -> None:
        try:
            with np.load(path) as file:
                self._actions = {name.removeprefix("actions_"): file[name] for name in file.files}
        except (OSError, ValueError) as error:
            raise EvaluationError(f"{path} cannot be read as recorded actions: {error}") from error
        for name, actions in self._actions.items():
            if actions.ndim != 2 or actions.shape[1] != width or not np.isfinite(actions).all():
                raise EvaluationError(
                    f"{path}: actions_{name} must be finite [T, {width}]; it has shape {list(actions.shape)}"
                )
        self._path, self._width = path, width

    def __call__(self, observation: Mapping[str, Any]) -> np.ndarray:
        rows = []
        for episode, step in zip(observation["episodes"], observation["steps"], strict=True):
            recorded = self._actions.get(str(int(episode)))
            if recorded is None:
                raise EvaluationError(
                    f"{self._path} holds no actions of episode {episode}; it holds {', '.join(self._actions)}"
                )
            rows.append(recorded[step] if step < len(recorded) else np.zeros(self._width))
        return np.stack(rows)
