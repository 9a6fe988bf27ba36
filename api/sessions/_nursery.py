"""The process from which those of sessions are forked: it has imported what they need, so that they start at once.

It serves one socket. A request is five bytes, a letter and a number: ``p`` or ``e`` begins a session that paints or
steps worlds, at the socket that comes with it; ``k`` ends the process of that number. The answer is a process's number.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

from api.sessions._channel import Channel

REQUEST, ANSWER = struct.Struct("!cI"), struct.Struct("!I")
ROLES = {"paint": b"p", "environment": b"e"}
END = b"k"
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


def serve(end: socket.socket) -> None:
    """Begins and ends sessions until the other end closes."""
    _die_with_parent()
    roles = {b"p": ("r4d-paint", _paint()), b"e": ("r4d-worlds", _environment())}
    while True:
        data, descriptors, _, _ = socket.recv_fds(end, REQUEST.size, 1)
        if len(data) < REQUEST.size:
            return
        letter, number = REQUEST.unpack(data)
        if letter == END:
            with suppress(ProcessLookupError, ChildProcessError):
                os.killpg(number, signal.SIGKILL)
                os.waitpid(number, 0)  # Until here the number is nobody else's.
        else:
            number = _begin(end, descriptors[0], *roles[letter])
        end.sendall(ANSWER.pack(number))


def _begin(end: socket.socket, descriptor: int, name: str, role: Callable[[Channel], None]) -> int:
    """Forks a session's process, of a group of its own. Returns its number."""
    pid = os.fork()
    if pid:
        os.close(descriptor)
        return pid
    try:
        os.setsid()
        _die_with_parent()
        _name(name)
        end.close()
        role(Channel(socket.socket(fileno=descriptor)))
    except BaseException:
        logging.getLogger("api.sessions").exception("a session failed")
    finally:
        os._exit(0)


def _paint() -> Callable[[Channel], None]:
    import numba

    from api.sessions._paint import paint

    assert numba  # What draws on a CPU imports it late; here it is to be there before.
    return paint


def _environment() -> Callable[[Channel], None]:
    from api.sessions._environment import engine, serve

    with suppress(ImportError):  # Without it, each session says what is missing.
        engine()
    return serve


def _die_with_parent() -> None:
    """A process in the middle of a step would not notice that nobody waits for it any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _name(name: str) -> None:
    """What ``top`` and the like show."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())
