"""The sample with clocks that a test makes up, so that what they are is known."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from recon4d.capture import frames, read_sources
from tests import bench


def true_times() -> dict[str, np.ndarray]:
    """When each frame of the sample was taken, of each camera, in seconds."""
    with np.load(bench.SAMPLE / "truth.npz") as truth:
        names = [source.name for source in read_sources(bench.SAMPLE)]
        return {name: truth[f"times_s_{name}"] for name in names}


def own_times(clocks: Mapping[str, tuple[float, float]]) -> dict[str, np.ndarray]:
    """What clocks that are (rate, offset in seconds) say of the sample's frames, from each one's own start."""
    true = true_times()
    return {name: (true[name] - true[name][0]) * rate + offset for name, (rate, offset) in clocks.items()}


def write_sample(
    folder: Path, times: Mapping[str, Sequence[float] | np.ndarray | None], mirrored: Sequence[str] = ()
) -> Path:
    """The sample's cameras that ``times`` names with these timestamps, or with the container's for None."""
    folder.mkdir(parents=True)
    manifest: dict[str, Any] = json.loads((bench.SAMPLE / "capture.json").read_text())
    manifest["cameras"] = [camera for camera in manifest["cameras"] if camera["name"] in times]
    manifest["heldout"] = {"cameras": [name for name in manifest["heldout"]["cameras"] if name in times]}
    for camera in manifest["cameras"]:
        name, video = camera["name"], camera["video"]
        camera.pop("time_offset_s", None)
        camera.pop("timestamps", None)
        if (own := times[name]) is not None:
            camera["timestamps"] = f"{name}.json"
            (folder / f"{name}.json").write_text(json.dumps([float(t) for t in own]))
        if name in mirrored:
            seen = list(frames(bench.SAMPLE / video))
            pictures = np.stack([picture[:, ::-1] for _, picture in seen])
            bench.encode(folder / video, pictures, np.array([t for t, _ in seen]))
        else:
            try:
                os.link(bench.SAMPLE / video, folder / video)
            except OSError:
                shutil.copyfile(bench.SAMPLE / video, folder / video)
    (folder / "capture.json").write_text(json.dumps(manifest))
    return folder


def errors_in_frames(folder: Path, reference: str) -> dict[str, np.ndarray]:
    """Errors of a synchronised sample in frames: of each camera, for each of its frames while the reference films."""
    true = true_times()
    on_clock: dict[str, np.ndarray] = {}
    for source in read_sources(folder):
        own = source.times
        if own is None:
            own = np.array([t for t, _ in frames(source.video)], np.float64)
        on_clock[source.name] = own * source.time_scale + source.time_offset_s
    found: dict[str, np.ndarray] = {}
    for name, times in on_clock.items():
        right = np.interp(true[name], true[reference], on_clock[reference], left=np.nan, right=np.nan)
        off = (times - right) / np.median(np.diff(times))
        found[name] = off[np.isfinite(off)]
    return found


@pytest.fixture(scope="session")
def sample() -> SimpleNamespace:
    """The makers above."""
    return SimpleNamespace(write=write_sample, own_times=own_times, errors=errors_in_frames, true_times=true_times)
