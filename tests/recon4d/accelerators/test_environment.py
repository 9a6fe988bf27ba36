"""Which devices a process sees: read from its environment, and written for another one."""

from __future__ import annotations

import pytest

from recon4d.accelerators import resolve
from recon4d.accelerators.cpu import Cpu
from recon4d.accelerators.mps import Mps
from recon4d.errors import AcceleratorError
from tests.recon4d.accelerators.machine import Machine
from tests.recon4d.accelerators.vendors import MIB, VENDORS, Vendor

each_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)


@each_vendor
@pytest.mark.parametrize(
    ("value", "indices"),
    [
        *((None, None), ("", []), (" ", []), ("-1", []), ("NoDevFiles", [])),
        *(("0", [0]), ("3,1", [3, 1]), (" 4 , 5 ", [4, 5])),
    ],
)
def test_visible_devices_are_read(vendor: Vendor, value: str | None, indices: list[int] | None) -> None:
    accelerator = vendor.make()
    environment = {"OTHER": "7"} if value is None else {accelerator.visible_devices_env: value}
    assert accelerator.visible(environment) == indices


@each_vendor
@pytest.mark.parametrize("value", ["0,,1", "0,x", "GPU-8f2c", "1.5", "0;1", "-2", "0,0", "²", "0,-1"])
def test_garbage_is_refused(vendor: Vendor, value: str) -> None:
    accelerator = vendor.make()
    name, prefix = accelerator.visible_devices_env, accelerator.visible_prefix
    with pytest.raises(AcceleratorError) as caught:
        accelerator.visible({name: value})
    assert str(caught.value) == (
        f"{name} is '{value}'; it must hold different device indices separated by commas, such as '{prefix}0,1'. Device"
        " identifiers are not understood here: give indices, or unset it"
    )


def test_intels_selector_names_the_runtime() -> None:
    intel = VENDORS["intel"].make()
    assert intel.visible({"ONEAPI_DEVICE_SELECTOR": "level_zero:1,0"}) == [1, 0]
    assert intel.visible({"ONEAPI_DEVICE_SELECTOR": "level_zero:*"}) is None
    with pytest.raises(AcceleratorError, match="level_zero:0,1"):
        intel.visible({"ONEAPI_DEVICE_SELECTOR": "opencl:cpu"})


@each_vendor
def test_isolation_sets_exactly_these(vendor: Vendor) -> None:
    accelerator = vendor.make()
    assert accelerator.isolation([2, 0], {}) == vendor.variables
    assert accelerator.visible(accelerator.isolation([2, 0], {})) == [2, 0]


@each_vendor
def test_isolation_is_among_what_this_process_sees(vendor: Vendor, machine: Machine) -> None:
    accelerator = vendor.make()
    machine.variable(accelerator.visible_devices_env, "4,6,7")
    assert accelerator.visible(accelerator.isolation([2, 0])) == [7, 4]
    with pytest.raises(AcceleratorError, match=f"{accelerator.visible_devices_env} shows 3 devices; index 3 is none"):
        accelerator.isolation([0, 3])


@pytest.mark.parametrize("indices", [[], [1, 1], [-1], [0, -1]])
@pytest.mark.parametrize("accelerator", [VENDORS["nvidia"].make(), Cpu()], ids=["nvidia", "cpu"])
def test_isolation_of_no_such_devices(accelerator: Cpu, indices: list[int]) -> None:
    with pytest.raises(AcceleratorError, match="one or more different device indices"):
        accelerator.isolation(indices, {})


@each_vendor
def test_an_isolated_worker_has_index_0(vendor: Vendor, machine: Machine) -> None:
    """The worker's torch sees one device, whatever its index was in the process that started it."""
    models = ["Chip 0", "Chip 1", "Chip 2"]
    vendor.reach(machine, models)
    name = vendor.make().name
    chosen = resolve(f"{name}:2")
    for variable, value in chosen.accelerator.isolation([chosen.index]).items():
        machine.variable(variable, value)
    vendor.reach(machine, models[2:])
    own = resolve(name)
    assert (own.index, own.model) == (0, "Chip 2")
    assert own.torch_device.endswith(":0")
    with pytest.raises(AcceleratorError, match="has 1 device, 0"):
        resolve(f"{name}:2")


def test_a_tools_row_is_found_in_the_isolated_worker(machine: Machine) -> None:
    vendor = VENDORS["nvidia"]
    for variable, value in vendor.make().isolation([2]).items():
        machine.variable(variable, value)
    vendor.reach(machine, ["H200"])
    vendor.tools[0].show(machine, ["H200"] * 3)
    assert resolve("nvidia:0").memory == (72 * MIB, 80 * MIB)


@pytest.mark.parametrize("accelerator", [Cpu(), Mps()], ids=["cpu", "mps"])
def test_what_nothing_hides_needs_no_variable(accelerator: Cpu | Mps) -> None:
    assert accelerator.visible({"CUDA_VISIBLE_DEVICES": "x"}) is None
    assert accelerator.isolation([0], {}) == {}
