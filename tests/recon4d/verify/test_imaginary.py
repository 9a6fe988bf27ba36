"""A device of somebody else's package, really installed: verified and trained on through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recon4d.types import SplitRule
from tests import vendors, worlds


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vendors.install(tmp_path_factory.mktemp("vendor"))


@pytest.mark.slow
def test_it_passes(site: Path, tmp_path: Path) -> None:
    """Shown in reverse, index 1 is the machine's first device: it is there that all was computed."""
    verify = ("-m", "recon4d", "accelerators", "verify", "imaginary:1", "--quick", "--out", str(tmp_path / "new"))
    out, err = vendors.python(site, *verify, IMAGINARY_VISIBLE_DEVICES="1,0", COLUMNS="200")
    assert "passed" in out
    assert "training: done" in err
    told = json.loads((tmp_path / "new" / "verify.json").read_text("utf-8"))
    assert told["passed"]
    assert (told["device"], told["backend"]) == ("imaginary:1", "torch")
    assert (told["facts"]["model"], told["facts"]["vendor"]) == ("Imaginary One #0", "Imaginary Ltd")
    assert {operator["state"] for operator in told["operators"]} == {"right"}
    (memory,) = (f["value"] for f in told["findings"] if f["name"].startswith("peak memory"))
    assert memory > 1
    assert (tmp_path / "new" / "verify.md").read_text("utf-8").startswith("# Imaginary One #0: passed")


def test_a_worker_that_is_shown_one_device_finds_it(site: Path) -> None:
    script = """
import torch
from recon4d.accelerators import resolve
from recon4d.verify._gradients import first_step
device = resolve("imaginary")
assert device.accelerator.torch_module().device_count() == 1
print(device.model, all(f.passed for f in first_step(torch.device(device.torch_device), "torch", 0)))
"""
    assert vendors.python(site, "-c", script, IMAGINARY_VISIBLE_DEVICES="1")[0] == "Imaginary One #1 True\n"


def test_an_operator_that_it_lacks_is_named(site: Path, tmp_path: Path) -> None:
    verify = ("-m", "recon4d", "accelerators", "verify", "imaginary:0", "--quick", "--out", str(tmp_path))
    out, err = vendors.python(site, *verify, code=1, IMAGINARY_WITHOUT="aten::sort", COLUMNS="200")
    assert "Traceback" not in err + out
    assert "operator sort: missing. NotImplementedError: Could not run 'aten::sort' on the 'imaginary' device" in out
    told = json.loads((tmp_path / "verify.json").read_text("utf-8"))
    assert not told["passed"]
    missing = {operator["name"] for operator in told["operators"] if operator["state"] == "missing"}
    assert missing == {"argsort", "sort", "sort of int64, stable", "sort, falling"}
    failed = {(f["part"], f["name"]) for f in told["findings"] if f["passed"] is False}
    assert failed == {("operators", "operators that a step needs")} | {
        (part, "came to its end") for part in ("images", "first step", "training")
    }


def test_a_capture_is_reconstructed_on_it(site: Path, tmp_path: Path) -> None:
    world = worlds.capture(seconds=0.5, cameras=3, rate_hz=10.0, split=SplitRule(heldout_cameras=("c2",)))
    capture = worlds.write_capture(world, tmp_path / "capture")
    tiny = ("fit.static.count=200", "fit.static.steps=2", "fit.seeds.count=100", "fit.joint.steps=3", "videos=false")
    reconstruct = ("-m", "recon4d", "reconstruct", str(capture), "--out", str(tmp_path / "scene"))
    out, _ = vendors.python(site, *reconstruct, "--device", "imaginary:0", "--json", "--set", *tiny)
    result = json.loads(out.splitlines()[-1])
    assert result["event"] == "result"
    assert 5 < result["scores"]["train"]["psnr"] < 60
    assert result["scores"]["heldout_cameras"]["psnr"] > 5
