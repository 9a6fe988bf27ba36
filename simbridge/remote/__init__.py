"""Environments across a network: worlds in a server's process, stepped through a websocket.

In:   on the client's side an address; on the server's side a batched environment and the messages of one client.
Out:  :class:`RemoteEnv`, which is a ``VectorEnv`` of Gymnasium; the answers that :class:`Served` gives.
Owns: the messages, their bytes and their bounds, spaces on the wire, errors that cross it.
Does not own: what happens in a world (core), connections, processes and keys of the server (``api``).
"""

from simbridge.remote._env import RemoteEnv
from simbridge.remote._serve import LARGEST_REQUEST, Served, problem
from simbridge.remote._wire import IMAGE_FORMATS, LARGEST, ImageFormat, decode, encode

__all__ = [
    "IMAGE_FORMATS",
    "LARGEST",
    "LARGEST_REQUEST",
    "ImageFormat",
    "RemoteEnv",
    "Served",
    "decode",
    "encode",
    "problem",
]
