"""The report: one HTML file that needs nothing beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from recon4d.capture import Division
from recon4d.errors import OutputError
from recon4d.files import write_atomic
from recon4d.show import _facts, _figures, _pictures
from recon4d.show._painter import Painter
from recon4d.types import Scene4D

_EMBEDDED_BYTES = 4_000_000
"""Videos are put into the page in their order while all of them together are smaller than this; others are linked."""
_PER_CAMERA = 4
"""Frames that are compared a camera and set."""


@dataclass(frozen=True, kw_only=True)
class ReportInputs:
    """What a report is made of. Only the scene is needed; parts without their input are left out and said to be."""

    scene: Scene4D
    division: Division | None = None
    """The capture, divided; gives the table of inputs and the true frames."""
    scores: Mapping[str, Any] | None = None
    """What ``recon4d.score.score`` returned."""
    events: Sequence[Mapping[str, Any]] = ()
    """The run's events, as the lines of ``events.jsonl``."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage; without it those of the events are taken."""
    videos: Mapping[str, Path] = field(default_factory=dict)
    """Videos by the title to show."""
    title: str = "Reconstruction"
    """Headline; the capture's name is a good one."""


def report(inputs: ReportInputs, path: Path | str) -> Path:
    """Writes the report as one HTML file: pictures and plots inside, no script, no request to anywhere.

    Returns:
        The path.

    Raises:
        OutputError: the file cannot be written, or a video cannot be read.
    """
    path = Path(path)
    pages = Environment(
        loader=PackageLoader("recon4d.show", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["db"] = lambda value: "–" if value is None else f"{value:.2f}"
    pages.filters["ratio"] = lambda value: "–" if value is None else f"{value:.4f}"
    return write_atomic(path, pages.get_template("report.html").render(_content(inputs, path)))


def _content(inputs: ReportInputs, path: Path) -> dict[str, Any]:
    scene = inputs.scene
    events = [dict(event) for event in inputs.events]
    scores = dict(inputs.scores) if inputs.scores is not None else None
    division = inputs.division
    cameras = _facts.camera_facts(division.heldout, division.train) if division else []
    timings = _facts.stage_timings(dict(inputs.timings), events)
    painter = Painter(scene)
    heldout = {camera.name for camera in cameras if camera.heldout}
    scored = [row["camera"] for row in scores["per_time"]] if scores else []
    colour_of = _figures.colours([*(camera.name for camera in scene.cameras), *scored])
    return {
        "title": inputs.title,
        "scene": scene,
        "scores": scores,
        "sets": _facts.SETS,
        "predictors": _facts.PREDICTORS,
        "predicted_for": _facts.predicted_for,
        "findings": _facts.findings(scores, cameras, events),
        "score_rows": _facts.score_rows(scores) if scores else [],
        "comparisons": _comparisons(painter, inputs, scores),
        "time_plots": _time_plots(scores, colour_of),
        "cameras": cameras,
        "layout": _figures.layout(scene.cameras, heldout, scene.plane, colour_of) if scene.cameras else None,
        "key": colour_of,
        "curves": _figures.curves(events),
        "depths": _pictures.depths(painter),
        "lives": _figures.life_spans(scene.dynamic, scene.duration_s),
        "sizes": _figures.sizes(scene),
        "videos": _videos(inputs.videos, path),
        "timings": timings,
        "total_s": sum(timings.values()),
        "config": json.dumps(scene.config, indent=2, ensure_ascii=False, default=str) if scene.config else "",
        "environment": _facts.environment(),
    }


def _comparisons(painter: Painter, inputs: ReportInputs, scores: dict[str, Any] | None) -> dict[str, list[Any]]:
    if scores is None or inputs.division is None:
        return {}
    heldout = inputs.division.heldout.exposed(inputs.scene.exposures)
    made = {
        which: _pictures.comparisons(painter, heldout, scores["per_time"], which, _PER_CAMERA)
        for which in ("heldout_cameras", "heldout_times")
    }
    return {which: pictures for which, pictures in made.items() if pictures}


def _time_plots(scores: dict[str, Any] | None, colour_of: dict[str, str]) -> dict[str, Any]:
    if scores is None:
        return {}
    plots = {which: _figures.psnr_over_time(scores["per_time"], which, colour_of) for which in _facts.SETS}
    return {which: plot for which, plot in plots.items() if plot is not None}


def _videos(videos: Mapping[str, Path], page: Path) -> list[dict[str, Any]]:
    """Title, link relative to the page, and the video itself while there is room."""
    made: list[dict[str, Any]] = []
    room = _EMBEDDED_BYTES
    for title, video in videos.items():
        try:
            size = video.stat().st_size
            data = video.read_bytes() if size < room else None
        except OSError as error:
            raise OutputError(
                f"the video {video} for the report cannot be read: {error.strerror}; draw it again"
            ) from error
        room -= size if data else 0
        link = quote(Path(os.path.relpath(video.resolve(), page.resolve().parent)).as_posix())
        made.append({"title": title, "link": link, "data": _pictures.data_uri(data, "video/mp4") if data else None})
    return made
