"""Sessions: processes beside the web process that keep something heavy warm for its clients.

In:   orders for pictures of stored scenes; bundles, tasks and options of environments; a client's websocket.
Out:  pictures, exported files; environments that answer messages until nobody uses them any more.
Owns: these processes, their number and their end; which scenes stay loaded; how long one may be idle.
Does not own: what a picture or a step is (recon4d and simbridge say that), rows, addresses, keys.
"""

from api.sessions._child import Nursery
from api.sessions._environments import Environments, EnvironmentSpec, Session, SessionConfig
from api.sessions._painter import Order, Painter, View
from api.sessions._relay import relay

__all__ = [
    "EnvironmentSpec",
    "Environments",
    "Nursery",
    "Order",
    "Painter",
    "Session",
    "SessionConfig",
    "View",
    "relay",
]
