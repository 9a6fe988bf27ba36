"""How the vendors' management tools are asked: Python bindings where there are any, else their command lines."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

TIMEOUT_S = 10.0
"""A tool of a healthy driver answers within two seconds, of a sick one never."""


class NoAnswer(Exception):
    """A tool is not there, or what it says cannot be used; the message says which. Zero devices are an answer."""


def brief(error: Exception) -> str:
    """An error on one line. A missing answer is known by its words, other errors by their type too."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = lines[0].rstrip(".")[:200] if lines else ""
    if isinstance(error, NoAnswer | ImportError) and words:
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def output(*command: str) -> str:
    """What a command prints.

    Raises:
        NoAnswer: it is not on PATH, cannot be started, fails, or does not end in time.
    """
    tool = command[0]
    path = shutil.which(tool)
    if path is None:
        raise NoAnswer(f"{tool} is not on PATH")
    try:
        ran = subprocess.run(
            [path, *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NoAnswer(f"{tool} did not answer within {TIMEOUT_S:g} s") from error
    except OSError as error:
        raise NoAnswer(f"{tool} cannot be started: {error.strerror or error}") from error
    said = ran.stdout.decode("utf-8", "replace")
    if ran.returncode != 0:
        # Some drivers complain on stdout.
        complaint = (ran.stderr.decode("utf-8", "replace").strip() or said.strip() or "silently").splitlines()[0]
        raise NoAnswer(f"{tool} failed with exit code {ran.returncode}: {complaint[:120]}")
    return said


def parsed(tool: str, text: str) -> dict[str, Any]:
    """The JSON object in a tool's output; what it prints before it, as warnings, is skipped.

    Raises:
        NoAnswer: there is none.
    """
    try:
        value, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    except ValueError as error:
        raise garbage(tool, text) from error
    return value


def garbage(tool: str, text: str) -> NoAnswer:
    """That a tool's output is not what it should be, to be raised."""
    return NoAnswer(f"{tool} printed what cannot be read: {text.strip()[:60]!r}")


def library(name: str) -> ModuleType:
    """A vendor's Python module.

    Raises:
        NoAnswer: it is not installed, or cannot be imported.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise NoAnswer(f"{name.split('.')[0]} is not installed") from error
        raise NoAnswer(f"{name} cannot be imported: {brief(error)}") from error
    except Exception as error:  # A vendor's module loads its driver, and that may raise anything.
        raise NoAnswer(f"{name} cannot be imported: {brief(error)}") from error


def kernel_module(name: str) -> str | None:
    """The version that a driver loaded into the Linux kernel gives itself; None where there is none."""
    try:
        return Path("/sys/module", name, "version").read_text("utf-8", "replace").strip() or None
    except OSError:
        return None


def text(value: str | bytes) -> str:
    """A name as text: bindings give bytes or text, by their version."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
