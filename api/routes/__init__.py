"""Addresses of the service, one file a noun.

In:   requests, checked by models of each file.
Out:  JSON, files, streams; problems (RFC 9457) for everything that goes wrong.
Owns: paths, methods, status codes, request and response models, OpenAPI texts.
Does not own: any state; routes call the doors of storage, jobs, keys and sessions.
"""

import re

from fastapi import APIRouter

from api.routes import bundles, captures, environments, jobs, meta, reconstructions, scenes, uploads
from api.routes._openapi import describe

__all__ = ["BODY_LIMITS", "ROUTERS", "TUS_HEADERS", "describe"]

ROUTERS: tuple[APIRouter, ...] = (
    captures.router,
    uploads.router,
    reconstructions.router,
    jobs.router,
    scenes.router,
    bundles.router,
    environments.router,
    meta.router,
)
"""In the order in which OpenAPI lists them."""

TUS_HEADERS = uploads.HEADERS

BODY_LIMITS: tuple[tuple[re.Pattern[str], int | None], ...] = (
    (re.compile(r"/v1/captures/[^/]+/files"), captures.MULTIPART_BYTES),
    (re.compile(r"/v1/captures/[^/]+/calibration"), captures.CALIBRATION_BYTES),
    (re.compile(r"/v1/bundles"), bundles.PARTS_BYTES),
    (re.compile(r"/v1/uploads/[^/]+|/v1/captures/[^/]+/uploads"), None),
)
"""Bytes that a body may have where it is more than usual; uploads count for themselves."""
