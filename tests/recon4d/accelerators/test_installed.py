"""A package of somebody else's, really installed, adds an accelerator without a change here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FIXTURE = Path(__file__).parents[2] / "fixtures" / "imaginary_vendor"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the package; without the network."""
    folder = tmp_path_factory.mktemp("site")
    source = folder.parent / "imaginary_source"
    source.mkdir()
    for name in ("pyproject.toml", "imaginary_vendor.py"):  # A build leaves files beside its sources.
        (source / name).write_bytes((FIXTURE / name).read_bytes())
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return folder


def python(site: Path | None, *arguments: str, **variables: str) -> str:
    """What a fresh process prints that sees the package, if it is to."""
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [site and str(site), *paths]))} | variables
    command = [sys.executable, "-W", "error", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rows(text: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in map(json.loads, text.splitlines())}


REASON = """
from recon4d.accelerators import accelerators
row = accelerators().get("imaginary")
print("not there" if row is None else row.reason)
"""


def test_it_is_listed(site: Path) -> None:
    row = rows(python(site, "-m", "recon4d", "accelerators", "list", "--json"))["imaginary"]
    assert (row["vendor"], row["count"], row["reason"], row["rasterizer"]) == ("Imaginary Ltd", 3, "", "torch")
    assert row["devices"][1] == {
        "index": 1,
        "model": "Unicorn 2 the Return",
        "memory": {"free": 2**31, "total": 2**34},
        "torch_device": "imaginary:1",
    }
    hidden = python(site, "-c", REASON, IMAGINARY_VISIBLE_DEVICES="")
    assert hidden.endswith("counts no device with IMAGINARY_VISIBLE_DEVICES at ''\n")
    assert python(None, "-c", REASON) == "not there\n"


SHOW = "from recon4d.accelerators import resolve; d = resolve('imaginary'); print(d.name, d.model)"
ISOLATE = """
import json
from recon4d.accelerators import resolve
print(json.dumps(resolve("imaginary:1").accelerator.isolation([1])))
"""


def test_a_worker_process_sees_its_device_as_0(site: Path) -> None:
    variables = json.loads(python(site, "-c", ISOLATE, IMAGINARY_VISIBLE_DEVICES="0,2"))
    assert variables == {"IMAGINARY_VISIBLE_DEVICES": "2"}
    assert python(site, "-c", SHOW, PYTHONUTF8="1", **variables) == "imaginary:0 Einhorn ü\n"
