"""The service's process tree: requests are answered here, jobs by a worker process that is watched over."""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress

import uvicorn
from fastapi import FastAPI

from api.database import Database
from api.keys import any_key
from api.logs import configure_logging
from api.main import create_app
from api.settings import Settings
from recon4d.errors import ConfigError, OutputError

GRACE_S = 10.0
"""How long answers in flight may go on after a request to end."""
WORKER_GRACE_S = 30.0
"""How long the worker may take to put its jobs back."""
_STEADY_S = 30.0
"""A worker that ran for so long is started again at once when it dies."""
_LONGEST_PAUSE_S = 30.0

_LOG = logging.getLogger("api.serve")


def run(settings: Settings, *, worker: bool) -> int:
    """Serves until SIGTERM or SIGINT.

    Args:
        settings: see :class:`api.settings.Settings`.
        worker: whether to run the worker process too.

    Raises:
        ConfigError: the address is taken, or open to others while there is no key.
        OutputError: another service uses the data folder, or it or its database cannot be written.
    """
    configure_logging()
    with _alone(settings), _listening(settings) as listener:
        for number in (signal.SIGTERM, signal.SIGINT):
            # The server takes them over while it runs, and sends them once more when it has ended.
            signal.signal(number, lambda *_: None)
        asyncio.run(_serve(settings, listener, worker))
    return 0


async def _serve(settings: Settings, listener: socket.socket, worker: bool) -> None:
    app = create_app(settings)
    server = _Server(app)
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    announced = asyncio.create_task(_announce(server, url))
    async with _watched_worker(settings) if worker else _nobody():
        await server.serve(sockets=[listener])
        _LOG.info("ending")
    announced.cancel()


class _Server(uvicorn.Server):
    """Tells the application at once when it is to end, so that streams come to theirs."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                proxy_headers=False,  # Who is on the other end of the connection decides, not what it says it is.
                server_header=False,
                timeout_graceful_shutdown=int(GRACE_S),
                ws_per_message_deflate=False,  # Pictures do not shrink.
            )
        )
        self._app = app

    def handle_exit(self, sig: int, frame: object) -> None:
        self._app.state.closing = True
        feed = getattr(self._app.state, "feed", None)
        if feed is not None:
            feed.close()
        super().handle_exit(sig, frame)  # type: ignore[arg-type]


async def _announce(server: uvicorn.Server, url: str) -> None:
    while not server.started:
        await asyncio.sleep(0.02)
    print(url, flush=True)
    _LOG.info("listening", extra={"url": url})


@asynccontextmanager
async def _watched_worker(settings: Settings) -> AsyncIterator[None]:
    """A worker process runs inside; when it dies another one takes its place, and at the end it is asked to end."""
    watching = asyncio.create_task(_watch(settings))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _watch(settings: Settings) -> None:
    pause_s = 0.0
    while True:
        began = time.monotonic()
        process = await _start_worker(settings)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        pause_s = 0.0 if time.monotonic() - began > _STEADY_S else min(max(0.5, 2 * pause_s), _LONGEST_PAUSE_S)
        _LOG.error("worker died", extra={"pid": process.pid, "code": code, "again_in_s": pause_s})
        await asyncio.sleep(pause_s)


async def _start_worker(settings: Settings) -> asyncio.subprocess.Process:
    # Ctrl-C on a terminal reaches a whole process group: a group of its own leaves the worker's end to us.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "api.jobs", "--parent", str(os.getpid())),
        env={**os.environ, **settings.variables()},
        stdin=asyncio.subprocess.DEVNULL,
        process_group=0,
    )
    _LOG.info("worker started", extra={"pid": process.pid})
    return process


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), WORKER_GRACE_S)
        except TimeoutError:
            _LOG.error("worker killed", extra={"pid": process.pid})
            process.kill()
            await process.wait()


@asynccontextmanager
async def _nobody() -> AsyncIterator[None]:
    yield


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Holds the data folder; the lock goes with the process, however it ends."""
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        lock = (settings.data_dir / "serve.lock").open("w")
    except OSError as error:
        raise OutputError(
            f"the data folder '{settings.data_dir}' cannot be written: {error.strerror}; choose another with --data-dir"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(
                f"another service uses the data folder '{settings.data_dir}'; end it, or choose another with --data-dir"
            ) from error
        yield


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    _require_key(settings)  # It opens the database: what is wrong with that is said before anything starts.
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror or error}; choose others with"
            " --host and --port"
        ) from error
    with listener:
        # Its connections take this over. Without, an answer's second part waits 40 ms for news of the first: asyncio
        # sees to it only where a socket was made for TCP by name.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


def _require_key(settings: Settings) -> None:
    """Others than this machine are served by key alone."""
    with closing(Database(settings.database)) as database:
        if _is_loopback(settings.host) or any_key(database):
            return
    raise ConfigError(
        f"--host is {settings.host}, which others can reach, but there is no API key; make one first:"
        f" recon4d keys create NAME --data-dir {settings.data_dir}"
    )


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False
