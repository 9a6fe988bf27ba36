"""Times: timestamp files, the common clock, and gaps. Nothing here ever uses a frame rate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from recon4d.capture._findings import Inspection

_VARIABLE = 0.25
"""Spread of the middle nine tenths of intervals, over the usual one, from which a rate is called variable."""


def read_timestamps(folder: Path, file: str, camera: str, inspection: Inspection) -> np.ndarray:
    """[F] float64 seconds from a timestamp file, strictly increasing."""
    try:
        text = (folder / file).read_text("utf-8-sig")
    except FileNotFoundError:
        inspection.error(
            "the timestamp file is missing", "add it, or correct 'timestamps' in capture.json", camera=camera, file=file
        )
    except (OSError, UnicodeDecodeError) as error:
        inspection.error(f"the timestamp file cannot be read: {error}", camera=camera, file=file)
    advice = 'a JSON list, {"timestamps": [...]}, or one number a line, in seconds'
    if not text.strip():
        inspection.error("the timestamp file is empty", f"it needs {advice}", camera=camera, file=file)
    if text.lstrip()[0] in "[{":
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            inspection.error(f"is not JSON: {error.msg} at line {error.lineno}", advice, camera=camera, file=file)
        values = values.get("timestamps") if isinstance(values, dict) else values
        if not isinstance(values, list):
            inspection.error("holds no list of timestamps", f"it needs {advice}", camera=camera, file=file)
    else:
        values = text.split()
    times = np.full(len(values), np.nan)
    for index, value in enumerate(values):
        try:
            times[index] = float(value)
        except (TypeError, ValueError, OverflowError):
            inspection.error(f"entry {index} is {value!r}, no number", advice, camera=camera, file=file)
    check_times(times, camera, file, inspection)
    return times


def check_times(times: np.ndarray, camera: str, file: str, inspection: Inspection) -> None:
    """Times must be finite and strictly increasing."""
    bad = np.flatnonzero(~np.isfinite(times))
    if len(bad):
        inspection.error(
            f"the time of frame {bad[0]} is {times[bad[0]]}",
            "every frame needs a finite time",
            camera=camera,
            file=file,
        )
    back = np.flatnonzero(np.diff(times) <= 0)
    if len(back):
        i = int(back[0])
        inspection.error(
            f"times must increase strictly; frame {i} has {times[i]:.6f} s and frame {i + 1} has {times[i + 1]:.6f} s",
            "sort out which clock was written, or remove the repeated frames",
            camera=camera,
            file=file,
        )


def common_time(times: dict[str, np.ndarray], inspection: Inspection) -> tuple[float, float]:
    """First and last instant that every camera covers, on the original clock."""
    start = max(float(t[0]) for t in times.values())
    end = min(float(t[-1]) for t in times.values())
    if end <= start:
        spans = "; ".join(f"'{name}' {t[0]:.3f} to {t[-1]:.3f} s" for name, t in times.items())
        inspection.error(
            f"the cameras have no common time: {spans}",
            "check that all share one clock; `recon4d sync` finds their offsets",
        )
    for name, t in times.items():
        if not ((t >= start) & (t <= end)).any():
            inspection.error(
                f"has no frame in the time that all cameras cover, {start:.3f} to {end:.3f} s",
                "the whole of it falls into a gap of this camera; record again",
                camera=name,
            )
    return start, end


def check_rhythm(times: np.ndarray, camera: str, file: str, gap_factor: float, inspection: Inspection) -> None:
    """Warns of gaps, and of intervals that hardly are seconds; notes intervals that vary."""
    if len(times) < 3:
        return
    steps = np.diff(times)
    usual = float(np.median(steps))
    if not 1e-3 <= usual <= 2.0:
        inspection.warn(
            f"frames are {usual:.4g} s apart, which is {1 / usual:.4g} frames a second",
            "check that the times are in seconds",
            camera=camera,
            file=file,
        )
    short, long = np.quantile(steps, [0.05, 0.95])
    if long - short > _VARIABLE * usual:
        inspection.note(
            f"its frames are {short:.4f} to {long:.4f} s apart (variable rate); each keeps its own time",
            camera=camera,
            file=file,
        )
    gaps = np.flatnonzero(steps > gap_factor * usual)
    if len(gaps):
        worst = int(gaps[np.argmax(steps[gaps])])
        inspection.warn(
            f"{len(gaps)} gap{'s' if len(gaps) > 1 else ''} in the video, the longest of {steps[worst]:.3f} s after"
            f" {times[worst]:.3f} s; frames are usually {usual:.4f} s apart",
            "what moves there is seen by the other cameras only",
            camera=camera,
            file=file,
        )
