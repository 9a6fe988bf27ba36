"""A user's own recording as an environment: imported, reconstructed, bundled with an arm by a file, played in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import simbridge
from recon4d.commands import main as recon4d
from simbridge.commands import main as run
from simbridge.core import SensorConfig, WorldsConfig

CONFIG = Path(__file__).parents[2] / "samples" / "bench_sim" / "on_pusht.json"
DATA = os.environ.get("RECON4D_TEST_DATA")


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="RECON4D_TEST_DATA names no folder of real captures")
def test_reach_in_a_real_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture, scene, bundle, out = (str(tmp_path / name) for name in ("capture", "scene", "bundle", "out"))
    assert recon4d(["import", "pusht-embodied", str(Path(DATA or "") / "embodied_pusht"), "--out", capture]) == 0
    quick = ["--set", "fit.static.steps=300", "fit.joint.steps=300", "videos=false"]
    assert recon4d(["reconstruct", capture, "--out", scene, "--preset", "fast", "--quiet", *quick]) == 0
    assert run(["bundle", scene, "--config", str(CONFIG), "--out", bundle]) == 0
    capsys.readouterr()
    assert run(["check", bundle, "--json"]) == 0
    assert run(["evaluate", bundle, "--episodes", "4", "--films", "1", "--out", out, "--quiet"]) == 0
    played = json.loads((Path(out) / "summary.json").read_text("utf-8"))
    assert [episode["length"] > 0 for episode in played["episodes"]] == [True] * 4
    sensors = SensorConfig(kinds=("rgb", "segmentation"))
    envs = simbridge.make(bundle, "reach", num_envs=2, config=WorldsConfig(sensors=sensors))
    observation, _ = envs.reset(seed=0)
    assert len(observation["images"]) == 3
    arm = {name for name in envs._worlds.sensors.bodies if name.startswith("robot/")}
    seen = {
        envs._worlds.sensors.bodies[i] for picture in observation["segmentations"].values() for i in np.unique(picture)
    }
    assert seen & arm
    assert "goal" in seen
    envs.close()
