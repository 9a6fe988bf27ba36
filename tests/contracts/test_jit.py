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


def run(folder: Path, probe: str = PROBE) -> list[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", probe, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


USER = """
import tiny_kernels
from recon4d.jit import kernel


@kernel(uses=[tiny_kernels])
def twice(values):
    return 2.0 * tiny_kernels.total(values)
"""

USER_PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
import tiny_users, numpy as np
print(tiny_users.twice(np.arange(4.0)), sum(tiny_users.twice.stats.cache_hits.values()))
"""


def test_a_kernel_is_compiled_anew_when_what_it_uses_changes(tmp_path: Path) -> None:
    (tmp_path / "tiny_kernels.py").write_text(KERNELS)
    (tmp_path / "tiny_users.py").write_text(USER)
    assert run(tmp_path, USER_PROBE) == ["12.0 0"]
    assert run(tmp_path, USER_PROBE) == ["12.0 1"]
    (tmp_path / "tiny_kernels.py").write_text(KERNELS.replace("s = 0.0", "s = 100.0"))
    assert run(tmp_path, USER_PROBE) == ["212.0 0"]


def test_kernels_are_cold_once_per_machine_and_divide_as_ieee(tmp_path: Path) -> None:
    (tmp_path / "tiny_kernels.py").write_text(KERNELS)
    names = "['quotient', 'total']"
    assert run(tmp_path) == [names, "6.0 inf", "[]", "[0, 0]"]
    assert run(tmp_path) == ["[]", "6.0 inf", "[]", "[1, 1]"]
