"""Whole captures through the command line, as a user would run it: seconds, scores and memory beside their targets.

    python -m tests.benchmarks.scenes [--only NAME ...] [--seeds 11 12 13]

The sample is drawn anew with seeds that nobody tuned on; without an OpenGL to draw it with, the one that ships is
taken. With ``RECON4D_TEST_DATA`` set, the real capture ``embodied_pusht`` in that folder is imported and reconstructed
too. A name is that of a capture (``bench-11``), or of a run (``bench-11-fast``); ``*`` and ``?`` match as in a shell.
``--only bench`` takes the sample that ships.

Prints a table a run and writes ``build/scenes.json``: a list of ``{name, preset, seconds, heldout_cameras,
heldout_times, predictors, peak_anonymous_mib, block_iou, block_second_blob_px, splats, others_cores, targets}``.
``seconds`` go from the start of the command until the scene is saved; scores, films and the report come after.
All of it takes three quarters of an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from recon4d.capture import divide, ingest
from recon4d.files import write_atomic
from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.scene import load
from recon4d.types import Cameras, Scene4D
from tests.benchmarks._machine import Others, note

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "scenes.json"
WORK = ROOT / "build" / "scenes"
SHIPPED = ROOT / "samples" / "bench"
RECON4D = [sys.executable, "-m", "recon4d"]
"""The ``recon4d`` command of this environment."""
NO_GRAPHICS = 3
"""The generator's exit status without MuJoCo or OpenGL."""


@dataclass(frozen=True)
class Target:
    """What a figure of a run must reach."""

    measure: str
    """Where it lies in the run's row, such as ``heldout_cameras.psnr``."""
    sense: str
    """">=" or "<="."""
    limit: float

    def judge(self, row: dict[str, Any]) -> dict[str, Any]:
        """The target with the figure reached; one that could not be measured is missed."""
        value = figure(row, self.measure)
        reached = value is not None and (value >= self.limit if self.sense == ">=" else value <= self.limit)
        return {"measure": self.measure, "sense": self.sense, "limit": self.limit, "value": value, "reached": reached}


