"""Kernels against public peers, in one process.

    python -m tests.benchmarks.kernels

Prints a table and writes ``build/bench.json``: a list of ``{name, ours_ms, peer, peer_ms, ratio}``, a ratio above 1
meaning that ours is faster. Contenders take turns, but a load from outside slows some more than others: only on an idle
machine, which the last line tells, do the ratios count. Takes about a minute there; needs the extra ``bench``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from recon4d.files import write_atomic
from tests.benchmarks import loss, raster
from tests.benchmarks._machine import Others, note

OUT = Path(__file__).parents[2] / "build" / "bench.json"


def rows() -> list[dict[str, Any]]:
    """Every comparison, milliseconds and ratio rounded."""
    measured: list[dict[str, Any]] = [*raster.rows(), *loss.rows()]
    digits = {"ours_ms": 3, "peer_ms": 3, "ratio": 2}
    return [row | {key: round(row[key], count) for key, count in digits.items()} for row in measured]


def table(measured: list[dict[str, Any]]) -> str:
    lines = [f"{'':32} {'ours, ms':>10} {'peer, ms':>10} {'ratio':>7}  peer"]
    lines += [
        f"{row['name']:32} {row['ours_ms']:10.2f} {row['peer_ms']:10.2f} {row['ratio']:6.2f}x  {row['peer']}"
        for row in measured
    ]
    return "\n".join(lines)


def main() -> int:
    with Others() as others:
        measured = rows()
    print(f"{table(measured)}\n{note(others.cores)}\nwrote {write_atomic(OUT, json.dumps(measured, indent=1))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
