"""A road between a client and a service that breaks."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Relay:
    """Passes bytes on, and cuts connections in the middle."""

    target: Callable[[], str]
    """The service's address at this moment."""
    up: list[int] = field(default_factory=list)
    """Bytes towards the service after which a connection is cut: the first connection takes the first number."""
    down: list[int] = field(default_factory=list)
    """Likewise, from the service."""
    cuts: int = 0
    """How many were cut so far."""
    passed_up: int = 0
    """Bytes that went to the service."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # Closed: the test is over.
                return
            try:
                far = socket.create_connection(("127.0.0.1", urlsplit(self.target()).port))
            except OSError:  # The service is away.
                near.close()
                continue
            with self._lock:
                limits = [numbers.pop(0) if numbers else None for numbers in (self.up, self.down)]
                self._open += [near, far]
            for source, sink, limit, up in ((near, far, limits[0], True), (far, near, limits[1], False)):
                threading.Thread(target=self._pump, args=(source, sink, limit, up), daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # Closing alone does not end a wait for connections.
        self._listener.close()
        for end in self._open:
            abort(end)

    def _pump(self, source: socket.socket, sink: socket.socket, limit: int | None, up: bool) -> None:
        passed = 0
        with suppress(OSError):  # The other direction was cut.
            while data := source.recv(65536):
                data = data if limit is None else data[: limit - passed]
                sink.sendall(data)
                passed += len(data)
                if up:
                    with self._lock:
                        self.passed_up += len(data)
                if limit is not None and passed >= limit:
                    with self._lock:
                        self.cuts += 1
                    break
        abort(source)
        abort(sink)


def abort(end: socket.socket) -> None:
    """Ends a connection as a lost network does: by a reset, not by a goodbye."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextmanager
def relay(target: Callable[[], str], *, up: list[int] | None = None, down: list[int] | None = None) -> Iterator[Relay]:
    """A relay to a service on loopback, for as long as the block lasts."""
    road = Relay(target, up or [], down or [])
    thread = threading.Thread(target=road.serve, daemon=True)
    thread.start()
    try:
        yield road
    finally:
        road.close()
        thread.join(timeout=10)
