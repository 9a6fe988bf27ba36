"""An environment's end of the wire: a message in, its answer out.

The environment speaks first: ``{"op": "hello", "version", "num_envs", "autoreset_mode", "observation_space", …}``. Then
each message of the client is answered by one of the same ``op``, in order:

    reset        seed (a number, or one a world; nil), mask (bool [W]; nil)   -> observation, infos
    step         actions [W, A]                      -> observation, rewards, terminated, truncated, infos
    chunk_step   actions [W, K, A]                   -> the same, rewards and ends [W, K]
    render                                           -> pictures [W, H, W, 3] of the first camera, or nil
    close                                            -> nothing; the worlds are gone

or by ``{"op": "problem", "problem": {"type", "title", "status", "detail"}}``, after which all is as it was before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from recon4d.errors import Recon4DError
from simbridge.errors import ActionError, RemoteError
from simbridge.remote._spaces import describe
from simbridge.remote._wire import ImageFormat, decode, encode

VERSION = 1
LARGEST_REQUEST = 4 * 2**20
"""Bytes of one message to an environment: actions of thousands of worlds."""
LONGEST_CHUNK = 1024
"""Steps of one ``chunk_step``."""

_FIELDS = {
    "reset": {"seed", "mask"},
    "step": {"actions"},
    "chunk_step": {"actions"},
    "render": set(),
    "close": set(),
}


class Served:
    """Answers the messages of one client. What is wrong with a message is answered with a problem and changes nothing.

    Args:
        env: batched, with ``chunk_step``; as :class:`simbridge.adapters.gymnasium.SplatVectorEnv`.
        images: how to pack pictures.
        facts: told to the client at the beginning: what the task is, and the like.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], *, images: ImageFormat = "raw", facts: dict[str, Any]) -> None:
        self._env: Any = env
        self._images: ImageFormat = images
        self._facts = facts
        self._begun = False
        self.closed = False
        """Whether the client has taken its leave."""

    def hello(self) -> bytes:
        """The first message: what the client is to know before it does anything."""
        message = {
            "op": "hello",
            "version": VERSION,
            "num_envs": self._env.num_envs,
            "autoreset_mode": self._env.metadata["autoreset_mode"].value,
            "render_fps": float(self._env.metadata["render_fps"]),
            "images": self._images,
            "observation_space": describe(self._env.single_observation_space),
            "action_space": describe(self._env.single_action_space),
            "facts": self._facts,
        }
        return encode(message)

    def answer(self, data: bytes | memoryview) -> bytes:
        """The answer to a message: of the same ``op``, or a problem."""
        try:
            message = decode(data, LARGEST_REQUEST)
            op = message.pop("op", None)
            if not isinstance(op, str) or op not in _FIELDS:
                raise RemoteError(f"'op' is one of {', '.join(_FIELDS)}; it is {str(op)[:40]!r}")
            unknown = sorted(message.keys() - _FIELDS[op])
            if unknown:
                raise RemoteError(f"'{op}' has no field '{unknown[0][:40]}'; it has {', '.join(_FIELDS[op]) or 'none'}")
            run: Callable[..., dict[str, Any]] = getattr(self, f"_{op}")
            return encode({"op": op, **run(**message)}, self._images)
        except ActionError as error:
            return problem("bad-action", 422, str(error), "send finite numbers, as many as the action space says")
        except RemoteError as error:
            return problem("bad-message", 400, str(error))
        except Recon4DError as error:
            return problem("refused", 422, str(error))
        except (ValueError, OverflowError) as error:
            return problem("bad-value", 422, str(error))
        except RuntimeError as error:
            if type(error) is not RuntimeError:
                raise
            return problem("not-now", 409, str(error))

    def _reset(self, seed: Any = None, mask: Any = None) -> dict[str, Any]:
        seeds = seed if isinstance(seed, list) else [seed]
        if not all(one is None or type(one) is int for one in seeds):
            raise RemoteError(f"a seed is a whole number, or one a world; it is {str(seed)[:80]}")
        if mask is not None and not self._begun:
            raise RuntimeError("the first reset is of all worlds: leave the mask out")
        options = None if mask is None else {"reset_mask": mask}
        observation, infos = self._env.reset(seed=seed, options=options)
        self._begun = True
        return {"observation": observation, "infos": infos}

    def _step(self, actions: Any = None) -> dict[str, Any]:
        return self._told(self._env.step(self._actions(actions, 2)))

    def _chunk_step(self, actions: Any = None) -> dict[str, Any]:
        actions = self._actions(actions, 3)
        if actions.shape[1] > LONGEST_CHUNK:
            raise ActionError(f"a chunk has up to {LONGEST_CHUNK} steps; this one has {actions.shape[1]}")
        return self._told(self._env.chunk_step(actions))

    def _render(self) -> dict[str, Any]:
        if not self._begun:
            raise RuntimeError("there is nothing to see yet: reset first")
        pictures = self._env.render()
        return {"pictures": None if pictures is None else np.stack(pictures)}

    def _close(self) -> dict[str, Any]:
        self.closed = True
        return {}

    def _actions(self, actions: Any, axes: int) -> np.ndarray:
        if not self._begun:
            raise RuntimeError("no episode has begun: reset first")
        if not isinstance(actions, np.ndarray) or actions.dtype.kind not in "fiu" or actions.ndim != axes:
            raise ActionError(f"'actions' is an array of numbers with {axes} axes")
        return actions

    def _told(self, step: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(("observation", "rewards", "terminated", "truncated", "infos"), step, strict=True))


def problem(kind: str, status: int, detail: str, hint: str | None = None) -> bytes:
    """A message that says what was wrong, as RFC 9457 has it."""
    document = {
        "type": f"urn:recon4d:problem:{kind}",
        "title": kind.replace("-", " ").capitalize(),
        "status": status,
        "detail": detail,
    }
    return encode({"op": "problem", "problem": document | ({} if hint is None else {"hint": hint})})
