"""Worlds on a server, stepped as if they were here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from recon4d.errors import MissingExtraError
from simbridge.errors import ActionError, RemoteError
from simbridge.remote._serve import VERSION
from simbridge.remote._spaces import restore
from simbridge.remote._wire import LARGEST, ImageFormat, decode, encode

try:
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
    from websockets.sync.client import connect
except ImportError as error:
    raise MissingExtraError("websockets", "remote", "stepping environments on a server") from error

Observation = dict[str, Any]

_KINDS: dict[str, type[Exception]] = {"bad-action": ActionError, "bad-value": ValueError, "not-now": RuntimeError}
"""What the environment itself would have raised, by the problem that the server made of it."""
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class RemoteEnv(VectorEnv[Observation, np.ndarray, np.ndarray]):
    """The same worlds as :class:`simbridge.adapters.gymnasium.SplatVectorEnv`, in a process of a server's.

    Arrays that are given out are never written to again. Episodes, observations and rewards equal those of worlds made
    here from the same bundle, task and seeds, bit by bit; pictures too, unless JPEG is asked for.

    Args:
        url: an environment's address, such as ``http://127.0.0.1:8400/v1/environments/env_…``, or a signed link to its
            websocket.
        key: API key, where the server wants one.
        num_envs: how many worlds; as many as the environment was made for when None.
        autoreset_mode: as in ``SplatVectorEnv``.
        images: how pictures travel: "raw", "png" (no loss) or "jpeg" (small).
        render_mode: "rgb_array" makes ``render`` give the first camera's picture of every world.

    Raises:
        RemoteError: the server cannot be reached, or refuses; says why.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        num_envs: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        images: ImageFormat = "raw",
        render_mode: str | None = None,
    ) -> None:
        asked = {"autoreset_mode": AutoresetMode(autoreset_mode).value, "images": images}
        if num_envs is not None:
            asked["num_envs"] = str(num_envs)
        with ExitStack() as open_until_said_otherwise:
            self._socket = _connected(_address(url, asked), key, open_until_said_otherwise)
            self._take_up(self._hear("hello"))
            self._connection = open_until_said_otherwise.pop_all()
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a new episode in every world, or in those of ``options["reset_mask"]`` [W] bool."""
        message: dict[str, Any] = {"seed": _plain_seed(seed)}
        mask = (options or {}).get("reset_mask")
        if mask is not None:
            message["mask"] = np.asarray(mask)
        answer = self._ask("reset", message)
        return answer["observation"], answer["infos"]

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        return self._stepped(self._ask("step", {"actions": _numbers(actions, 2)}))

    def chunk_step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """K control steps [W, K, A] in one message; see ``SplatVectorEnv.chunk_step``."""
        return self._stepped(self._ask("chunk_step", {"actions": _numbers(actions, 3)}))

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode != "rgb_array":
            return None
        pictures = self._ask("render", {})["pictures"]
        return None if pictures is None else tuple(pictures)

    def close_extras(self, **kwargs: Any) -> None:
        """Lets go of the worlds; the server ends their process."""
        try:
            self._ask("close", {})
        except RemoteError:
            pass  # It has gone before us, and its worlds with it.
        finally:
            self._connection.close()

    def _take_up(self, hello: dict[str, Any]) -> None:
        """Becomes what the server says that its environment is."""
        if hello.get("version") != VERSION:
            raise RemoteError(
                f"the server speaks version {hello.get('version')} of the protocol, this client {VERSION}:"
                " install the same version of recon4d on both sides"
            )
        try:
            self.num_envs = int(hello["num_envs"])
            self.facts: dict[str, Any] = hello["facts"]
            """What the server says of the task: its name, description, steps and cameras."""
            self.metadata = {
                "render_modes": ["rgb_array"],
                "render_fps": hello["render_fps"],
                "autoreset_mode": AutoresetMode(hello["autoreset_mode"]),
            }
            self.single_observation_space = restore(hello["observation_space"])
            self.single_action_space = restore(hello["action_space"])
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteError(f"the server's first message cannot be read: {error!r}") from error
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _stepped(
        self, answer: dict[str, Any]
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        rewards, terminated, truncated = answer["rewards"], answer["terminated"], answer["truncated"]
        return answer["observation"], rewards, terminated, truncated, answer["infos"]

    def _ask(self, op: str, message: dict[str, Any]) -> dict[str, Any]:
        """Sends a message and waits for its answer, however long a step takes, while the server gives signs of life."""
        try:
            self._socket.send(encode({"op": op, **message}))
        except ConnectionClosed as error:
            raise _gone(error) from error
        return self._hear(op)

    def _hear(self, op: str) -> dict[str, Any]:
        try:
            data = self._socket.recv()
        except ConnectionClosed as error:
            raise _gone(error) from error
        if isinstance(data, str):
            raise RemoteError("the server sent text; messages are bytes: is this an environment's address?")
        message = decode(data)
        if message.get("op") == "problem":
            raise _raised(message.get("problem"))
        if message.get("op") != op:
            raise RemoteError(f"the server answered '{message.get('op')}' to '{op}'")
        return message


def _connected(address: str, key: str | None, stack: ExitStack) -> Any:
    """A connection that is closed with the stack."""
    host = urlsplit(address).hostname or ""
    try:
        connection = connect(
            address,
            additional_headers={} if key is None else {"Authorization": f"Bearer {key}"},
            compression=None,  # Pictures hardly shrink by it, and every step would wait for it.
            max_size=LARGEST,
            proxy=None if host in _LOOPBACK else True,
        )
        return stack.enter_context(connection)
    except InvalidStatus as error:
        raise _refusal(error) from error
    except (OSError, InvalidHandshake, ValueError) as error:
        raise RemoteError(f"cannot reach {address.partition('?')[0]}: {error}") from error


def _address(url: str, asked: dict[str, str]) -> str:
    """The websocket's address of an environment's."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.hostname:
        raise RemoteError(f"an environment's address begins with http:// or https://; this is {url[:100]!r}")
    path = parts.path.rstrip("/")
    query = "&".join(part for part in (parts.query, urlencode(asked)) if part)
    return urlunsplit((scheme, parts.netloc, path if path.endswith("/ws") else f"{path}/ws", query, ""))


