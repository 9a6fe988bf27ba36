"""Puts the service together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from anyio import to_thread
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from sqlalchemy import func, select

from api.database import Database
from api.edge import BodyLimit, Figures, Idempotency, Metrics, Watch, answer_problems
from api.jobs import Feed, Jobs
from api.keys import Doorkeeper
from api.routes import BODY_LIMITS, ROUTERS, TUS_HEADERS, describe
from api.sessions import Environments, Nursery, Painter
from api.settings import Settings
from api.storage import free_bytes, prepare, sweep
from api.tables import Capture, Job, Scene, Upload
from api.web import add_pages
from recon4d import __version__

BODY_BYTES = 2**20
"""Largest body of most requests."""
SWEEP_EVERY_S = 60.0

_LOG = logging.getLogger(__name__)


def create_app(settings: Settings) -> FastAPI:
    """The service's ASGI application.

    It answers requests alone: jobs are done by worker processes (``api.jobs``), which ``recon4d serve`` starts beside.

    Args:
        settings: see :class:`Settings`.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        database = Database(settings.database)
        app.state.database = database
        app.state.feed = Feed(Jobs(database, settings))
        app.state.authorise = doorkeeper = Doorkeeper(settings, database)
        app.state.identify = doorkeeper.identify
        await to_thread.run_sync(prepare, database, settings)
        sweeper = asyncio.create_task(_sweep_forever(database, settings))
        nursery = Nursery()
        app.state.painter = Painter(nursery, settings.session_idle_s)
        app.state.environments = Environments(nursery, settings.max_sessions)
        try:
            yield
        finally:
            app.state.closing = True
            app.state.feed.close()
            app.state.environments.close()
            await nursery.close()
            sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await sweeper
            database.close()

    app = FastAPI(
        title="recon4d", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.settings = settings
    app.state.closing = False  # True when the service is about to end: long answers look at it.
    app.state.metrics = Metrics(lambda: _figures(app.state.database, settings))
    answer_problems(app)
    for router in ROUTERS:
        app.include_router(router)
    describe(app)
    add_pages(app)
    # The last one added is the outermost.
    app.add_middleware(Idempotency)
    app.add_middleware(BodyLimit, default=BODY_BYTES, others=BODY_LIMITS)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_methods=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
        allow_headers=("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Range", *TUS_HEADERS),
        expose_headers=("Location", "ETag", "Content-Range", "X-Request-ID", "X-Depth-Scale", *TUS_HEADERS),
    )
    app.add_middleware(Watch, metrics=app.state.metrics)
    return app


async def _sweep_forever(database: Database, settings: Settings) -> None:
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        try:
            await to_thread.run_sync(sweep, database, settings)
        except Exception:  # noqa: BLE001  (The next time may go better, and the service is of use without it.)
            _LOG.exception("sweeping failed")


def _figures(database: Database, settings: Settings) -> Figures:
    """What is in the database and on the disk, for metrics."""
    with database.reading() as session:
        states = session.execute(select(Job.state, func.count()).group_by(Job.state)).all()
        rows = {table.__tablename__: session.scalar(select(func.count()).select_from(table)) or 0 for table in _COUNTED}
    jobs = dict.fromkeys(("queued", "running", "succeeded", "failed", "cancelled"), 0) | dict(states)
    return {
        "recon4d_jobs": ("Jobs by state.", {(("state", state),): count for state, count in jobs.items()}),
        "recon4d_rows": ("Captures, uploads and scenes.", {(("table", name),): count for name, count in rows.items()}),
        "recon4d_free_bytes": ("Left on the data folder's disk.", {(): free_bytes(settings)}),
    }


_COUNTED = (Capture, Upload, Scene)
