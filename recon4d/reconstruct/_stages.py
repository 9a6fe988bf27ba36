"""Results of stages on disk: tensors with the key of what they depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from recon4d.errors import OutputError
from recon4d.files import read_tensors, write_tensors
from recon4d.types import DynamicPool, StaticPool

Pool = TypeVar("Pool", StaticPool, DynamicPool)


def keep(path: Path, key: str, seconds: Mapping[str, float], tensors: Mapping[str, Tensor]) -> None:
    """Saves what a stage made, and how long it and its like took.

    Raises:
        OutputError: it cannot be written.
    """
    write_tensors(path, dict(tensors), {"key": key, "seconds": dict(seconds)})


def recall(path: Path, key: str) -> tuple[dict[str, Tensor], dict[str, float]] | None:
    """A stage's tensors and seconds, when they were made from the same inputs; else None.

    A damaged file counts as absent: the stage is simply done again.
    """
    try:
        found = read_tensors(path)
    except OutputError:
        return None
    if found is None or found[1].get("key") != key:
        return None
    return found[0], found[1]["seconds"]


def pool_of(kind: type[Pool], tensors: dict[str, Tensor]) -> Pool:
    """The pool among a stage's tensors."""
    return kind(**{field.name: tensors[field.name] for field in fields(kind)})
