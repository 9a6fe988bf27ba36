"""Every error that this package raises on purpose; they hang in the tree of :mod:`recon4d.errors`.

    Recon4DError
    ├── BundleError         a bundle's folder, or what it is built from, cannot be used
    ├── ModelError          an MJCF cannot be read, composed or drawn
    ├── EvaluationError     results, policies or recordings cannot be used
    ├── RemoteError         a server of environments refused, went away, or sent what is no message
    └── ConfigError
        ├── TaskError       there is no such task, or the bundle lacks what it needs
        └── ActionError     an action has the wrong shape, or is not finite

A message says what was wrong, the value found, what is allowed and what to do.
"""

from __future__ import annotations

from recon4d.errors import ConfigError, Recon4DError


class BundleError(Recon4DError):
    """A bundle is missing, damaged, of an unknown version, or lacks what is asked of it."""

    exit_code = 4


class ModelError(Recon4DError):
    """An MJCF cannot be read, composed with others, or drawn; names the geom, body or file."""

    exit_code = 4


class TaskError(ConfigError):
    """There is no such task, or the bundle has not what it needs."""


class ActionError(ConfigError):
    """An action has the wrong shape or is not finite. Names the world."""


class RemoteError(Recon4DError):
    """A server of environments refused, went away, or sent what is no message; so may a client have."""

    exit_code = 9


class EvaluationError(Recon4DError):
    """Results, rates or recordings cannot be used. Names the file and the line where there is one."""

    exit_code = 8

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        where = ", ".join(part for part in (file, line is not None and f"line {line}") if part)
        super().__init__(f"{where}: {message}" if where else message)
        self.file = file
        self.line = line
        self.reason = message
