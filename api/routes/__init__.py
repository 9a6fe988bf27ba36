"""Addresses of the service, one file a noun.

In:   requests, checked by models of each file.
Out:  JSON, files, streams; problems (RFC 9457) for everything that goes wrong.
Owns: paths, methods, status codes, request and response models, OpenAPI texts.
Does not own: any state; routes call the doors of storage, jobs, keys and sessions.
"""

from fastapi import APIRouter

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = ()
"""In the order in which OpenAPI lists them."""
