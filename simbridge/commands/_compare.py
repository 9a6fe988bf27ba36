"""``simbridge compare``."""

from __future__ import annotations

import json as json_
import sys
from pathlib import Path
from typing import Annotated

import tyro


def compare(
    real: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="REAL.CSV")],
    sim: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SIM.CSV")],
    /,
    *,
    out: Path,
    confidence: float = 0.95,
    seed: int = 0,
    json: bool = False,
) -> int:
    """Say how well success rates in simulation agree with those in reality.

    Tables are CSV files with a header: policy, task (optional), condition (optional), and either successes and trials,
    or success (1 or 0) with one row a trial.

    Args:
        real: table of results in reality.
        sim: table of results in simulation.
        out: folder for comparison.json, comparison.md, comparison.html and scatter.png.
        confidence: of every interval, between 0 and 1.
        seed: of the bootstrap.
        json: print the comparison as JSON.
    """
    from simbridge.evaluate import compare as compared
    from simbridge.evaluate import markdown, read_table, write_comparison

    found = compared(real=read_table(real), sim=read_table(sim), confidence=confidence, seed=seed)
    files = write_comparison(found, out)
    if json:
        print(json_.dumps(found.to_json()))
        return 0
    print(markdown(found))
    print(f"open {files['html']} in a browser", file=sys.stderr)
    return 0