def _refusal(error: InvalidStatus) -> RemoteError:
    """What the server says of why it will not talk."""
    try:
        return _raised(json.loads(error.response.body), RemoteError)
    except (ValueError, TypeError):
        return RemoteError(f"the server refused with HTTP status {error.response.status_code}")


def _raised(document: Any, kind: type[Exception] | None = None) -> Any:
    """A problem as the error that the environment would have raised here."""
    document = document if isinstance(document, dict) else {}
    name = str(document.get("type", "")).rpartition(":")[2]
    detail, hint = str(document.get("detail", "the server refused")), document.get("hint")
    chosen = kind or _KINDS.get(name, RemoteError)
    return chosen(f"{detail}; {hint}" if hint and chosen is RemoteError else detail)


def _gone(error: ConnectionClosed) -> RemoteError:
    frame = error.rcvd
    reason = f"{frame.reason or 'no reason given'} ({frame.code})" if frame is not None else "it stopped answering"
    return RemoteError(f"the connection to the environment has ended: {reason}; make a new one")


def _numbers(actions: Any, axes: int) -> np.ndarray:
    array = np.asarray(actions)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != axes:
        raise ActionError(f"actions must have {axes} axes; they have shape {array.shape}")
    return array


def _plain_seed(seed: Any) -> Any:
    if seed is None or isinstance(seed, int):
        return seed
    if isinstance(seed, np.integer):
        return int(seed)
    return [None if one is None else int(one) for one in seed]
