"""From what people write to a device, and what they are told when there is none."""

from __future__ import annotations

import pytest

from recon4d.accelerators import resolve, rlinf_type
from recon4d.errors import AcceleratorError
from tests.recon4d.accelerators.machine import Machine
from tests.recon4d.accelerators.vendors import VENDORS, Vendor

PROBED = f"""Probed were:
  nvidia: none, {VENDORS["nvidia"].absent}
  amd: none, {VENDORS["amd"].absent}
  intel: none, {VENDORS["intel"].absent}
  ascend: none, {VENDORS["ascend"].absent}
  musa: none, {VENDORS["musa"].absent}
  kunlunxin: none, {VENDORS["kunlunxin"].absent}
  metax: none, {VENDORS["metax"].absent}
  biren: none, {VENDORS["biren"].absent}
  mps: none, torch 2.9.0+cpu is built without MPS, which is for macOS on Apple silicon
  cpu: 1 device
Choose one with devices, or auto."""


def refusal(wanted: str) -> str:
    with pytest.raises(AcceleratorError) as caught:
        resolve(wanted)
    assert caught.value.exit_code == 6
    return str(caught.value)


@pytest.mark.parametrize("wanted", ["auto", "cpu", "cpu:0"])
def test_the_cpu_is_what_every_machine_has(wanted: str) -> None:
    device = resolve(wanted)
    assert (device.name, device.torch_device, device.index) == ("cpu:0", "cpu", 0)
    assert device.accelerator.name == "cpu"
    assert ":" not in device.model


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
def test_a_device_by_vendor_by_torch_and_by_auto(vendor: Vendor, machine: Machine) -> None:
    vendor.reach(machine, ["Chip 0", "Chip 1"])
    accelerator = vendor.make()
    name, string = accelerator.name, accelerator.device_type
    for wanted in (name, f"{name}:0", string, f"{string}:0", "auto"):
        assert resolve(wanted).name == f"{name}:0", wanted
    for wanted in (f"{name}:1", f"{string}:1"):
        device = resolve(wanted)
        assert (device.name, device.torch_device) == (f"{name}:1", f"{string}:1")
        assert (device.model, device.memory) == ("Chip 1", (1001, 2000))
    assert resolve(resolve(name).name) == resolve(name)


def test_auto_takes_the_first_of_several(machine: Machine) -> None:
    for key in ("biren", "ascend", "musa"):
        VENDORS[key].reach(machine, ["Chip"])
    assert resolve("auto").name == "ascend:0"
    assert resolve("supa").name == "biren:0"


def test_an_unknown_name() -> None:
    start = "device 'nvidai' cannot be used here: no accelerator and no torch device is called 'nvidai'"
    assert refusal("nvidai") == f"{start} (did you mean 'nvidia'?). {PROBED}"


@pytest.mark.parametrize(
    ("wanted", "meant"), [("cude:1", "cuda"), ("aut", "auto"), ("Intel", "intel"), ("npus", "npu")]
)
def test_what_may_have_been_meant(wanted: str, meant: str) -> None:
    assert f"is called '{wanted.partition(':')[0]}' (did you mean '{meant}'?)." in refusal(wanted)


@pytest.mark.parametrize("wanted", ["", "zzz", "日本"])
def test_nothing_may_have_been_meant(wanted: str) -> None:
    assert "did you mean" not in refusal(wanted)
    assert refusal(wanted).endswith(PROBED)


def test_a_known_name_without_a_device() -> None:
    assert refusal("musa:1") == f"device 'musa:1' cannot be used here: {VENDORS['musa'].absent}. {PROBED}"


def test_a_torch_device_that_nobody_has() -> None:
    expected = "device 'cuda:1' cannot be used here: no accelerator that torch calls 'cuda' has a device"
    assert refusal("cuda:1") == f"{expected}. {PROBED}"


def test_an_index_beyond_the_last(machine: Machine) -> None:
    VENDORS["nvidia"].reach(machine, ["H200"] * 2)
    start = "device 'nvidia:2' cannot be used here: accelerator 'nvidia' has 2 devices, 0 to 1"
    assert refusal("nvidia:2") == start
    machine.variable("CUDA_VISIBLE_DEVICES", "4,5")
    assert refusal("nvidia:2") == f"{start}; CUDA_VISIBLE_DEVICES is '4,5'"
    assert refusal("cuda:7").startswith("device 'cuda:7' cannot be used here: accelerator 'nvidia' has 2 devices")
    assert refusal("cpu:1") == "device 'cpu:1' cannot be used here: accelerator 'cpu' has 1 device, 0"


@pytest.mark.parametrize("wanted", ["cpu:", "cpu:x", "cpu:-1", "cpu:0:0", "cpu:²"])
def test_an_index_that_is_none(wanted: str) -> None:
    assert refusal(wanted) == f"'{wanted}' names no device: after the colon stands an index, such as cpu:0"


def test_auto_has_no_index() -> None:
    assert refusal("auto:1") == "'auto:1' names no device: auto takes no index; write auto, or NAME:INDEX"


def test_rlinf_calls_it() -> None:
    types = {name: rlinf_type(name) for name in (*VENDORS, "mps", "cpu")}
    assert types == {
        "nvidia": "NV_GPU",
        "amd": "AMD_GPU",
        "intel": "INTEL_GPU",
        "ascend": "NPU",
        "musa": "MUSA_GPU",
        "kunlunxin": "KUNLUN_XPU",
        "metax": "METAX_GPU",
        "biren": "BIREN_GPU",
        "mps": "NO_ACCEL",
        "cpu": "NO_ACCEL",
    }
    with pytest.raises(
        AcceleratorError, match=r"no accelerator 'nvidi' \(did you mean 'nvidia'\?\); there are: nvidia,"
    ):
        rlinf_type("nvidi")
