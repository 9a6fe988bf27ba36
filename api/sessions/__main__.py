"""``python -m api.sessions SOCKET``: the process that sessions are forked from, started by the web process alone."""

from __future__ import annotations

import socket
import sys

from api.logs import configure_logging
from api.sessions._nursery import serve

if __name__ == "__main__":
    configure_logging()
    serve(socket.socket(fileno=int(sys.argv[1])))
