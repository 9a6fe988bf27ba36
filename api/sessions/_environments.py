"""Environment sessions: a process each, as many as are allowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from api.errors import Problem
from api.sessions._channel import Closed, pack, unpack
from api.sessions._child import Child, Nursery

Result = TypeVar("Result")

_PATIENCE_S = 180.0  # To make worlds, on a machine that is busy with other things.


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec:
    """What to make worlds of."""

    bundle: Path
    task: str
    options: dict[str, Any]
    """Every option, checked for type and range."""


@dataclass(frozen=True, kw_only=True)
class SessionConfig:
    """What one client wants of an environment."""

    num_envs: int
    autoreset_mode: str = "NextStep"
    images: str = "raw"


class Over(Exception):
    """The session is to end, or its client has gone."""


class Session:
    """Worlds of one client, in a process that lives no longer than this is entered."""

    def __init__(self, nursery: Nursery, spec: EnvironmentSpec, config: SessionConfig) -> None:
        self._nursery = nursery
        self._spec, self._config = spec, config
        self._child: Child | None = None
        self._over = asyncio.Event()
        self.reason = ""

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._child is None else self._child.pid

    async def start(self) -> dict[str, Any]:
        """Makes the worlds: ``hello``, the first message to the client, and ``facts``.

        Raises:
            Problem: 422 they cannot be made so; 503 it took too long, or the process died.
        """
        spec, config = self._spec, self._config
        order = {"bundle": str(spec.bundle), "task": spec.task, "options": spec.options, **vars(config)}
        try:
            async with asyncio.timeout(_PATIENCE_S):
                self._child = await self._nursery.begin("environment")
                data, _ = await self._child.exchange(pack(order))
        except TimeoutError:
            detail = f"the worlds were not made within {_PATIENCE_S:.0f} s"
            raise Problem(503, "environment-timeout", detail, hint="try again when less runs here") from None
        except Closed:
            raise Problem(503, "environment-died", "the environment's process died while it made the worlds") from None
        answer = unpack(data)
        if "refused" in answer:
            raise Problem(422, "bad-environment", answer["refused"])
        return answer

    async def ask(self, message: bytes) -> tuple[bytearray, bool]:
        """The worlds' answer to a message, however long it takes; True with the last one.

        Raises:
            Closed: the process has died.
        """
        assert self._child is not None
        return await self._child.exchange(message)

    def leave(self, reason: str) -> None:
        """Ends the session, whatever it is at."""
        self.reason = self.reason or reason
        self._over.set()

    async def unless_over(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What the work gives.

        Raises:
            Over: the session ended first; the work was cancelled.
        """
        doing, over = asyncio.ensure_future(work), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((doing, over), return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise Over
            return doing.result()
        finally:
            for task in (doing, over):
                task.cancel()
            await asyncio.gather(doing, over, return_exceptions=True)

    async def end(self) -> None:
        """Ends the process."""
        child, self._child = self._child, None
        if child is not None:
            await child.end()


class Environments:
    """All sessions of all environments.

    Args:
        nursery: where their processes come from.
        most: how many there may be at a time.
    """

    def __init__(self, nursery: Nursery, most: int) -> None:
        self._nursery = nursery
        self._most = most
        self._sessions: dict[Session, str] = {}
        self._describing = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    async def describe(self, spec: EnvironmentSpec) -> dict[str, Any]:
        """Makes worlds once, to see that it can be done, and says what they are.

        Raises:
            Problem: as :meth:`Session.start`.
        """
        config = SessionConfig(num_envs=spec.options["num_envs"])
        async with self._describing:  # One at a time: it takes seconds of a core, and counts as no session.
            session = Session(self._nursery, spec, config)
            try:
                return (await session.start())["facts"]
            finally:
                await session.end()

    @asynccontextmanager
    async def session(self, environment: str, spec: EnvironmentSpec, config: SessionConfig) -> AsyncIterator[Session]:
        """A session that has not started yet; its process ends with the block.

        Raises:
            Problem: 429, there are as many as are allowed.
        """
        if len(self._sessions) >= self._most:
            detail = f"{self._most} environment sessions run already, which is as many as this service allows"
            hint = "close one, or wait until one has been idle for long enough"
            raise Problem(429, "too-many-sessions", detail, hint=hint, headers={"Retry-After": "10"})
        session = Session(self._nursery, spec, config)
        self._sessions[session] = environment
        try:
            yield session
        finally:
            del self._sessions[session]
            await session.end()

    def end(self, environment: str, reason: str) -> None:
        """Ends all sessions of an environment."""
        for session, of in self._sessions.items():
            if of == environment:
                session.leave(reason)

    def close(self) -> None:
        """Ends all sessions."""
        for session in self._sessions:
            session.leave("the service stops")
