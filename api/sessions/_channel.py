"""Frames between the web process and a session's: a length, whether it is the last one, and bytes."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import msgpack

_HEAD = struct.Struct("!I?")
_LARGEST = 1 << 30


def pack(message: dict[str, Any]) -> bytes:
    """A frame of plain values."""
    return bytes(msgpack.Packer().pack(message))


def unpack(data: bytes | bytearray) -> dict[str, Any]:
    """What :func:`pack` packed, in this process or in one that it has started."""
    return msgpack.unpackb(data)


class Closed(Exception):
    """The other end has gone."""


class Channel:
    """The session's end; it waits."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def receive(self) -> bytearray | None:
        """The next frame; None when the web process has closed its end."""
        try:
            length, _ = _HEAD.unpack(self._exactly(_HEAD.size))
            return self._exactly(length)
        except (Closed, ConnectionError):
            return None

    def send(self, data: bytes, *, last: bool = False) -> None:
        self._end.sendall(_HEAD.pack(len(data), last))
        self._end.sendall(data)

    def _exactly(self, count: int) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            got = self._end.recv_into(view)
            if not got:
                raise Closed
            view = view[got:]
        return data


class AsyncChannel:
    """The web process's end; it never blocks the event loop. One exchange at a time."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end

    async def exchange(self, data: bytes | bytearray) -> tuple[bytearray, bool]:
        """Sends a frame and waits for the next one; True with the last one.

        Raises:
            Closed: the session's process has ended.
        """
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._end, _HEAD.pack(len(data), False))
            await loop.sock_sendall(self._end, data)
            length, last = _HEAD.unpack(await self._exactly(_HEAD.size))
            if length > _LARGEST:
                raise Closed
            return await self._exactly(length), last
        except OSError as error:
            raise Closed from error

    def close(self) -> None:
        self._end.close()

    async def _exactly(self, count: int) -> bytearray:
        loop, data = asyncio.get_running_loop(), bytearray(count)
        view = memoryview(data)
        while view:
            got = await loop.sock_recv_into(self._end, view)
            if not got:
                raise Closed
            view = view[got:]
        return data
