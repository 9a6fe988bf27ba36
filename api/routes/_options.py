"""What a reconstruction may be told, read from the engine's own configuration classes."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args


@cache
def options() -> dict[str, Any]:
    """Presets, and the values that have one type: name, type, default by preset, and the docstring under the field."""
    from recon4d.reconstruct import Preset, ReconstructConfig

    presets = list(get_args(Preset))
    configs = {name: ReconstructConfig.of(name) for name in presets}
    found: dict[str, dict[str, Any]] = {}
    for preset, config in configs.items():
        for name, value, help in _values(config, ""):
            entry = {"name": name, "type": type(value).__name__, "defaults": {}, "help": help}
            found.setdefault(name, entry)["defaults"][preset] = value
    return {"presets": presets, "options": list(found.values())}


def _values(config: Any, prefix: str) -> Iterator[tuple[str, Any, str]]:
    helps = _docstrings(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            yield from _values(value, f"{prefix}{field.name}.")
        elif isinstance(value, bool | int | float | str):
            yield f"{prefix}{field.name}", value, helps.get(field.name, "")


def _docstrings(kind: type) -> dict[str, str]:
    """By field: the string that stands under it in the class's source."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[ast.unparse(field.target)] = " ".join(str(below.value.value).split())
    return found
