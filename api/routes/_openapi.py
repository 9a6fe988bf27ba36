"""What the service's OpenAPI says of all operations alike: who may call, and how it refuses."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from api.errors import MEDIA_TYPE

TAGS = {
    "captures": "Videos of one scene, one or more a camera, and how the cameras stand.",
    "uploads": "Files on their way, by tus 1.0: what has arrived stays when the connection breaks.",
    "jobs": "Work that takes long: checks, reconstructions, bundles. What they say comes as a stream of events.",
    "reconstructions": "From a capture to a scene.",
    "scenes": "Finished scenes: their files, and pictures of them from anywhere at any time.",
    "bundles": "Scenes with a robot and objects in them.",
    "environments": "Tasks in bundles, stepped over a websocket.",
    "service": "The service itself.",
}

PROBLEM: dict[str, Any] = {
    "title": "Problem",
    "description": "What went wrong (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "For programs; stable.", "example": "urn:recon4d:problem:not-found"},
        "title": {"type": "string", "example": "Not found"},
        "status": {"type": "integer", "example": 404},
        "detail": {"type": "string", "description": "What was wrong, for people.", "example": "there is no such job"},
        "hint": {"type": "string", "description": "What to do."},
        "camera": {"type": "string", "description": "The camera that it is about."},
        "file": {"type": "string", "description": "The file that it is about."},
        "errors": {
            "type": "array",
            "description": "Each fault of the request, by JSON pointer into the body or name of a parameter.",
            "items": {"type": "object"},
        },
    },
    "additionalProperties": True,
}
_ANSWER = {
    "description": "A problem.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_OPEN = {"/livez", "/readyz"}
"""Paths that need no key."""


def describe(app: FastAPI) -> None:
    """Adds to the application's OpenAPI what FastAPI cannot know."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(make())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):  # Whose place problems take.
        schemas.pop(unused, None)
    schemas["Problem"] = PROBLEM
    schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, item in schema["paths"].items():
        for operation in item.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = _ANSWER
            # Without any key, callers of the same machine need none either.
            operation["security"] = [] if path in _OPEN else [{"key": []}, {}]
    used = {tag for item in schema["paths"].values() for operation in item.values() for tag in operation["tags"]}
    schema["tags"] = [{"name": name, "description": text} for name, text in TAGS.items() if name in used]
    return schema
