"""Plots of the report, as inline SVG whose ink follows the page's text colour.

Figures use Matplotlib's object interface: pyplot keeps global state and is not safe in threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon4d.show._paths import focus
from recon4d.show._svg import INK, PALETTE, inline_svg
from recon4d.types import Camera, DynamicPool, Scene4D


def curves(events: Sequence[dict[str, Any]]) -> Markup | None:
    """Loss and training PSNR over steps, stage after stage; None where no event holds any."""
    series: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("event") == "progress" and (event.get("loss") is not None or event.get("psnr") is not None):
            series.setdefault(str(event.get("stage")), []).append(event)
    if not series:
        return None
    figure = Figure(figsize=(9.6, 2.7), layout="constrained")
    axes = figure.subplots(1, 2)
    offset = 0
    for index, (stage, points) in enumerate(series.items()):
        colour = PALETTE[index % len(PALETTE)]
        for axis, name in zip(axes, ("loss", "psnr"), strict=True):
            known = [(offset + p["step"], p[name]) for p in points if p.get(name) is not None]
            if known:
                axis.plot(*zip(*known, strict=True), color=colour, lw=1.4, label=stage)
        offset += max(int(p["step"]) for p in points)
    axes[0].set(xlabel="step", ylabel="loss", yscale="log")
    axes[1].set(xlabel="step", ylabel="training PSNR [dB]")
    return inline_svg(figure, "curves", "Loss and training PSNR over the optimisation's steps")


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for every camera, the same in all plots. The page names them: names may be in any script, fonts not."""
    return {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(dict.fromkeys(names))}


def psnr_over_time(per_time: Sequence[dict[str, Any]], which: str, colour_of: dict[str, str]) -> Markup | None:
    """PSNR of every scored frame of a set over time, one line a camera: all pixels and moving pixels."""
    rows = [row for row in per_time if row["set"] == which]
    if not rows:
        return None
    figure = Figure(figsize=(9.6, 2.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for camera in dict.fromkeys(row["camera"] for row in rows):
        for axis, name in zip(axes, ("psnr", "psnr_moving"), strict=True):
            known = [(r["time_s"], r[name]) for r in rows if r["camera"] == camera and r[name] is not None]
            if known:
                x, y = zip(*known, strict=True)
                axis.plot(x, y, "o-", ms=3, lw=1.2, color=colour_of[camera])
    axes[0].set(xlabel="time [s]", ylabel="PSNR [dB]", title="all pixels")
    axes[1].set(xlabel="time [s]", title="moving pixels")
    return inline_svg(figure, f"time-{which}", f"PSNR over time, {which.replace('_', ' ')}")


def layout(cameras: Sequence[Camera], heldout: set[str], plane: np.ndarray | None, colour_of: dict[str, str]) -> Markup:
    """Where the cameras stand and look: from above and from the side, numbered from 1, with the bench plane."""
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    target = focus(cameras, plane)
    reach = float(np.median([np.linalg.norm(camera.center_w - target) for camera in cameras]))
    for axis, (right, up) in zip(figure.subplots(1, 2), ((0, 1), (0, 2)), strict=True):
        for number, camera in enumerate(cameras, start=1):
            colour, dashed = colour_of[camera.name], camera.name in heldout
            _frustum(axis, camera, (right, up), 0.25 * reach, {"color": colour, "ls": "--" if dashed else "-"})
            where = (camera.center_w[right], camera.center_w[up])
            axis.annotate(str(number), where, textcoords="offset points", xytext=(6, 4), fontsize=9, color=INK)
        axis.plot(target[right], target[up], "+", color=INK, ms=9)
        if up == 2 and plane is not None and abs(plane[2]) > 0.1:
            x = np.array(axis.get_xlim())
            axis.plot(x, -(plane[3] + plane[0] * x + plane[1] * target[1]) / plane[2], color=INK, lw=1, alpha=0.6)
        axis.set_aspect("equal", adjustable="datalim")
        axis.set(xlabel="x [m]", ylabel=f"{'xyz'[up]} [m]", title="from above" if up == 1 else "from the side")
    return inline_svg(figure, "layout", "Camera layout from above and from the side", legend=False)


def life_spans(pool: DynamicPool, duration_s: float) -> Markup | None:
    """How long the dynamic Gaussians are visible; None where there are none."""
    if not len(pool):
        return None
    begin = pool.centers_s - pool.radii_s - 2 * pool.tails_s
    end = pool.centers_s + pool.radii_s + 2 * pool.tails_s
    seconds = (end.clamp(max=duration_s) - begin.clamp(min=0)).clamp(min=0).numpy()
    figure = Figure(figsize=(9.6, 2.2), layout="constrained")
    axis = figure.subplots()
    axis.hist(seconds, bins=np.linspace(0, max(duration_s, 1e-3), 61).tolist(), color=PALETTE[0])
    axis.set(xlabel="visible for [s] (flat part and two tails on either side, within the clip)", ylabel="Gaussians")
    return inline_svg(figure, "lives", "Histogram of the dynamic Gaussians' life spans", legend=False)


def sizes(scene: Scene4D) -> Markup | None:
    """Histogram of the Gaussians' largest standard deviation; None of an empty scene."""
    pools = {"static": scene.static, "dynamic": scene.dynamic}
    known = {name: pool.scales.amax(1).clamp(min=1e-6).numpy() * 1e3 for name, pool in pools.items() if len(pool)}
    if not known:
        return None
    figure = Figure(figsize=(9.6, 2.2), layout="constrained")
    axis = figure.subplots()
    everything = np.concatenate(list(known.values()))
    bins = np.geomspace(max(everything.min(), 1e-2), max(everything.max(), 2e-2) * 1.01, 61).tolist()
    for index, (name, values) in enumerate(known.items()):
        axis.hist(values, bins=bins, color=PALETTE[index], alpha=0.65, label=name)
    axis.set(xscale="log", xlabel="largest standard deviation [mm]", ylabel="Gaussians")
    return inline_svg(figure, "sizes", "Histogram of the Gaussians' sizes")


def _frustum(axis: Axes, camera: Camera, plane: tuple[int, int], depth_m: float, style: dict[str, Any]) -> None:
    corners_px = np.array([[0, 0], [camera.width, 0], [camera.width, camera.height], [0, camera.height], [0, 0]], float)
    rays = np.concatenate([(corners_px - camera.K[:2, 2]) / camera.K[[0, 1], [0, 1]], np.ones((5, 1))], axis=1)
    corners = (rays * depth_m) @ camera.T_world_cam[:3, :3].T + camera.center_w
    axis.plot(corners[:, plane[0]], corners[:, plane[1]], lw=1.2, **style)
    for corner in corners[:4]:
        axis.plot(*([camera.center_w[i], corner[i]] for i in plane), lw=1.2, **style)
    axis.plot(*(camera.center_w[i] for i in plane), "o", color=style["color"], ms=4)
