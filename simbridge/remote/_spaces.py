"""Spaces of Gymnasium as plain values, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from simbridge.errors import RemoteError


def describe(space: spaces.Space[Any]) -> dict[str, Any]:
    """A Box, or a Dict of such, as values that a message can hold.

    Raises:
        RemoteError: it is another space.
    """
    if isinstance(space, spaces.Dict):
        return {"kind": "dict", "spaces": {name: describe(part) for name, part in space.spaces.items()}}
    if not isinstance(space, spaces.Box):
        raise RemoteError(f"a {type(space).__name__} space has no form on the wire")
    low, high = _bound(space.low), _bound(space.high)
    return {"kind": "box", "low": low, "high": high, "shape": list(space.shape), "dtype": space.dtype.name}


def restore(described: Any) -> spaces.Space[Any]:
    """The space that :func:`describe` described.

    Raises:
        RemoteError: it describes none.
    """
    try:
        if described["kind"] == "dict":
            return spaces.Dict({name: restore(part) for name, part in described["spaces"].items()})
        dtype = np.dtype(described["dtype"]).type
        shape = tuple(described["shape"])
        low, high = (np.broadcast_to(np.asarray(described[end], dtype), shape) for end in ("low", "high"))
        return spaces.Box(low, high, shape, dtype)
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise RemoteError(f"what the server says of its spaces cannot be read: {error!r}") from error


def _bound(values: np.ndarray) -> Any:
    """One number when all are equal: a picture's bounds are as large as the picture."""
    return values.flat[0].item() if values.size and (values == values.flat[0]).all() else values
