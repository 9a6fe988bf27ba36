"""What the clocks were found from, as one picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from recon4d.clocks._table import Synchronised
from recon4d.files import replacing

_FRAMES = 4.0
_INCHES = (11.0, 1.9)


def plot(result: Synchronised, path: Path | str) -> Path:
    """Writes a PNG: of each camera, the score over all lags that were searched, and the readings about the result.

    Raises:
        OutputError: the file cannot be written.
    """
    rows = [clock for clock in result.clocks if clock.camera in result.evidence]
    figure = Figure(figsize=(_INCHES[0], _INCHES[1] * max(len(rows), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(max(len(rows), 1), 2, squeeze=False, width_ratios=(3, 1))
    for (search, detail), clock in zip(axes, rows, strict=False):
        seen = result.evidence[clock.camera]
        search.plot(seen.lags_s, seen.score, linewidth=0.8)
        search.set_title(f"{clock.camera} against {seen.against}: {clock.status}", fontsize=9, loc="left")
        search.set_xlabel("lag in seconds", fontsize=8)
        search.set_ylabel("agreement", fontsize=8)
        frames = seen.spread_s / clock.frame_s
        detail.hist(frames, np.linspace(-_FRAMES, _FRAMES, 65), weights=seen.weight)
        detail.set_xlabel("readings about the result, frames", fontsize=8)
        detail.set_yticks([])
        for axis in (search, detail):
            axis.tick_params(labelsize=7)
    path = Path(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=100)
    return path
