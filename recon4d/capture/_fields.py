"""A small typed reader of JSON objects whose messages name the field, the value and what is allowed."""

from __future__ import annotations

import difflib
import math
from typing import Any, NoReturn

import numpy as np

from recon4d.capture._findings import Inspection

_REQUIRED: Any = object()


class Fields:
    """One JSON object, read field by field; every refusal goes to the inspection."""

    def __init__(
        self,
        data: Any,
        where: str,
        allowed: tuple[str, ...],
        inspection: Inspection,
        *,
        file: str,
        camera: str | None = None,
    ) -> None:
        self._where = where
        self._inspection = inspection
        self._file = file
        self._camera = camera
        if not isinstance(data, dict):
            inspection.error(
                f"{where or 'the file'} must be an object {{...}}; it is {_show(data)}", camera=camera, file=file
            )
        self._data: dict[str, Any] = data
        for key in data:
            if key not in allowed:
                near = difflib.get_close_matches(key, allowed, n=2, cutoff=0.5)
                advice = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else f"known: {list(allowed)}"
                inspection.warn(
                    f"the field '{self._path(key)}' is unknown and ignored", advice, camera=camera, file=file
                )

    def __contains__(self, key: str) -> bool:
        return self._data.get(key) is not None

    def refuse(self, key: str, problem: str, advice: str = "", *, calibration: bool = False) -> NoReturn:
        """Reports ``field 'key' problem`` as an error."""
        self._inspection.error(
            f"field '{self._path(key)}' {problem}",
            advice,
            camera=self._camera,
            file=self._file,
            calibration=calibration,
        )

    def text(self, key: str, default: str = _REQUIRED) -> str:
        value = self._get(key, default)
        return value if isinstance(value, str) else self._wrong(key, "text", value)

    def texts(self, key: str, default: tuple[str, ...] = _REQUIRED) -> tuple[str, ...]:
        value = self._get(key, default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
            self._wrong(key, "a list of texts", value)
        return tuple(value)

    def choice(self, key: str, options: tuple[str, ...]) -> str:
        value = self._get(key, _REQUIRED)
        return value if value in options else self._wrong(key, f"one of {list(options)}", value)

    def number(self, key: str, default: float = _REQUIRED, *, minimum: float = -math.inf) -> float:
        value = self._get(key, default)
        if not _is_number(value) or not math.isfinite(value) or value < minimum:
            self._wrong(key, "a finite number" + (f" of at least {minimum:g}" if minimum > -math.inf else ""), value)
        return float(value)

    def integer(self, key: str, default: int = _REQUIRED, *, minimum: int | None = None) -> int:
        value = self._get(key, default)
        if not _is_number(value) or value != value // 1 or (minimum is not None and value < minimum):
            self._wrong(key, "a whole number" + ("" if minimum is None else f" of at least {minimum}"), value)
        return int(value)

    def numbers(self, key: str) -> np.ndarray:
        """[N] float64."""
        value = self._get(key, _REQUIRED)
        if not isinstance(value, list) or not all(_is_number(v) and math.isfinite(v) for v in value):
            self._wrong(key, "a list of finite numbers", value, calibration=True)
        return np.array(value, np.float64)

    def matrix(self, key: str, shape: tuple[int, int]) -> np.ndarray:
        """[rows, columns] float64, finite."""
        value = self._get(key, _REQUIRED)
        rows = value if isinstance(value, list) else []
        shaped = len(rows) == shape[0] and all(isinstance(r, list) and len(r) == shape[1] for r in rows)
        if not shaped or not all(_is_number(v) and math.isfinite(v) for row in rows for v in row):
            expected = f"{shape[0]} rows of {shape[1]} finite numbers"
            self._wrong(key, expected, value, calibration=True)
        return np.array(value, np.float64)

    def object(self, key: str, allowed: tuple[str, ...]) -> Fields:
        value = self._get(key, _REQUIRED)
        return Fields(value, self._path(key), allowed, self._inspection, file=self._file, camera=self._camera)

    def items(self, key: str) -> list[Any]:
        value = self._get(key, _REQUIRED)
        return value if isinstance(value, list) else self._wrong(key, "a list", value)

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def _get(self, key: str, default: Any) -> Any:
        value = self._data.get(key)
        if value is not None:
            return value
        if default is _REQUIRED:
            self.refuse(key, "is missing" if key not in self._data else "is null; it needs a value")
        return default

    def _wrong(self, key: str, expected: str, value: Any, *, calibration: bool = False) -> NoReturn:
        self.refuse(key, f"must be {expected}; it is {_show(value)}", calibration=calibration)


def _is_number(value: Any) -> bool:
    # JSON integers have no bound; beyond 64 bits none is a sensible value, and some do not fit a float.
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else text[:157] + "..."
