"""A websocket in this process with worlds behind it: the wire without the service."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from simbridge.adapters.gymnasium import SplatVectorEnv
from simbridge.core import WorldsConfig
from simbridge.remote import Served
from simbridge.types import Bundle


@contextmanager
def serving(bundle: Bundle, config: WorldsConfig, task: str = "reach", num_envs: int = 2) -> Iterator[str]:
    """The address of an environment whose every connection has worlds of its own."""

    def talk(connection: ServerConnection) -> None:
        assert connection.request is not None
        asked = {name: values[0] for name, values in parse_qs(urlsplit(connection.request.path).query).items()}
        env = SplatVectorEnv(
            bundle,
            task,
            int(asked.get("num_envs", num_envs)),
            config=config,
            autoreset_mode=asked["autoreset_mode"],
            render_mode="rgb_array" if "rgb" in config.sensors.kinds else None,
        )
        images: Any = asked["images"]
        served = Served(env, images=images, facts={"task": task})
        try:
            connection.send(served.hello())
            while not served.closed:
                message = connection.recv()
                connection.send(served.answer(message if isinstance(message, bytes) else message.encode()))
        except ConnectionClosed:
            pass
        finally:
            env.close()

    with serve(talk, "127.0.0.1", 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}/environment"
        finally:
            server.shutdown()
            thread.join()
