"""What a run found, and how it is told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["right", "falls back", "wrong", "missing"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    part: str
    """operators, images, gradients, first step, training or figures."""
    name: str
    passed: bool | None
    """None where nothing is judged."""
    value: float | str | None
    """None where nothing could be measured; the detail says why."""
    limit: float | None = None
    """What the value may not exceed; None where there is no such number."""
    detail: str = ""

    def cells(self) -> tuple[str, str, str, str, str, str]:
        """Part, what, value, limit, verdict and remarks, as text."""
        verdict = {True: "pass", False: "FAIL", None: "–"}[self.passed]
        limit = "" if self.limit is None else shown(self.limit)
        return self.part, self.name, shown(self.value), limit, verdict, self.detail


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One kind of operation that a step of training needs, on the device beside the CPU."""

    name: str
    needed: bool
    """Whether the backend that was verified needs it."""
    state: State
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a run found, and where."""

    device: str
    """As it can be resolved again, such as "nvidia:0"."""
    facts: Mapping[str, str]
    """Names and versions, in the order in which people want to read them."""
    backend: str
    reason: str
    """Why this backend."""
    findings: tuple[Finding, ...]
    operators: tuple[Operator, ...]
    reproduce: str
    """The command that makes this report."""

    @property
    def passed(self) -> bool:
        """Whether something was judged and nothing failed."""
        judged = [finding.passed for finding in self.findings if finding.passed is not None]
        return bool(judged) and all(judged)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that failed."""
        return tuple(finding for finding in self.findings if finding.passed is False)

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers that are not finite are text, which JSON can hold."""
        findings = [asdict(finding) | {"value": _plain(finding.value)} for finding in self.findings]
        whole = asdict(self) | {"facts": dict(self.facts), "findings": findings}
        return {"version": 1, "passed": self.passed, **whole}

    def to_markdown(self) -> str:
        """A page for a pull request."""
        verdict = "passed" if self.passed else "**failed**"
        lines = [f"# {self.facts.get('model', self.device)}: {verdict}", ""]
        lines += [f"`recon4d accelerators verify` on `{self.device}`, rasterizer `{self.backend}`: {self.reason}.", ""]
        if self.failures:
            lines += ["What failed:", ""]
            lines += [f"- {finding.part}: {finding.name}. {_sentence(finding)}" for finding in self.failures]
            lines += [""]
        lines += ["| | |", "| --- | --- |"]
        lines += [f"| {name} | {_cell(value)} |" for name, value in self.facts.items()]
        lines += ["", "## Findings", "", "| part | what | value | at most | verdict | remarks |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        lines += ["| " + " | ".join(map(_cell, finding.cells())) + " |" for finding in self.findings]
        lines += ["", "## Operators", "", "| operator | state | needed | remarks |", "| --- | --- | --- | --- |"]
        for operator in self.operators:
            needed = "yes" if operator.needed else "no"
            lines.append(f"| {operator.name} | {operator.state} | {needed} | {_cell(operator.detail)} |")
        lines += ["", "## To reproduce", "", "```sh", self.reproduce, "```", ""]
        return "\n".join(lines)


def shown(value: float | str | None) -> str:
    """A value for people."""
    if value is None:
        return "not measured"
    return value if isinstance(value, str) else f"{value:.3g}"


def _sentence(finding: Finding) -> str:
    measured = f"{shown(finding.value)}, at most {shown(finding.limit)} allowed" if finding.limit is not None else ""
    if finding.limit is None and finding.value is not None:
        measured = shown(finding.value)
    return "; ".join(part for part in (measured, finding.detail) if part)


def _plain(value: float | str | None) -> float | str | None:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _cell(text: str) -> str:
    """Text that does not end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
