"""What a bundle is asked to be made of, looked at before it is queued: it may name its own files, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from xml.etree import ElementTree

from api.errors import Problem

MOST_FILES = 64
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*){0,3}")


def check_parts(config: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """Looks at a bundle's configuration and files. What else they hold is looked at when the bundle is built.

    Args:
        config: as ``simbridge.bundle`` reads it.
        files: texts by the names that the configuration and the models use.

    Raises:
        Problem: 422, a file's name is none, or something names a file that is not among them.
    """
    if len(files) > MOST_FILES:
        raise _refused(f"a bundle may have {MOST_FILES} files; these are {len(files)}")
    for name in files:
        if len(name) > 200 or not _NAME.fullmatch(name) or name == "config.json":
            raise _refused("a file's name is made of letters, digits, _ - . and /, as in meshes/arm.obj", name)
    if "folder" in config:
        raise _refused("config.folder cannot be set: files are those of the request")
    for where, name in _named_in_config(config):
        if not isinstance(name, str) or name not in files:
            raise _refused(f"{where} names a file that is not among the files of the request", name)
    for name, text in files.items():
        # Models include files of any name; no other text that belongs into a bundle holds this character.
        if "<" in text or name.endswith(".xml"):
            _check_model(name, text)


def _named_in_config(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Where a configuration names files, and which; what has another shape is refused when it is read."""
    robot = config.get("robot")
    if isinstance(robot, Mapping):
        if robot.get("mjcf") is not None:
            yield "config.robot.mjcf", robot["mjcf"]
        splats = robot.get("splats")
        yield from ((f"config.robot.splats.{k}", v) for k, v in splats.items()) if isinstance(splats, Mapping) else ()
    objects = config.get("objects")
    for number, item in enumerate(objects if isinstance(objects, list) else ()):
        if isinstance(item, Mapping):
            fields = (field for field in ("mesh", "splats") if item.get(field) is not None)
            yield from ((f"config.objects[{number}].{field}", item[field]) for field in fields)


def _check_model(name: str, text: str) -> None:
    """An MJCF names files by attributes ``file…`` and folders by ``…dir``: none may lead out of its own folder."""
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise _refused(f"it is no XML: {error}", name) from error
    for element in root.iter():
        for key, value in element.attrib.items():
            path = PurePosixPath(value.replace("\\", "/"))
            if (key.startswith("file") or key.endswith("dir")) and (path.is_absolute() or ".." in path.parts):
                raise _refused(f"<{element.tag} {key}='{value[:100]}'> leads out of the request's files", name)


def _refused(detail: str, file: str | None = None) -> Problem:
    named = None if file is None else str(file)[:200]
    return Problem(422, "config", detail if named is None else f"'{named}': {detail}", file=named)
