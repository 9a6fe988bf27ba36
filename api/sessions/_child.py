"""A session's process, as the web process holds it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress

from api.sessions._channel import AsyncChannel


class Child:
    """A process of its own group, which is killed rather than asked: it holds nothing that could be lost."""

    def __init__(self, process: asyncio.subprocess.Process, channel: AsyncChannel) -> None:
        self._process = process
        self._channel = channel

    @classmethod
    async def start(cls, role: str) -> Child:
        """Starts ``python -m api.sessions`` in a role."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):  # A step's pictures in few pieces, as far as the system grants it.
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "api.sessions",
                role,
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, AsyncChannel(ours))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def exchange(self, data: bytes | bytearray) -> tuple[bytearray, bool]:
        """See :meth:`AsyncChannel.exchange`. Once cancelled, only :meth:`end` may follow."""
        return await self._channel.exchange(data)

    async def end(self) -> None:
        """Ends the process and all that it has started."""
        self._channel.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
