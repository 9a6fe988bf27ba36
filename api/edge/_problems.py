"""Turns whatever goes wrong into a problem document."""

from __future__ import annotations

import errno
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from api.errors import MEDIA_TYPE, Problem, problem_of
from recon4d.errors import Recon4DError

_KINDS = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "unsupported-media-type"}


def answer_problems(app: FastAPI) -> None:
    """Registers the handlers of every exception that may leave a route, but for faults of our own: see ``Watch``."""
    app.add_exception_handler(Problem, _of_problem)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Recon4DError, _of_engine)
    app.add_exception_handler(OperationalError, _of_database)
    app.add_exception_handler(OSError, _of_system)


def to_response(problem: Problem) -> JSONResponse:
    """The answer to send."""
    return JSONResponse(problem.to_json(), problem.status, problem.headers, MEDIA_TYPE)


def _of_problem(request: Request, error: Any) -> JSONResponse:
    return to_response(error)


def _of_validation(request: Request, error: Any) -> JSONResponse:
    errors = [_fault(fault) for fault in error.errors()[:50]]
    where = errors[0].get("pointer") or errors[0].get("parameter") or "the body"
    return to_response(Problem(422, "invalid-request", f"{where}: {errors[0]['detail']}", errors=errors))


def _fault(fault: dict[str, Any]) -> dict[str, str]:
    """One fault, by a JSON pointer into the body or the name of a parameter."""
    place, *path = fault["loc"]
    detail = str(fault["msg"])[:300]
    if place != "body":
        return {"parameter": "/".join(str(part) for part in path), "in": str(place), "detail": detail}
    if fault["type"] == "json_invalid":
        return {"pointer": "", "detail": f"{detail}: {fault.get('ctx', {}).get('error', '')} at character {path[0]}"}
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return {"pointer": "".join(f"/{part}" for part in escaped), "detail": detail}


def _of_http(request: Request, error: Any) -> JSONResponse:
    return to_response(of_http(request.scope, error))


def of_http(scope: Scope, error: HTTPException) -> Problem:
    """The problem that a plain HTTP error is."""
    status, headers = error.status_code, dict(error.headers or {})
    phrase = HTTPStatus(status).phrase
    detail = str(error.detail)
    if detail == phrase and status == 404:
        detail = f"there is nothing at {scope['path'][:200]}"
    elif detail == phrase and status == 405:
        detail = f"{scope['method'][:20]} is not allowed here; allowed: {headers.get('Allow', 'other methods')}"
    return Problem(status, _KINDS.get(status, phrase.lower().replace(" ", "-")), detail, headers=headers)


def _of_engine(request: Request, error: Any) -> JSONResponse:
    return to_response(problem_of(error))


def _of_database(request: Request, error: Any) -> JSONResponse:
    if "disk is full" in str(error.orig):
        return to_response(Problem(507, "disk-full", "the service's disk is full"))
    if "locked" in str(error.orig) or "busy" in str(error.orig):
        busy = Problem(503, "busy", "the database is busy", hint="try again", headers={"Retry-After": "1"})
        return to_response(busy)
    raise error


def _of_system(request: Request, error: Any) -> JSONResponse:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return to_response(Problem(507, "disk-full", "the service's disk is full"))
    raise error