MEMORY = Target("peak_anonymous_mib", "<=", 3072)
SAMPLE = {
    "fast": (Target("seconds", "<=", 120), MEMORY),
    "balanced": (
        Target("seconds", "<=", 360),
        Target("heldout_cameras.psnr", ">=", 30),
        Target("heldout_cameras.psnr_moving", ">=", 24),
        Target("block_iou", ">=", 0.85),
        Target("block_second_blob_px", "<=", 20),
        MEMORY,
    ),
}
REAL = {
    "balanced": (
        Target("seconds", "<=", 360),
        Target("heldout_times.psnr", ">=", 28),
        Target("heldout_times.psnr_moving", ">=", 19),
        MEMORY,
    ),
    "quality": (
        Target("seconds", "<=", 900),
        Target("heldout_times.psnr", ">=", 29),
        Target("heldout_times.psnr_moving", ">=", 20),
        MEMORY,
    ),
}
"""By preset. The real capture has three cameras and holds none of them out."""
SHOWN = (
    "seconds",
    "heldout_cameras.psnr",
    "heldout_cameras.psnr_moving",
    "heldout_times.psnr",
    "heldout_times.psnr_moving",
    "block_iou",
    "block_second_blob_px",
    "peak_anonymous_mib",
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One capture with one preset."""

    name: str
    capture: Path
    preset: str
    targets: tuple[Target, ...]

    @property
    def label(self) -> str:
        return f"{self.name}-{self.preset}"


def figure(row: dict[str, Any], measure: str) -> float | None:
    """A figure of a row by its dotted name; None where there is none."""
    value: Any = row
    for part in measure.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def matches(run: Run, only: Iterable[str]) -> bool:
    return not only or any(fnmatch(run.label, pattern) or fnmatch(run.name, pattern) for pattern in only)


def choose(only: list[str], seeds: list[int]) -> list[Run]:
    """The runs that were asked for; their captures need not be there yet."""
    captures = {f"bench-{seed}": (WORK / "captures" / f"bench-{seed}", SAMPLE) for seed in seeds}
    if {"bench", *(f"bench-{preset}" for preset in SAMPLE)} & set(only):
        captures["bench"] = (SHIPPED, SAMPLE)
    if os.environ.get("RECON4D_TEST_DATA"):
        captures["embodied_pusht"] = (WORK / "captures" / "embodied_pusht", REAL)
    runs = [
        Run(name=name, capture=capture, preset=preset, targets=targets)
        for name, (capture, presets) in captures.items()
        for preset, targets in presets.items()
    ]
    chosen = [run for run in runs if matches(run, only)]
    if not chosen:
        raise SystemExit(f"--only {' '.join(only)} matches none of: {', '.join(run.label for run in runs)}")
    return chosen


def prepare(runs: list[Run]) -> list[Run]:
    """Makes the runs' captures. Without OpenGL the sample that ships stands for all drawn ones."""
    ready: list[Run] = []
    for name in dict.fromkeys(run.name for run in runs):
        these = [run for run in runs if run.name == name]
        capture = these[0].capture
        if name == "embodied_pusht":
            shutil.rmtree(capture, ignore_errors=True)
            source = Path(os.environ["RECON4D_TEST_DATA"]) / name
            subprocess.run([*RECON4D, "import", "pusht-embodied", str(source), "--out", str(capture)], check=True)
        elif capture != SHIPPED and not draw(name, capture):
            these = [Run(name="bench", capture=SHIPPED, preset=run.preset, targets=run.targets) for run in these]
        ready += [run for run in these if run not in ready]
    return ready


def draw(name: str, capture: Path) -> bool:
    """Draws the sample of a seed; False where there is nothing to draw with."""
    command = [sys.executable, str(ROOT / "samples" / "make_bench.py"), "--out", str(capture)]
    done = subprocess.run([*command, "--seed", name.removeprefix("bench-")], stdout=subprocess.DEVNULL, check=False)
    if done.returncode != NO_GRAPHICS:
        done.check_returncode()
    return done.returncode == 0


def measure(run: Run) -> dict[str, Any]:
    """One reconstruction in a fresh folder, and what it reached.

    Raises:
        RuntimeError: the command failed; the message is what it said last.
    """
    out, log = WORK / "runs" / run.label, WORK / "runs" / f"{run.label}.log"
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [*RECON4D, "reconstruct", str(run.capture), "--out", str(out), "--preset", run.preset]
    with Others() as others, log.open("w") as lines:
        began = time.time()
        process = subprocess.Popen(command, cwd=ROOT, stdout=lines, stderr=subprocess.STDOUT)
        polled_mib = watch(process)
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode}; {log} ends with: {log.read_text()[-400:].strip()}")
    scores = json.loads((out / "scores.json").read_text())
    saved = next(
        event
        for event in map(json.loads, (out / "events.jsonl").read_text().splitlines())
        if event["event"] == "saved" and Path(event["path"]) == out  # Checkpoints and films are saved too.
    )
    row = {"name": run.name, "preset": run.preset, "seconds": round(saved["wall_time_s"] - began, 1)}
    row |= {name: summary(scores[name]) for name in ("heldout_cameras", "heldout_times")}
    row["predictors"] = {name: summary(score) for name, score in scores["predictors"].items()}
    row["peak_anonymous_mib"] = round(max(polled_mib, scores["peak_anonymous_mib"]))
    if (run.capture / "truth.json").exists():
        row |= ghosts(load(out), run.capture)
    row |= {"splats": scores["splats"], "others_cores": others.cores}
    return row | {"targets": [target.judge(row) for target in run.targets]}


