"""Every error that this package raises on purpose. All are of :class:`recon4d.errors.Recon4DError`'s tree.

    Recon4DError
    └── SimBridgeError
        └── EvaluationError     results, rates or recordings that no figure can be computed from

A message says what was wrong, the value found, what is allowed and what to do. The command line prints it without a
traceback and exits with ``exit_code``.
"""

from __future__ import annotations

from recon4d.errors import Recon4DError


class SimBridgeError(Recon4DError):
    """Root of this package's errors."""


class EvaluationError(SimBridgeError):
    """Results, rates or recordings cannot be used. Names the file and the line where there is one."""

    exit_code = 8

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        where = ", ".join(part for part in (file, line is not None and f"line {line}") if part)
        super().__init__(f"{where}: {message}" if where else message)
        self.file = file
        self.line = line
        self.reason = message
