"""Requests made up from the service's own OpenAPI, and what is wrong with the answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TIMEOUT_S = 60.0
schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")


@dataclass
class Tally:
    """How a fuzz went."""

    asked: int = 0
    accepted: int = 0
    refused: int = 0


def operations(url: str) -> Iterator[Any]:
    """Every operation of the service, as schemathesis has it."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    for found in schema.get_all_operations():
        yield found.ok()


def fuzz(operation: Any, count: int, path: dict[str, str] | None = None) -> Tally:
    """Sends an operation requests that fit its description, and as many that do not.

    Args:
        operation: of :func:`operations`.
        count: requests of either sort.
        path: values of path parameters, by name; made up when left out.

    Raises:
        AssertionError: an answer was a fault of the service's, no problem document, or not as described.
    """
    tally = Tally()
    with requests.Session() as session:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            # Any text is an id that may be asked for: there is no wrong one to be made up, only a long search for it.
            if mode == GenerationMode.POSITIVE or len(operation.query) + len(operation.headers) + len(operation.body):
                strategy = operation.as_strategy(generation_mode=mode, path_parameters=path)
                with suppress(hypothesis.errors.Unsatisfiable):  # The same, of headers.
                    _explore(strategy, count, session, tally)
    return tally


def _explore(strategy: Any, count: int, session: requests.Session, tally: Tally) -> None:
    @hypothesis.settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=strategy)
    def explore(case: Any) -> None:
        answer = case.call(session=session, timeout=TIMEOUT_S)
        tally.asked += 1
        tally.accepted += answer.status_code < 400
        tally.refused += answer.status_code >= 400
        case.validate_response(answer, checks=CHECKS)
        check_problem(answer)

    explore()


def check_problem(answer: Any) -> None:
    """An answer of 400 and above must be a problem document.

    Raises:
        AssertionError: it is none.
    """
    if answer.status_code < 400 or answer.request.method == "HEAD":
        return
    kind = dict(answer.headers.items()).get("content-type")
    kind = kind[0] if isinstance(kind, list) else kind
    assert kind == "application/problem+json", (answer.status_code, kind)
    problem = answer.json()
    assert problem["status"] == answer.status_code, problem
    assert problem["type"].startswith("urn:recon4d:problem:"), problem
    assert problem["title"], problem
    assert problem["detail"], problem
    assert "Traceback" not in answer.text, problem
