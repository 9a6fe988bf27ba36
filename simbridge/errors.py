"""Errors that this package raises on purpose; they hang in the tree of :mod:`recon4d.errors`.

    Recon4DError
    ├── BundleError     a bundle's folder, or what it is built from, cannot be used
    └── ModelError      an MJCF cannot be read, composed or drawn

A message says what was wrong, the value found, what is allowed and what to do.
"""

from __future__ import annotations

from recon4d.errors import Recon4DError


class BundleError(Recon4DError):
    """A bundle is missing, damaged or of an unknown version; names the file."""

    exit_code = 4


class ModelError(Recon4DError):
    """An MJCF cannot be read, composed with others, or drawn; names the geom, body or file."""

    exit_code = 4
