"""``ply-sequence``: a folder of PLY files, one an instant, in order of their numbers, with an index.

``sequence.json`` holds ``{format, version, fps, units, frame, frames: [{file, time_s}]}``. Players that know only
numbered files (``frame_00000.ply`` …) need no index.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import numpy as np

from recon4d.errors import OutputError
from recon4d.export._registry import ExportOptions, Format
from recon4d.export.ply import comments, write_splats
from recon4d.files import write_atomic
from recon4d.model import Gaussians4D
from recon4d.types import Scene4D

INDEX = "sequence.json"


def _write(scene: Scene4D, path: Path, options: ExportOptions) -> Path:
    if path.exists() and not (path.is_dir() and ((path / INDEX).exists() or not any(path.iterdir()))):
        raise OutputError(f"{path} is neither empty nor a PLY sequence; choose another folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
            fresh, stale = Path(scratch) / "new", Path(scratch) / "old"
            _write_frames(scene, fresh, options.fps)
            if path.exists():
                os.replace(path, stale)
            try:
                os.replace(fresh, path)
            except OSError:
                if stale.exists():
                    os.replace(stale, path)
                raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error}; free space or choose another folder") from error
    return path


def _write_frames(scene: Scene4D, folder: Path, fps: float) -> None:
    model = Gaussians4D.from_scene(scene)
    times_s = np.arange(int(np.floor(scene.duration_s * fps + 1e-6)) + 1) / fps
    frames = []
    for number, time_s in enumerate(np.minimum(times_s, scene.duration_s)):
        file = f"frame_{number:05d}.ply"
        write_splats(folder / file, model.at(float(time_s)), comments(scene, float(time_s)))
        frames.append({"file": file, "time_s": float(time_s)})
    index = {
        "format": "recon4d-ply-sequence",
        "version": 1,
        "fps": fps,
        "units": "metre",
        "frame": "right-handed, +Z up",
        "frames": frames,
    }
    write_atomic(folder / INDEX, json.dumps(index, indent=2) + "\n")


FORMAT = Format(
    name="ply-sequence", summary="a folder of PLY files over the whole clip (fps), with an index", write=_write
)
