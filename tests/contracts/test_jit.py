"""What `recon4d.jit` promises of compiled kernels, on kernels of this file's own in a cache of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KERNELS = """
import numpy as np
from recon4d.jit import kernel


@kernel()
def total(values):
    s = 0.0
    for i in range(values.shape[0]):
        s += values[i]
    return s


@kernel(fastmath=False)
def quotient(a, b):
    return a / b
"""

PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from recon4d import jit
import tiny_kernels, numpy as np
print(sorted(jit.cold()))
print(tiny_kernels.total(np.arange(4.0)), tiny_kernels.quotient(1.0, 0.0))
print(sorted(jit.cold()))
print([sum(k.stats.cache_hits.values()) for k in (tiny_kernels.total, tiny_kernels.quotient)])
"""


def run(folder: Path) -> list[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", PROBE, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_kernels_are_cold_once_per_machine_and_divide_as_ieee(tmp_path: Path) -> None:
    (tmp_path / "tiny_kernels.py").write_text(KERNELS)
    names = "['quotient', 'total']"
    assert run(tmp_path) == [names, "6.0 inf", "[]", "[0, 0]"]
    assert run(tmp_path) == ["[]", "6.0 inf", "[]", "[1, 1]"]
