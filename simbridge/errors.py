"""Every error that this package raises on purpose; all are :class:`recon4d.errors.Recon4DError`."""

from __future__ import annotations

from recon4d.errors import ConfigError, Recon4DError


class BundleError(Recon4DError):
    """A bundle is missing, damaged, of an unknown version, or lacks what is asked of it."""

    exit_code = 4


class TaskError(ConfigError):
    """There is no such task, or the bundle has not what it needs."""


class ActionError(ConfigError):
    """An action has the wrong shape or is not finite. Names the world."""
