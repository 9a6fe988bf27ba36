"""Plots of the pages. Names are left to the page: they may be in any script, and fonts are not."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from recon4d.show import INK, PALETTE, inline_svg
from simbridge.evaluate._compare import Group, PolicyRow
from simbridge.evaluate._episodes import PolicySummary


def scatter(group: Group, prefix: str) -> Markup:
    """Rates in simulation against rates in reality with Wilson intervals; numbers are those of the table."""
    figure = Figure(figsize=(5.2, 4.8), layout="constrained")
    _draw_scatter(figure.subplots(), group.rows)
    return inline_svg(figure, prefix, "Success rates in simulation against reality, with intervals", legend=False)


def scatter_png(group: Group) -> bytes:
    """The same as a PNG on white."""
    figure = Figure(figsize=(5.2, 4.8), layout="constrained", dpi=160)
    _draw_scatter(figure.subplots(), group.rows)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return buffer.getvalue()


def rates(groups: Sequence[PolicySummary], prefix: str) -> Markup:
    """Success rate of every policy and task with its Wilson interval, numbered as in the table."""
    figure = Figure(figsize=(9.6, 0.9 + 0.32 * len(groups)), layout="constrained")
    axis = figure.subplots()
    for number, group in enumerate(groups, start=1):
        colour = PALETTE[(number - 1) % len(PALETTE)]
        axis.plot(group.wilson, (number, number), color=colour, lw=3, alpha=0.45, solid_capstyle="butt")
        axis.plot(group.rate, number, "o", color=colour, ms=6)
    axis.set(xlim=(-0.02, 1.02), ylim=(len(groups) + 0.6, 0.4), xlabel="success rate", ylabel="no.")
    axis.set_yticks(range(1, len(groups) + 1))
    return inline_svg(figure, prefix, "Success rates with intervals", legend=False)


def states(group: PolicySummary, prefix: str) -> Markup:
    """Success rate by initial state with Wilson intervals, numbered as in the table."""
    figure = Figure(figsize=(9.6, 2.3), layout="constrained")
    axis = figure.subplots()
    x = np.arange(1, len(group.states) + 1)
    for at, row in zip(x, group.states, strict=True):
        axis.plot((at, at), row.wilson, color=PALETTE[0], lw=2, alpha=0.5)
        axis.plot(at, row.successes / row.trials, "o", color=PALETTE[0], ms=5)
    axis.axhline(group.rate, color=INK, lw=0.8, ls="--", alpha=0.6)
    axis.set(ylim=(-0.03, 1.03), xlim=(0.5, len(x) + 0.5), xlabel="no. of the initial state", ylabel="success rate")
    axis.set_xticks(x[:: max(1, len(x) // 20)])
    return inline_svg(figure, prefix, "Success rate by initial state", legend=False)


def _draw_scatter(axis: Axes, rows: Sequence[PolicyRow]) -> None:
    axis.plot((0, 1), (0, 1), color=INK, lw=0.8, ls="--", alpha=0.5)
    for number, row in enumerate(rows, start=1):
        colour = PALETTE[(number - 1) % len(PALETTE)]
        axis.plot(row.sim.wilson, (row.real.rate,) * 2, color=colour, lw=1.4, alpha=0.55)
        axis.plot((row.sim.rate,) * 2, row.real.wilson, color=colour, lw=1.4, alpha=0.55)
        axis.plot(row.sim.rate, row.real.rate, "o", color=colour, ms=6)
        at = (row.sim.rate, row.real.rate)
        axis.annotate(str(number), at, textcoords="offset points", xytext=(6, 5), fontsize=9, color=INK)
    axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    axis.set(xlabel="success rate in simulation", ylabel="success rate in reality")
