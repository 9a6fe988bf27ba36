"""Puts the service together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from api.database import Database
from api.routes import ROUTERS
from api.settings import Settings
from recon4d import __version__


def create_app(settings: Settings) -> FastAPI:
    """The service's ASGI application.

    It answers requests alone: jobs are done by worker processes (``api.jobs``), which ``recon4d serve`` starts beside.

    Args:
        settings: see :class:`Settings`.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.database = Database(settings.database)
        try:
            yield
        finally:
            app.state.database.close()

    app = FastAPI(title="recon4d", version=__version__, lifespan=lifespan)
    app.state.settings = settings
    for router in ROUTERS:
        app.include_router(router)
    return app
