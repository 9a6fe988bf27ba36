"""A session's process: ``python -m api.sessions ROLE SOCKET``, started by the web process alone."""

from __future__ import annotations

import ctypes
import signal
import socket
import sys
from collections.abc import Callable

from api.sessions._channel import Channel

_PR_SET_PDEATHSIG = 1


def main(role: str, descriptor: str) -> None:
    """Serves at a socket that was handed down, until its other end closes."""
    die_with_parent()
    channel = Channel(socket.socket(fileno=int(descriptor)))
    _role(role)(channel)


def die_with_parent() -> None:
    """A process in the middle of a step would not notice that nobody waits for it any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _role(name: str) -> Callable[[Channel], None]:
    if name == "paint":
        from api.sessions._paint import paint

        return paint
    from api.sessions._environment import serve

    return serve


if __name__ == "__main__":
    main(*sys.argv[1:])
