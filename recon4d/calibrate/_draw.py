"""Pictures of a calibration: the rig from above and from the side, and what each camera was shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from recon4d.calibrate._result import Calibrated
from recon4d.capture import RigCamera
from recon4d.files import replacing

_INK, _BOARD, _GRID = "#1f2a37", "#f59e0b", "#e5e7eb"
_COLOURS = ("#2563eb", "#dc2626", "#059669", "#7c3aed", "#db2777", "#0891b2", "#65a30d", "#9a3412")
_VIEWS = (("from above", 0, 1), ("from the front", 0, 2), ("from the side", 1, 2))
_AXES = "xyz"
_ERROR_SCALE = 50.0
"""Errors are drawn so many times longer than they are."""


def draw_rig(result: Calibrated, path: Path) -> Path:
    """PNG: cameras as frusta, the board wherever it was, the bench at z = 0 where it is known.

    Raises:
        OutputError: the file cannot be written.
    """
    cameras = result.rig.cameras
    centres = np.stack([one.camera.center_w for one in cameras])
    corners = _board_corners(result)
    reach = 0.18 * max(float(np.ptp(np.concatenate([centres, corners.reshape(-1, 3)]), axis=0).max()), 1e-3)
    frusta = np.stack([_frustum(one, reach) for one in cameras])
    everything = np.concatenate([frusta.reshape(-1, 3), corners.reshape(-1, 3)])
    low, high = everything.min(0) - 0.3 * reach, everything.max(0) + 0.3 * reach
    figure = Figure(figsize=(15, 6.2), dpi=110, layout="constrained")
    for axes, (title, across, up) in zip(figure.subplots(1, 3), _VIEWS, strict=True):
        _paper(axes, title, across, up, low, high)
        axes.add_collection(
            LineCollection(list(corners[:, [0, 1, 2, 3, 0]][:, :, [across, up]]), colors=_BOARD, lw=0.8, alpha=0.6)
        )
        if result.rig.plane is not None and up == 2:
            _bench(axes, result.rig.plane, across, low, high)
        for index, one in enumerate(cameras):
            _camera(axes, one, frusta[index], (across, up), _COLOURS[index % len(_COLOURS)])
    figure.suptitle(_headline(result), fontsize=11, color=_INK)
    return _write(figure, path)


def draw_coverage(result: Calibrated, path: Path) -> Path:
    """PNG: each camera's picture with all points that were used, their errors, and how the board was tilted.

    Raises:
        OutputError: the file cannot be written.
    """
    cameras = result.rig.cameras
    columns = min(-(-len(cameras) // -(-len(cameras) // 4)), 4) if len(cameras) > 4 else min(len(cameras), 2)
    rows = -(-len(cameras) // columns)
    figure = Figure(figsize=(5.4 * columns, 4.0 * rows + 0.4), dpi=110, layout="compressed")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in panels[len(cameras) :]:
        panel.set_visible(False)
    for index, (axes, one) in enumerate(zip(panels, cameras, strict=False)):
        seen, errors = result.seen[index], result.cameras[index]
        colour = _COLOURS[index % len(_COLOURS)]
        axes.set(xlim=(0, one.camera.width), ylim=(one.camera.height, 0), aspect="equal")
        axes.set_xticks([0, one.camera.width], ["0", str(one.camera.width)])
        axes.set_yticks([0, one.camera.height], ["0", str(one.camera.height)])
        axes.tick_params(labelsize=8, colors=_INK, length=0)
        ends = seen.pixels + _ERROR_SCALE * seen.errors_px
        axes.add_collection(LineCollection(list(np.stack([seen.pixels, ends], 1)), colors=colour, lw=0.6, alpha=0.5))
        axes.plot(*seen.pixels.T, ".", ms=2.0, color=_INK, alpha=0.8)
        tilts = np.bincount(seen.tilts, minlength=3)
        axes.set_title(
            f"{one.name}: {errors.used} frames, {errors.coverage:.0%} of the picture\n"
            f"{tilts[0]} frontal, {tilts[1]} tilted, {tilts[2]} strongly tilted",
            fontsize=9,
            color=_INK,
            loc="left",
        )
        for spine in axes.spines.values():
            spine.set_color(_GRID)
    figure.suptitle(
        f"Points of the board; lines are their errors, {_ERROR_SCALE:.0f} times as long", fontsize=10, color=_INK
    )
    return _write(figure, path)


def _headline(result: Calibrated) -> str:
    parts = []
    for camera in result.cameras:
        error = camera.held_out or camera.training
        parts.append(f"{camera.name} {error.median_px:.2f} px" if error else camera.name)
    of = "on instants not fitted" if result.held_out_instants else "on the instants fitted"
    counts = f"{len(result.cameras)} cameras, {len(result.T_world_board)} places of the board"
    return f"{counts}; median errors {of}: {', '.join(parts)}"


def _board_corners(result: Calibrated) -> np.ndarray:
    """[V, 4, 3] in the world."""
    width, height = result.board.size_m
    outline = np.array([[0, 0, 0], [width, 0, 0], [width, height, 0], [0, height, 0.0]])
    T = result.T_world_board
    return outline @ T[:, :3, :3].swapaxes(1, 2) + T[:, None, :3, 3]


def _frustum(one: RigCamera, depth: float) -> np.ndarray:
    """[5, 3]: the optical centre and the corners of the picture at a depth, in the world."""
    camera = one.camera
    pixels = np.array([[0, 0], [camera.width, 0], [camera.width, camera.height], [0, camera.height]], float)
    rays = np.c_[(pixels - camera.K[:2, 2]) / camera.K[[0, 1], [0, 1]], np.ones(4)]
    # A very wide view would hide the rest: what counts is where it looks.
    rays[:, :2] = np.clip(rays[:, :2], -1.2, 1.2)
    points = np.concatenate([np.zeros((1, 3)), depth * rays])
    T = camera.T_world_cam
    return points @ T[:3, :3].T + T[:3, 3]


def _camera(axes: Axes, one: RigCamera, frustum: np.ndarray, plane: tuple[int, int], colour: str) -> None:
    flat = frustum[:, plane]
    lines = [flat[[0, k]] for k in range(1, 5)] + [flat[[1, 2, 3, 4, 1]]]
    axes.add_collection(LineCollection(lines, colors=colour, lw=1.4))
    axes.plot(*flat[0], "o", color=colour, ms=5)
    away = flat[0] - flat[1:].mean(0)
    away = away / max(float(np.linalg.norm(away)), 1e-9)
    axes.annotate(
        one.name, flat[0], xytext=(22 * away[0], 12 * away[1]), textcoords="offset points", ha="center", va="center",
        fontsize=9, color=colour, weight="bold", path_effects=[withStroke(linewidth=3, foreground="white")],
    )  # fmt: skip


def _bench(axes: Axes, plane: np.ndarray, across: int, low: np.ndarray, high: np.ndarray) -> None:
    """The bench as it is cut by the middle of what is drawn."""
    if abs(plane[2]) < 1e-6:
        return
    middle = (low + high) / 2
    ends = np.tile(middle, (2, 1))
    ends[:, across] = low[across], high[across]
    heights = -(ends[:, :2] @ plane[:2] + plane[3]) / plane[2]
    axes.plot(ends[:, across], heights, color=_INK, lw=1.2)
    axes.annotate(
        "bench", (ends[1, across], heights[1]), xytext=(-4, 4), textcoords="offset points", ha="right", fontsize=8
    )


def _paper(axes: Axes, title: str, across: int, up: int, low: np.ndarray, high: np.ndarray) -> None:
    axes.set(xlim=(low[across], high[across]), ylim=(low[up], high[up]), aspect="equal")
    axes.set_title(title, fontsize=10, color=_INK)
    axes.set_xlabel(f"{_AXES[across]} (m)", fontsize=9)
    axes.set_ylabel(f"{_AXES[up]} (m)", fontsize=9)
    axes.grid(color=_GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _write(figure: Figure, path: Path) -> Path:
    FigureCanvasAgg(figure)
    with replacing(path) as temporary, temporary.open("wb") as file:
        figure.savefig(file, format="png", bbox_inches="tight", pad_inches=0.1)
    return path
