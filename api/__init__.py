"""The service: videos in over HTTP, scenes and environments out.

In:   :class:`Settings`.
Out:  an ASGI application (``create_app``) and the worker processes that do its jobs.
Owns: resources and their addresses, uploads, jobs, keys, sessions, the page.
Does not own: any computation on videos, scenes or worlds; every job and session calls a door of ``recon4d`` or
``simbridge``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

    from api.settings import Settings

__all__ = ["Settings", "create_app"]


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service's ASGI application; see :func:`api.main.create_app`."""
    from api.main import create_app as create
    from api.settings import Settings

    return create(settings or Settings())


def __getattr__(name: str) -> Any:
    if name != "Settings":
        raise AttributeError(f"module 'api' has no attribute '{name}'")
    from api.settings import Settings  # The client and the command line do without the packages that it needs.

    return Settings
