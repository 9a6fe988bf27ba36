"""Records as the plain values that JSON has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from simbridge.evaluate._statistics import Interval


def plain(value: Any) -> Any:
    """Nested values as JSON has them: NaN and infinities become None, tuples lists, NumPy's values Python's."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Interval):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
