"""The capture's description and its truth, as files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bench_generator._config import BenchConfig
from bench_generator._motion import BLOCK_SIZE_M, Motion
from bench_generator._render import Stage
from bench_generator._rig import HELDOUT, RigCamera, clock
from recon4d.types import SplitRule

MIN_RED_EXCESS = 0.2
"""A pixel is the block's when R - max(G, B) exceeds this, colours in [0, 1]."""


def test_times(rig: tuple[RigCamera, ...]) -> np.ndarray:
    """[T] float64 on the capture clock: the instants at which the capture is scored."""
    return SplitRule().test_times(clock(rig)[1])


def block_colour_mask(image: np.ndarray) -> np.ndarray:
    """[H, W] bool of an image [H, W, 3] in [0, 1]: the pixels that have the block's colour."""
    return image[..., 0] - image[..., 1:].max(-1) > MIN_RED_EXCESS


def write_capture(folder: Path, config: BenchConfig, rig: tuple[RigCamera, ...]) -> None:
    """Writes capture.json and the timestamp files."""
    cameras = []
    for c in rig:
        entry: dict[str, object] = {"name": c.name, "video": f"{c.name}.mp4"}
        if c.has_timestamps:
            entry["timestamps"] = f"{c.name}.timestamps.json"
            stamps = [round(float(t), 6) for t in c.times_s]
            (folder / f"{c.name}.timestamps.json").write_text(json.dumps({"timestamps": stamps}) + "\n", "utf-8")
        else:
            entry["time_offset_s"] = float(c.times_s[0])
        pose = {"convention": "T_cam_world", "axes": "opencv", "matrix": c.camera.T_cam_world.tolist()}
        entry |= {"width": c.camera.width, "height": c.camera.height, "K": c.camera.K.tolist()}
        cameras.append(entry | {"pose": pose, "pixel_center": "half"})
    capture = {
        "version": 1,
        "name": f"bench-{config.seed}",
        "notes": "Synthetic: drawn by MuJoCo. A robot arm carries a red block over a bench.",
        "bench_plane": [0.0, 0.0, 1.0, 0.0],
        "heldout": {"cameras": list(HELDOUT)},
        "cameras": cameras,
    }
    (folder / "capture.json").write_text(json.dumps(capture, indent=1) + "\n", "utf-8")


def write_truth(folder: Path, config: BenchConfig, motion: Motion, rig: tuple[RigCamera, ...], stage: Stage) -> None:
    """Writes truth.json (small facts) and truth.npz (tracks, depths, masks). Times are on the capture clock."""
    zero, duration = clock(rig)
    instants = test_times(rig)
    track = np.arange(int(duration * 100) + 1) / 100
    arrays: dict[str, np.ndarray] = {
        "block_times_s": track,
        "T_world_block": np.array([motion.T_world_block(t + zero) for t in track]),
        "test_times_s": instants,
        "T_world_block_test": np.array([motion.T_world_block(t + zero) for t in instants]),
    }
    for c in rig:
        frames = [int(np.argmin(np.abs(c.times_s - zero - t))) for t in instants]
        arrays[f"frames_{c.name}"] = np.array(frames)
        arrays[f"times_s_{c.name}"] = c.times_s - zero
        arrays[f"depth_{c.name}"] = np.array([stage.depth(c, c.times_s[i]) for i in frames], np.float16)
        arrays[f"block_mask_{c.name}"] = np.array([stage.block_mask(c, c.times_s[i]) for i in frames])
    np.savez_compressed(folder / "truth.npz", allow_pickle=False, **arrays)
    facts = {
        "config": asdict(config),
        "clock_offset_s": zero,
        "duration_s": duration,
        "test_times_s": instants.tolist(),
        "block": {"size_m": BLOCK_SIZE_M.tolist(), "min_red_excess": MIN_RED_EXCESS},
        "cameras": {c.name: {"gain": c.gain, "center_m": c.camera.center_w.tolist(), "fps": c.fps} for c in rig},
    }
    (folder / "truth.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
