"""``recon4d reconstruct``."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from recon4d.commands._device import usable
from recon4d.commands._progress import Painter, stop_on_signal
from recon4d.errors import ConfigError


def reconstruct(
    captures: Annotated[tuple[Path, ...], tyro.conf.Positional],
    /,
    *,
    out: Path,
    preset: Literal["fast", "balanced", "quality"] = "balanced",
    resume: bool = False,
    seed: int | None = None,
    threads: int | None = None,
    device: str = "cpu",
    heldout_cameras: tuple[str, ...] | None = None,
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = (),
    quiet: bool = False,
    json: bool = False,
) -> int:
    """Reconstruct captures into 4D scenes.

    One capture becomes the scene folder --out. Several captures, or a manifest that lists them (a .json list or a
    .txt with one folder a line), are done one after the other into folders under --out; a failure does not keep
    the others from being done, results.jsonl has a line for each, and the exit code is the worst one.

    A second run into the same folder does only what has changed since. Ctrl-C stops with a checkpoint.

    Args:
        captures: capture folders, or one manifest.
        out: scene folder; new, empty, or of an earlier run.
        preset: fast (about two minutes on two cores), balanced (about five), quality (about ten).
        resume: insist on going on with an earlier run.
        seed: of all random choices; results are the same for the same seed.
        threads: CPU threads; all cores when left out. Results do not depend on it.
        device: what to compute on: auto, a name of 'recon4d accelerators list', NAME:INDEX, or a torch device.
        heldout_cameras: cameras to keep from training and score on, instead of those that the capture names.
        set: change any configuration value, such as fit.joint.steps=5000; config.json in the scene lists them.
        quiet: say nothing but warnings, errors and the result.
        json: print events and the result as JSON lines.
    """
    from recon4d import jit
    from recon4d.reconstruct import read_manifest

    if threads is not None:
        cores = os.cpu_count() or 1
        if not 1 <= threads <= cores:
            raise ConfigError(f"--threads is {threads}; it must lie between 1 and {cores}, this machine's cores")
        jit.use_threads(threads)
    device = usable(device)
    config = _config(preset, seed, heldout_cameras, set)
    names = list(captures)
    if not names:
        raise ConfigError("no capture was given; name a folder that holds capture.json")
    is_manifest = len(names) == 1 and names[0].is_file()
    if len(names) > 1 or is_manifest:
        if resume:
            raise ConfigError("--resume is for one capture; several go on with what their folders hold anyway")
        return _several(read_manifest(names[0]) if is_manifest else names, out, config, device, quiet, json)
    return _one(names[0], out, config, device, resume, quiet, json)


def _config(
    preset: Any, seed: int | None, heldout_cameras: tuple[str, ...] | None, assignments: tuple[str, ...]
) -> Any:
    from recon4d.reconstruct import ReconstructConfig

    config = ReconstructConfig.of(preset)
    for assignment in assignments:
        config = config.with_value(assignment)
    if seed is not None:
        config = config.with_value(f"fit.seed={seed}")
    if heldout_cameras is not None:
        config = replace(config, heldout_cameras=heldout_cameras)
    return config


def _one(capture: Path, out: Path, config: Any, device: str, resume: bool, quiet: bool, as_json: bool) -> int:
    from recon4d import reconstruct as room

    with stop_on_signal() as should_stop, Painter(quiet=quiet, as_json=as_json) as on_event:
        result = room.reconstruct(
            capture, out, config, device=device, resume=resume, on_event=on_event, should_stop=should_stop
        )
    if as_json:
        _print_json(
            {"event": "result", "scene": str(result.scene), "report": str(result.report), "scores": result.scores}
        )
    else:
        print_scores(result.scores)
        print(f"scene   {result.scene}\nreport  {result.report}")
    return 0


def _several(captures: list[Path], out: Path, config: Any, device: str, quiet: bool, as_json: bool) -> int:
    from recon4d.reconstruct import batch

    worst = 0
    with stop_on_signal() as should_stop, Painter(quiet=quiet, as_json=as_json) as on_event:
        items = batch(captures, out, config, device=device, on_event=on_event, should_stop=should_stop)
        for item in items:
            _print_json(asdict(item))
            worst = max(worst, item.exit_code)
    return worst


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


def print_scores(scores: dict[str, Any]) -> None:
    """A table of scores, predictors beside, on stdout."""
    table = Table(title="decibel on what training never saw", title_justify="left")
    for column, justify in (("", "left"), ("all", "right"), ("moving", "right"), ("SSIM", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    rows = [(name.replace("_", " "), scores.get(name)) for name in ("heldout_cameras", "heldout_times", "train")]
    rows += [(f"  predictor: {name.replace('_', ' ')}", row) for name, row in (scores.get("predictors") or {}).items()]
    for name, row in rows:
        if row:
            moving = "–" if row.get("psnr_moving") is None else f"{row['psnr_moving']:.2f}"
            table.add_row(name, f"{row['psnr']:.2f}", moving, f"{row['ssim']:.3f}")
    Console().print(table)
