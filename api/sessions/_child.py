"""Sessions' processes, as the web process holds them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress

from api.sessions._channel import AsyncChannel, Closed
from api.sessions._nursery import ANSWER, END, REQUEST, ROLES


class Child:
    """One session's process. It is killed rather than asked: it holds nothing that could be lost."""

    def __init__(self, nursery: Nursery, pid: int, channel: AsyncChannel) -> None:
        self.pid = pid
        self._nursery = nursery
        self._channel = channel

    async def exchange(self, data: bytes | bytearray) -> tuple[bytearray, bool]:
        """See :meth:`AsyncChannel.exchange`. Once cancelled, only :meth:`end` may follow."""
        return await self._channel.exchange(data)

    async def end(self) -> None:
        """Ends the process and all that it has started."""
        self._channel.close()
        await self._nursery.end(self.pid)


class Nursery:
    """Begins processes of sessions: all are forked from one, which is started when the first is wanted."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._end: socket.socket | None = None
        self._turn = asyncio.Lock()

    async def begin(self, role: str) -> Child:
        """A process in a role, ``paint`` or ``environment``.

        Raises:
            Closed: it could not be started, twice over.
        """
        ours, theirs = socket.socketpair()
        try:
            for end in (ours, theirs):  # A step's pictures in few pieces, as far as the system grants it.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
            try:
                pid = await self._ask(ROLES[role], 0, theirs)
            except Closed:  # It had died; the next one lives.
                pid = await self._ask(ROLES[role], 0, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return Child(self, pid, AsyncChannel(ours))

    async def end(self, pid: int) -> None:
        """Ends a process. Those of a nursery that has died are dead already."""
        with suppress(Closed):
            await asyncio.shield(self._ask(END, pid, None))

    async def close(self) -> None:
        """Ends the nursery, and whatever was forked from it."""
        async with self._turn:
            await self._stop()

    async def _ask(self, letter: bytes, number: int, end: socket.socket | None) -> int:
        async with self._turn:
            if self._process is None:
                if letter == END:
                    raise Closed
                await self._start()
            assert self._end is not None
            try:
                socket.send_fds(self._end, [REQUEST.pack(letter, number)], [] if end is None else [end.fileno()])
                answer = await asyncio.get_running_loop().sock_recv(self._end, ANSWER.size)
            except OSError:
                answer = b""
            except BaseException:  # Cancelled: an answer may still come that nobody waits for.
                await self._stop()
                raise
            if len(answer) < ANSWER.size:
                await self._stop()
                raise Closed
            return ANSWER.unpack(answer)[0]

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "api.sessions",
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        self._end = ours

    async def _stop(self) -> None:
        process, end = self._process, self._end
        self._process = self._end = None
        if end is not None:
            end.close()
        if process is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            await process.wait()
