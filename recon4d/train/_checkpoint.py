"""Checkpoints: named tensors and a little JSON, in one file that appears whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from recon4d.errors import OutputError


def write(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Writes beside the target, then renames.

    Raises:
        OutputError: the disk is full or the folder cannot be written.
    """
    temporary = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(
            {k: v.detach().cpu().contiguous() for k, v in tensors.items()}, temporary, {"facts": json.dumps(facts)}
        )
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(
            f"cannot write the checkpoint {path}: {error}; free some space or choose another folder"
        ) from error


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The checkpoint's tensors and facts; None when there is none.

    Raises:
        OutputError: the file is there but damaged.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["facts"])  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise OutputError(f"the checkpoint {path} is damaged ({error}); delete it to start this stage again") from error


def rng_state(rng: np.random.Generator) -> dict[str, Any]:
    """JSON-able state of a PCG64 generator."""
    return dict(rng.bit_generator.state)