def watch(process: subprocess.Popen) -> float:
    """Waits for the process; its largest anonymous memory, MiB, looked at from outside; 0 where that cannot be."""
    status, peak_kib = Path(f"/proc/{process.pid}/status"), 0
    while process.poll() is None:
        if status.exists():
            found = [line for line in status.read_text().splitlines() if line.startswith("RssAnon:")]
            peak_kib = max([peak_kib, *(int(line.split()[1]) for line in found)])
        time.sleep(0.1)
    return peak_kib / 1024


def summary(score: dict[str, Any] | None) -> dict[str, float | None] | None:
    """The two means that the targets are about, in decibel."""
    if score is None:
        return None
    return {name: None if score[name] is None else round(score[name], 2) for name in ("psnr", "psnr_moving")}


def ghosts(scene: Scene4D, capture: Path) -> dict[str, Any]:
    """How well the block's colour lies where it should, in all held-out views at all held-out instants.

    ``block_iou`` is the least intersection over union of the true frame's mask and the rendered one's,
    ``block_second_blob_px`` the most pixels of a second connected part of the rendered mask: a ghost, if it is large.
    """
    least = json.loads((capture / "truth.json").read_text())["block"]["min_red_excess"]
    division = divide(ingest(capture))
    model = Gaussians4D.from_scene(scene)
    ious: list[float] = []
    seconds: list[int] = []
    for clip in map(division.heldout.clip, division.heldout.split.heldout_cameras):
        for frame in map(clip.nearest, division.test_times):
            drawn = rasterize(
                model.at(float(clip.times[frame])),
                Cameras.of(clip.camera),
                background=scene.background,
                antialiased=scene.antialiased,
                outputs=("rgb",),
            )
            assert drawn.rgb is not None
            ours = block_mask(drawn.rgb[0].clamp(0, 1).numpy(), least)
            true = block_mask(clip.frames[frame].astype(np.float32) / 255, least)
            ious.append(float((ours & true).sum() / max((ours | true).sum(), 1)))
            areas = cv2.connectedComponentsWithStats(ours.astype(np.uint8))[2][1:, cv2.CC_STAT_AREA]
            seconds.append(int(np.sort(areas)[-2]) if len(areas) > 1 else 0)
    return {"block_iou": round(min(ious), 3), "block_second_blob_px": max(seconds)}


def block_mask(image: np.ndarray, least: float) -> np.ndarray:
    """[H, W] bool of an image [H, W, 3] in [0, 1]: the pixels that have the block's colour."""
    return image[..., 0] - image[..., 1:].max(-1) > least


def table(row: dict[str, Any]) -> str:
    """One run: every figure, its target and whether it was reached; predictors below."""
    targets = {target["measure"]: target for target in row["targets"]}
    lines = [f"{row['name']} {row['preset']}"]
    for name in SHOWN:
        value = figure(row, name)
        if value is None and name not in targets:
            continue
        line = f"  {name:32} {'none' if value is None else f'{value:g}':>9}"
        if name in targets:
            target = targets[name]
            line += f"   target {target['sense']} {target['limit']:g}: {'yes' if target['reached'] else 'NO'}"
        lines.append(line)
    for name, score in row["predictors"].items():
        if score is not None and score["psnr"] is not None:
            moving = "none" if score["psnr_moving"] is None else f"{score['psnr_moving']:.2f}"
            lines.append(f"    held-out times, {name:24} {score['psnr']:.2f} / {moving}")
    return "\n".join([*lines, f"  {note(row['others_cores'])}", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="captures or runs, by name")
    parser.add_argument("--seeds", nargs="+", type=int, default=[11, 12, 13], help="of the sample's generator")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for run in prepare(choose(arguments.only, arguments.seeds)):
        try:
            row = measure(run)
            print(table(row), flush=True)
        except RuntimeError as error:  # The other captures are worth having.
            row = {"name": run.name, "preset": run.preset, "error": str(error)}
            print(f"{run.label}: FAILED, {error}\n", flush=True)
        rows.append(row)
        write_atomic(OUT, json.dumps(rows, indent=1))
    print(f"wrote {OUT}")
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
