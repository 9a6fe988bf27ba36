"""RLinf's own workers over a bundle: stock ``EnvWorker`` and ``EmbodiedEvalRunner``, on CPUs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simbridge import worlds as small

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "samples" / "rlinf" / "eval_reach_cpu.yaml"
INSTALLED = importlib.util.find_spec("rlinf") is not None and importlib.util.find_spec("ray") is not None


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="RLinf is not installed; `make rlinf` installs it")
def test_stock_workers_evaluate_a_policy(tmp_path: Path) -> None:
    bundle, out = small.saved(tmp_path / "bundle"), tmp_path / "out" / "metrics.json"
    out.parent.mkdir()
    environment = {
        **os.environ,
        "RLINF_EXT_MODULE": "simbridge.adapters.rlinf",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "RAY_DISABLE_IMPORT_WARNING": "1",
    }
    driver = [sys.executable, "-m", "tests.simbridge.adapters.rlinf_driver", str(CONFIG), str(bundle), str(out)]
    ran = subprocess.run(driver, cwd=ROOT, env=environment, timeout=300, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    metrics = json.loads(out.read_text("utf-8"))
    assert {"success_once", "return", "episode_len", "reward", "num_trajectories"} <= set(metrics)
    # Four worlds, forty steps each, episodes of at most twenty.
    assert metrics["num_trajectories"] >= 8
    assert 1 <= metrics["episode_len"] <= 20
    assert metrics["return"] < 0
