"""Files that people and programs read: JSON, Markdown, a picture, and one HTML page that needs nothing beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from recon4d.files import write_atomic
from simbridge.evaluate import _figures
from simbridge.evaluate._compare import Comparison, Group, SideResult
from simbridge.evaluate._episodes import VIDEO, EpisodeResult, Summary
from simbridge.evaluate._statistics import Interval

_NONE = "–"


def write_comparison(comparison: Comparison, out: Path | str) -> dict[str, Path]:
    """Writes ``comparison.json``, ``comparison.md``, ``comparison.html`` and ``scatter.png`` into a folder.

    Args:
        comparison: what :func:`compare` gave.
        out: folder, made when it is not there.

    Returns:
        The files by kind: json, markdown, html, picture. The picture is of the overall group, else of the first task.

    Raises:
        OutputError: a file cannot be written.
    """
    out = Path(out)
    page = {
        "comparison": comparison,
        "plots": [_figures.scatter(group, f"scatter-{index}") for index, group in enumerate(comparison.groups)],
    }
    return {
        "json": write_atomic(out / "comparison.json", _json(comparison.to_json())),
        "markdown": write_atomic(out / "comparison.md", markdown(comparison)),
        "html": write_atomic(out / "comparison.html", _rendered("comparison.html", page)),
        "picture": write_atomic(out / "scatter.png", _figures.scatter_png(comparison.groups[0])),
    }


def write_summary(summary: Summary, out: Path | str, *, title: str = "Evaluation") -> dict[str, Path]:
    """Writes ``summary.json`` and ``summary.html`` into a folder.

    Args:
        summary: what :func:`summarise` gave. An episode's ``extra["video"]`` is linked as it stands, relative to the
            page.
        out: folder, made when it is not there.
        title: the page's headline.

    Returns:
        The files by kind: json, html.

    Raises:
        OutputError: a file cannot be written.
    """
    out = Path(out)
    page = {
        "title": title,
        "summary": summary,
        "rates": _figures.rates(summary.groups, "rates"),
        "states": [
            _figures.states(group, f"states-{index}") if len(group.states) > 1 else None
            for index, group in enumerate(summary.groups)
        ],
        "films": [_films(summary.episodes, group.policy, group.task) for group in summary.groups],
    }
    return {
        "json": write_atomic(out / "summary.json", _json(summary.to_json())),
        "html": write_atomic(out / "summary.html", _rendered("summary.html", page)),
    }


def markdown(comparison: Comparison) -> str:
    """The comparison as Markdown tables."""
    lines = ["# Simulation against reality", ""]
    lines += [f"Simulation: {_cell(comparison.sim_source)} · reality: {_cell(comparison.real_source)}", ""]
    for group in comparison.groups:
        lines += [f"## {_cell(group.name)}", "", *_figures_table(group), "", *_policies_table(group), ""]
        lines += [f"- {_cell(warning)}" for warning in group.warnings]
        lines += [""] if group.warnings else []
    if comparison.warnings:
        lines += ["## Tables", "", *(f"- {_cell(warning)}" for warning in comparison.warnings), ""]
    return "\n".join([*lines, comparison.note, ""])


def figures_of(group: Group) -> list[dict[str, Any]]:
    """Every figure of a group with its intervals, as text."""
    resampled = group.resampled
    correlations = (
        ("Pearson r", group.pearson, resampled.pearson),
        ("Spearman ρ", group.spearman, resampled.spearman),
        ("Kendall τ-b", group.kendall, resampled.kendall),
    )
    made = [
        {
            "name": name,
            "value": number(found.value),
            "interval": interval(found.interval),
            "resampled": interval(again),
            "reason": found.reason,
        }
        for name, found, again in correlations
    ]
    violation = {"name": "MMRV", "value": number(group.mmrv), "interval": _NONE, "reason": ""}
    return [*made, violation | {"resampled": interval(resampled.mmrv)}]


def number(value: float | None) -> str:
    """Three decimals; a dash for what is not defined."""
    return _NONE if value is None or not math.isfinite(value) else f"{value:.3f}"


def interval(value: Interval | None) -> str:
    """Both ends with two decimals; a dash for none."""
    return _NONE if value is None else f"{value.low:.2f} to {value.high:.2f}"


def _figures_table(group: Group) -> list[str]:
    rows = [(f["name"], f["value"], f["interval"], f["resampled"], f["reason"]) for f in figures_of(group)]
    return _table(("figure", "value", "Fisher interval", "bootstrap interval", ""), rows)


def _policies_table(group: Group) -> list[str]:
    rows = [
        (str(place), row.policy, *_side(row.sim), *_side(row.real), number(row.kruskal_wallis.p_value))
        for place, row in enumerate(group.rows, start=1)
    ]
    sides = [f"{side}{what}" for side in ("sim", "real") for what in ("", " Wilson", " Clopper-Pearson")]
    return _table(("no.", "policy", *sides, "Kruskal-Wallis p"), rows)


def _side(side: SideResult) -> tuple[str, str, str]:
    counts = f"{side.rate:.3f} ({side.successes}/{side.trials})"
    return counts, interval(side.wilson), interval(side.clopper_pearson)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rule = "|" + "---|" * len(head)
    return [f"| {' | '.join(map(_cell, cells))} |" if cells else rule for cells in (head, (), *rows)]


def _cell(text: str) -> str:
    """Text that means nothing to Markdown; a line of its own."""
    text = " ".join(text.split())
    for sign in "\\`*_|<>[]#":
        text = text.replace(sign, "\\" + sign)
    return text


def _films(episodes: Sequence[EpisodeResult], policy: str, task: str) -> list[dict[str, Any]]:
    chosen = [episode for episode in episodes if (episode.policy, episode.task) == (policy, task)]
    return [{"episode": e, "link": quote(str(e.extra[VIDEO]))} for e in chosen if e.extra.get(VIDEO)]


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _rendered(template: str, content: dict[str, Any]) -> str:
    pages = Environment(
        loader=PackageLoader("simbridge.evaluate", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"number": number, "interval": interval}
    pages.globals["figures_of"] = figures_of
    return pages.get_template(template).render(content)
