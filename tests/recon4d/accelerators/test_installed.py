"""A package of somebody else's, really installed, adds an accelerator without a change here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import vendors


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vendors.install(tmp_path_factory.mktemp("vendor"))


def python(site: Path | None, *arguments: str, **variables: str) -> str:
    return vendors.python(site, *arguments, **variables)[0]


def rows(text: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in map(json.loads, text.splitlines())}


REASON = """
from recon4d.accelerators import accelerators
row = accelerators().get("imaginary")
print("not there" if row is None else row.reason)
"""


def test_it_is_listed(site: Path) -> None:
    row = rows(python(site, "-m", "recon4d", "accelerators", "list", "--json"))["imaginary"]
    assert (row["vendor"], row["count"], row["reason"]) == ("Imaginary Ltd", 2, "")
    assert row["rasterizer"] in {"torch", "host"}  # Whichever was faster here; see test_choice for the choosing.
    assert row["devices"][1] == {
        "index": 1,
        "model": "Imaginary One #1",
        "memory": {"free": 2**33, "total": 2**33},
        "torch_device": "imaginary:1",
    }
    hidden = python(site, "-c", REASON, IMAGINARY_VISIBLE_DEVICES="")
    assert hidden.endswith("counts no device with IMAGINARY_VISIBLE_DEVICES at ''\n")
    assert python(None, "-c", REASON) == "not there\n"


LATE = """
import torch
from recon4d.accelerators import accelerators
torch.ones(1, requires_grad=True).sum().backward()
print(accelerators()["imaginary"].reason)
"""


def test_a_driver_that_comes_too_late_is_told(site: Path) -> None:
    assert "before the process's first backward pass" in python(site, "-c", LATE)


SHOW = "from recon4d.accelerators import resolve; d = resolve('imaginary'); print(d.name, d.model)"
ISOLATE = """
import json
from recon4d.accelerators import resolve
print(json.dumps(resolve("imaginary:1").accelerator.isolation([1])))
"""


def test_a_worker_process_sees_its_device_as_0(site: Path) -> None:
    variables = json.loads(python(site, "-c", ISOLATE, IMAGINARY_VISIBLE_DEVICES="0,1"))
    assert variables == {"IMAGINARY_VISIBLE_DEVICES": "1"}
    assert python(site, "-c", SHOW, **variables) == "imaginary:0 Imaginary One #1\n"
    variables = json.loads(python(site, "-c", ISOLATE, IMAGINARY_VISIBLE_DEVICES="1,0"))
    assert python(site, "-c", SHOW, **variables) == "imaginary:0 Imaginary One #0\n"
