"""What commands of the service say when its packages are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recon4d.errors import ConfigError, MissingExtraError

_OWN = ("api", "recon4d", "simbridge")


@contextmanager
def service_extra(purpose: str) -> Iterator[None]:
    """Packages are imported, and settings read, inside.

    Raises:
        MissingExtraError: a package is not installed.
        ConfigError: a setting is out of range.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _OWN:
            raise
        raise MissingExtraError(package, "service", purpose) from error
    except ValueError as error:
        invalid: Any = error
        if not hasattr(error, "errors"):  # What pydantic raises has them; it may not be installed.
            raise
        texts = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in invalid.errors()]
        raise ConfigError(f"a setting cannot be used: {'; '.join(texts)}") from error
