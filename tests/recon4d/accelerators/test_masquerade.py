"""Builds of torch that call their devices "cuda" are taken for their own vendor's, and for no other's."""

from __future__ import annotations

import pytest
import torch

from recon4d.accelerators import accelerators, resolve
from recon4d.errors import AcceleratorError
from tests.recon4d.accelerators.machine import Machine
from tests.recon4d.accelerators.vendors import VENDORS

ANSWER_TO_CUDA = ("nvidia", "amd", "kunlunxin", "metax")
LABELS = {"nvidia": "NVIDIA", "amd": "AMD (ROCm)", "metax": "MetaX (MACA)", "kunlunxin": "Kunlunxin (torch_xmlir)"}


@pytest.mark.parametrize("behind", ANSWER_TO_CUDA)
def test_cuda_is_whose_it_is(behind: str, machine: Machine) -> None:
    VENDORS[behind].reach(machine, ["Chip"] * 2)
    table = accelerators()
    assert [name for name, row in table.items() if row.count] == [behind, "cpu"]
    assert [device.torch_device for device in table[behind].devices] == ["cuda:0", "cuda:1"]
    assert resolve("cuda").name == f"{behind}:0"
    assert resolve("cuda:1").name == f"{behind}:1"
    assert resolve("auto").name == f"{behind}:0"
    for other in set(ANSWER_TO_CUDA) - {behind}:
        with pytest.raises(AcceleratorError, match=f"device '{other}' cannot be used here"):
            resolve(other)


@pytest.mark.parametrize("behind", ANSWER_TO_CUDA)
@pytest.mark.parametrize("other", ANSWER_TO_CUDA)
def test_the_reason_says_whose_build_it_is(behind: str, other: str, machine: Machine) -> None:
    if behind == other:
        assert VENDORS[behind].make().lacks() is not None  # Before it is installed.
    VENDORS[behind].reach(machine, ["Chip"])
    said = VENDORS[other].make().lacks()
    if behind == other:
        assert said is None
    elif other == "kunlunxin":
        assert said == "torch_xmlir is not installed"
    else:
        assert (
            said
            == f"torch {torch.__version__} is built for {LABELS[behind]}: what it calls 'cuda' is not {LABELS[other]}"
        )


def test_hardware_of_one_vendor_and_torch_of_another(machine: Machine) -> None:
    """An NVIDIA card in a machine whose torch is for AMD does not count, and the reason says all of it."""
    VENDORS["amd"].reach(machine, ["MI300X"])
    VENDORS["nvidia"].tools[1].show(machine, ["H200"])
    nvidia = VENDORS["nvidia"].make()
    assert nvidia.probe().reason == (
        "nvidia-smi sees 1 × H200, but torch cannot reach that: torch 2.9.0+rocm6.4 is built for AMD (ROCm): what it"
        f" calls 'cuda' is not NVIDIA; {nvidia.remedy}"
    )


@pytest.mark.parametrize("marks", [{"maca": "3.3.0"}, {}])
def test_either_mark_of_metax_will_do(machine: Machine, marks: dict[str, str]) -> None:
    version = "2.8.0" if marks else "2.8.0+metax3.3.0.2"
    machine.build(version, cuda="11.6", **marks)
    machine.part("cuda", ["MetaX C500"])
    assert resolve("cuda").name == "metax:0"


def test_intel_builds_need_no_mark(machine: Machine) -> None:
    machine.build("2.6.0")
    machine.part("xpu", ["Max 1550"])
    assert resolve("xpu:0").name == "intel:0"
