"""Several captures, one after the other."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from recon4d.errors import ConfigError, OutputError, Recon4DError, Stopped
from recon4d.events import OnEvent, ShouldStop, ignore, never
from recon4d.reconstruct._config import ReconstructConfig
from recon4d.reconstruct._reconstruct import reconstruct


@dataclass(frozen=True, kw_only=True)
class BatchItem:
    """What became of one capture of a batch; a line of ``results.jsonl``."""

    capture: str
    out: str
    ok: bool
    exit_code: int
    error: str | None = None
    scores: dict[str, Any] | None = None


def read_manifest(path: Path) -> list[Path]:
    """Capture folders named by a file: a JSON list of paths, or text with one path a line and # comments.

    Paths are relative to the manifest.

    Raises:
        ConfigError: the file is no such list, or names nothing.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read as a manifest: {error}; give capture folders, or a .json or .txt list of them"
        ) from error
    if path.suffix == ".json":
        try:
            names = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"the manifest {path} is no JSON: {error}") from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f'the manifest {path} must be a JSON list of capture folders, such as ["a", "b"]')
    else:
        names = [line.split("#")[0].strip() for line in text.splitlines()]
    captures = [path.parent / name for name in names if name]
    if not captures:
        raise ConfigError(f"the manifest {path} names no capture")
    return captures


def batch(
    captures: Sequence[Path],
    out: Path,
    config: ReconstructConfig | None = None,
    *,
    device: torch.device | str = "cpu",
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> Iterator[BatchItem]:
    """Reconstructs each capture into a folder of its own name under ``out``, going on after a failure.

    Every result is yielded and appended to ``out/results.jsonl`` as soon as it is known. A stop request ends the
    present capture with a checkpoint and leaves out the rest.

    Raises:
        OutputError: ``out`` cannot be written.
    """
    _append(out / "results.jsonl")
    for capture, target in zip(captures, _targets(captures, out), strict=True):
        try:
            result = reconstruct(capture, target, config, device=device, on_event=on_event, should_stop=should_stop)
            item = BatchItem(capture=str(capture), out=str(target), ok=True, exit_code=0, scores=result.scores)
        except Recon4DError as error:
            item = BatchItem(
                capture=str(capture), out=str(target), ok=False, exit_code=error.exit_code, error=str(error)
            )
        _append(out / "results.jsonl", item)
        yield item
        if item.exit_code == Stopped.exit_code:
            return


def _append(path: Path, *items: BatchItem) -> None:
    """Adds a line for each item; without any, says early whether that would be possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(item)) + "\n" for item in items)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; choose another --out") from error


def _targets(captures: Sequence[Path], out: Path) -> list[Path]:
    """One folder a capture; equal names are numbered."""
    targets: list[Path] = []
    for capture in captures:
        name = capture.resolve().name
        numbered = (out / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
        targets.append(next(target for target in numbered if target not in targets))
    return targets
