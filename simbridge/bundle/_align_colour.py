"""The scene's rendered colours against the frames it was made from."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np

from recon4d.capture import IngestConfig, ingest
from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.types import Cameras, Scene4D
from simbridge.bundle._colour import apply, fit, gap_db

_INSTANTS = (0.2, 0.5, 0.8)
"""Shares of the clip at which frames are compared."""
_PIXELS = 4000
"""Per picture: colours are few, pixels many."""


def align_colour(
    scene: Scene4D, capture: Path, kind: Literal["affine", "quadratic"]
) -> tuple[np.ndarray, dict[str, Any]]:
    """Fits rendered to real colours over the rig's cameras, each frame at its own time.

    Returns:
        [K, 3], and the image gap in decibel before and after, over the compared pixels.

    Raises:
        CaptureError: the capture cannot be read.
    """
    rendered, real = [], []
    model, draws = Gaussians4D.from_scene(scene), np.random.default_rng(0)
    known = {camera.name: camera for camera in scene.cameras}
    with tempfile.TemporaryDirectory(prefix="simbridge-") as workdir:
        ingested = ingest(capture, IngestConfig(), workdir=Path(workdir))
        for clip in ingested.clips:
            if clip.camera.name not in known:
                continue
            for share in _INSTANTS:
                index = clip.nearest(share * scene.duration_s)
                time_s = float(np.clip(clip.times[index], 0, scene.duration_s))
                camera = known[clip.camera.name]
                output = rasterize(model.at(time_s), Cameras.of(camera), background=scene.background)
                assert output.rgb is not None
                assert output.alpha is not None
                solid = np.flatnonzero((output.alpha[0].detach().numpy() > 0.95) & clip.valid)
                chosen = draws.choice(solid, min(_PIXELS, len(solid)), replace=False)
                rendered.append(np.clip(output.rgb[0].detach().numpy().reshape(-1, 3)[chosen], 0, 1))
                real.append(clip.frames[index].reshape(-1, 3)[chosen] / 255.0)
    first, second = np.concatenate(rendered).astype(np.float64), np.concatenate(real)
    matrix = fit(first, second, kind)
    facts = {
        "kind": kind,
        "pixels": len(first),
        "gap_before_db": gap_db(first, second),
        "gap_after_db": gap_db(apply(matrix, first), second),
    }
    return matrix, facts
