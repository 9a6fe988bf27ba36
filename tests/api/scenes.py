"""A scene folder as the engine leaves it, small enough to be made in a moment."""

from __future__ import annotations

import json
from pathlib import Path

from recon4d.scene import save
from tests.recon4d.show.world import scene

SCORES = {"train": {"psnr": 30.5}, "splats": 5, "per_time": [{"camera": "a", "psnr": 30.5}]}


def scene_folder(folder: Path) -> Path:
    """Writes the scene with its scores, a report, and what a run leaves beside them."""
    save(scene(), folder)
    (folder / "scores.json").write_text(json.dumps(SCORES), "utf-8")
    (folder / "report.html").write_text("<!doctype html><title>report</title>", "utf-8")
    (folder / "videos").mkdir()
    (folder / "videos" / "rig.mp4").write_bytes(bytes(range(256)) * 40)
    (folder / "work").mkdir()
    (folder / "work" / "joint.safetensors").write_bytes(b"checkpoint")
    (folder / ".lock").touch()
    return folder
