"""Tables and sentences of the report: what went in, what came out, what to look at."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from recon4d.types import Capture, Clip

_WIDE_GAP = 1.8
"""A step between frames that is this many times the usual one is a gap: a frame is missing."""
_FALL_DB = 2.0
"""Differences larger than this are worth a sentence."""

SETS = {
    "heldout_cameras": "Held-out cameras",
    "heldout_times": "Held-out times",
    "train": "Training frames",
}
PREDICTORS = {
    "neighbour_mean": "mean of the two neighbouring training frames",
    "previous_frame": "previous training frame",
    "temporal_median": "temporal median",
}


@dataclass(frozen=True, kw_only=True)
class CameraFacts:
    """A row of the table of inputs."""

    name: str
    size: str
    frames: int
    trained: int
    """Frames that training could read; 0 of a held-out camera."""
    fps: float | None
    """Measured: one over the mean step."""
    start_s: float
    """First frame on the original clock."""
    gaps: int
    widest_gap_s: float | None
    heldout: bool


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """A row of the table of scores."""

    label: str
    psnr: float | None
    psnr_moving: float | None
    ssim: float | None
    images: int
    ours: bool
    indent: bool = False


def camera_facts(heldout: Capture, train: Capture) -> list[CameraFacts]:
    trained = {clip.camera.name: len(clip) for clip in train.clips}
    return [_camera(clip, heldout.clock_offset_s, trained.get(clip.camera.name)) for clip in heldout.clips]


def _camera(clip: Clip, clock_offset_s: float, trained: int | None) -> CameraFacts:
    steps = np.diff(clip.times)
    return CameraFacts(
        name=clip.camera.name,
        size=f"{clip.camera.width} × {clip.camera.height}",
        frames=len(clip),
        trained=trained or 0,
        fps=float(1 / steps.mean()) if len(steps) else None,
        start_s=float(clip.times[0] + clock_offset_s) if len(clip) else float("nan"),
        gaps=int((steps > _WIDE_GAP * np.median(steps)).sum()) if len(steps) else 0,
        widest_gap_s=float(steps.max()) if len(steps) else None,
        heldout=trained is None,
    )


def score_rows(scores: dict[str, Any]) -> list[ScoreRow]:
    """The sets with their cameras, each with the predictors that need no model below it."""
    rows: list[ScoreRow] = []
    for key, label in SETS.items():
        entry = scores.get(key)
        if entry is None:
            continue
        rows.append(_row(label, entry, ours=True))
        rows += [_row(name, camera, ours=True, indent=True) for name, camera in entry["cameras"].items()]
        rows += [
            _row(f"without a model: {PREDICTORS[name]}", predicted, ours=False)
            for name, predicted in predicted_for(scores, key).items()
        ]
    return rows


def predicted_for(scores: dict[str, Any], which: str) -> dict[str, dict[str, Any]]:
    """Scores of the predictors that say something about a set."""
    predictors = scores.get("predictors") or {}
    if which == "heldout_times":
        return {name: predictors[name] for name in PREDICTORS if (predictors.get(name) or {}).get("cameras")}
    own = (predictors.get("temporal_median") or {}).get("heldout_cameras")
    return {"temporal_median": own} if which == "heldout_cameras" and own else {}


def _row(label: str, entry: dict[str, Any], *, ours: bool, indent: bool = False) -> ScoreRow:
    images = entry["images"] if "images" in entry else sum(c["images"] for c in entry["cameras"].values())
    numbers = {name: entry[name] for name in ("psnr", "psnr_moving", "ssim")}
    return ScoreRow(label=label, images=images, ours=ours, indent=indent, **numbers)


def findings(
    scores: dict[str, Any] | None, cameras: Sequence[CameraFacts], events: Sequence[dict[str, Any]]
) -> list[str]:
    """What a reader should know first, as sentences."""
    said: list[str] = []
    for key, label in SETS.items():
        entry = (scores or {}).get(key)
        if scores is None or entry is None:
            continue
        said += _against_predictors(scores, key, label)
        weakest = min(entry["cameras"].items(), key=lambda item: item[1]["psnr"])
        if len(entry["cameras"]) > 1 and entry["psnr"] - weakest[1]["psnr"] > _FALL_DB:
            said.append(
                f"{label}: {weakest[0]} is the weakest camera,"
                f" {entry['psnr'] - weakest[1]['psnr']:.1f} dB below the mean."
            )
    said += _falls(scores or {})
    gaps = [f"{c.name} ({c.gaps}, up to {c.widest_gap_s * 1e3:.0f} ms)" for c in cameras if c.gaps and c.widest_gap_s]
    if gaps:
        said.append(f"Gaps between frames: {', '.join(gaps)}.")
    said += [str(event["message"]) for event in events if event.get("event") == "warned"]
    return list(dict.fromkeys(said))


def _falls(scores: dict[str, Any]) -> list[str]:
    """Where the scene does much worse than in what it was fitted to."""
    said = []
    for key, than, pixels, number, why in (
        ("heldout_times", "train", " over moving pixels", "psnr_moving", "motion between frames is guessed"),
        ("heldout_cameras", "heldout_times", "", "psnr", "the geometry holds only for the cameras that were fitted"),
    ):
        worse, better = ((scores.get(name) or {}).get(number) for name in (key, than))
        if worse is not None and better is not None and better - worse > _FALL_DB:
            said.append(f"{SETS[key]} lie {better - worse:.1f} dB below {SETS[than].lower()}{pixels}: {why}.")
    return said


def _against_predictors(scores: dict[str, Any], key: str, label: str) -> list[str]:
    """A sentence for every predictor that beats the scene."""
    said = []
    for name, predicted in predicted_for(scores, key).items():
        ahead = []
        for number, pixels in (("psnr", "all pixels"), ("psnr_moving", "moving pixels")):
            ours, theirs = scores[key][number], predicted[number]
            if ours is not None and theirs is not None and ours < theirs:
                ahead.append(f"{theirs - ours:.1f} dB over {pixels}")
        if ahead:
            said.append(f"{label}: the {PREDICTORS[name]} beats the scene by {' and '.join(ahead)}.")
    return said


def stage_timings(timings: dict[str, float], events: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Seconds by stage: those given, else those that the events tell."""
    if timings:
        return timings
    return {str(e["stage"]): float(e["seconds"]) for e in events if e.get("event") == "finished" and "seconds" in e}


def environment() -> dict[str, str]:
    return {
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
        "NumPy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processors": str(os.cpu_count()),
        "threads": str(torch.get_num_threads()),
    }
