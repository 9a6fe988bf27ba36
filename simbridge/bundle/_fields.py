"""Dictionaries, as JSON and TOML give them, to configuration dataclasses: every field checked and named when wrong."""

from __future__ import annotations

import difflib
import math
import types
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from recon4d.errors import ConfigError

T = TypeVar("T")


def build(kind: type[T], value: Any, where: str) -> T:
    """An instance of a dataclass.

    Raises:
        ConfigError: a field is unknown, missing or of another type; names it and what is allowed.
    """
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table of fields; it is {value!r}")
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            raise ConfigError(f"{where}: unknown field '{name}'{hint}; there are {', '.join(known)}")
    required = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    missing = [name for name in required if name not in value]
    if missing:
        raise ConfigError(f"{where}: missing {', '.join(missing)}")
    return kind(**{name: convert(hints[name], item, f"{where}.{name}") for name, item in value.items()})


def convert(kind: Any, value: Any, where: str) -> Any:
    """A value of a field's type.

    Raises:
        ConfigError: it is not one.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return convert(next(a for a in arguments if a is not type(None)), value, where)
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{where} must be one of {', '.join(map(str, arguments))}; it is {value!r}")
        return value
    if origin is tuple:
        return _tuple(arguments, value, where)
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be a table; it is {value!r}")
        return {str(key): convert(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if is_dataclass(kind):
        return build(kind, value, where)  # type: ignore[arg-type]
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ConfigError(f"{where} must be a finite number; it is {value!r}")
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{where} must be of type {kind.__name__}; it is {value!r}")
    return value


def _tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where} must be a list; it is {value!r}")
    if arguments[-1] is Ellipsis:
        return tuple(convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if len(value) != len(arguments):
        raise ConfigError(f"{where} must have {len(arguments)} entries; it has {len(value)}: {value!r}")
    return tuple(convert(a, item, f"{where}[{i}]") for i, (a, item) in enumerate(zip(arguments, value, strict=True)))
