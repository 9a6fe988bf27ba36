"""Environments that are made and closed leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import gc, os, sys
from pathlib import Path
import numpy as np
import simbridge
from simbridge.core import SensorConfig, WorldsConfig
from tests.simbridge import worlds as small

bundle = small.bundle(Path(sys.argv[1]), width=128, height=128)
sizes = []
for cycle in range(60):
    envs = simbridge.make(bundle, "push_block", num_envs=8, config=WorldsConfig(sensors=SensorConfig()))
    envs.reset(seed=cycle)
    envs.step(np.zeros((8, 3)))
    envs.close()
    del envs
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    sizes.append(resident * os.sysconf("SC_PAGE_SIZE") / 2**20)
print(*np.polyfit(np.arange(50), sizes[10:], 1))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the system does not tell a process's memory in /proc"
)
def test_fifty_environments_made_and_closed_need_the_memory_of_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "bundle")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    slope_mib, _ = map(float, ran.stdout.split())
    # One environment's splats and pictures take some 20 MiB.
    assert abs(slope_mib) < 0.3
