"""Figures as inline SVG whose ink follows the page's text colour, for pages that need nothing beside them."""

from __future__ import annotations

import io
import re

from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

PALETTE = ("#3b82c4", "#d9772b", "#2f9e6e", "#c0504d", "#8e6bbf", "#a8862a", "#3f9ea3", "#cf5f9b")
"""Mid-tones that can be told apart on white and on black."""
INK = "#010203"
"""Stands for the page's text colour until the SVG is finished."""


def inline_svg(figure: Figure, prefix: str, label: str, *, legend: bool = True) -> Markup:
    """Finishes a figure: quiet axes, and SVG that needs no name space, no style sheet and no other file.

    Args:
        figure: of Matplotlib's object interface. What is drawn in ``INK`` follows the page's text colour.
        prefix: of the ids; unique in the page.
        label: what the picture shows, for those who do not see it; plain text without quotation marks.
        legend: whether the last axes get a legend when they hold several named things.
    """
    figure.patch.set_alpha(0)
    for axis in figure.axes:
        axis.patch.set_alpha(0)
        axis.grid(color=INK, alpha=0.12, lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK, labelsize=8)
        for spine in axis.spines.values():
            spine.set_color(INK)
        for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
            text.set(color=INK, fontsize=9)
        handles, names = axis.get_legend_handles_labels()
        if legend and axis is figure.axes[-1] and 1 < len(handles) <= 2 * len(PALETTE):
            axis.legend(handles, names, fontsize=8, frameon=False, labelcolor=INK)
    buffer = io.StringIO()
    empty = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    FigureCanvasSVG(figure).print_svg(buffer, metadata=empty)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(
        r'<svg[^>]*viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{label}">', text, count=1
    )
    return Markup(_unique_ids(text, prefix))


def _unique_ids(svg: str, prefix: str) -> str:
    """Gives ids names that are unique in the page and the same in every run; Matplotlib's are random."""
    names: dict[str, str] = {}
    for found in re.findall(r'\bid="([^"]+)"', svg):
        names.setdefault(found, f"{prefix}-{len(names)}")
    svg = re.sub(r'\bid="([^"]+)"', lambda m: f'id="{names[m[1]]}"', svg)
    svg = re.sub(r'xlink:href="#([^"]+)"', lambda m: f'href="#{names[m[1]]}"', svg)
    return re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{names[m[1]]})", svg)
