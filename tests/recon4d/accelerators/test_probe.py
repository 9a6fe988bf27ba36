"""Every vendor's probe on every kind of machine: with the hardware and without, with good tools and bad ones."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from recon4d.accelerators import Accelerator, Probe, _tools
from tests.recon4d.accelerators.machine import Machine
from tests.recon4d.accelerators.vendors import MIB, VENDORS, Command, Library, Vendor, sick

MODEL = "MetaX C500"  # mx-smi's table is known by the first word; to the other tools it is a name as any.
each_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
each_library = pytest.mark.parametrize("vendor", [v for v in VENDORS.values() if v.library], ids=lambda v: v.make.name)
each_command = pytest.mark.parametrize("vendor", [v for v in VENDORS.values() if v.command], ids=lambda v: v.make.name)


def name_of(tool: Library | Command) -> str:
    """What a reason calls a tool."""
    return tool.name if isinstance(tool, Command) else tool.module.split(".")[0]


def tools(*, but: str = "") -> pytest.MarkDecorator:
    """Every vendor with each of its tools."""
    pairs = [(vendor, tool) for vendor in VENDORS.values() for tool in vendor.tools if name_of(tool) != but]
    names = [f"{vendor.make.name}-{name_of(tool)}" for vendor, tool in pairs]
    return pytest.mark.parametrize(("vendor", "tool"), pairs, ids=names)


def library(vendor: Vendor) -> Library:
    assert vendor.library is not None
    return vendor.library


def command(vendor: Vendor) -> Command:
    assert vendor.command is not None
    return vendor.command


def reason(accelerator: Accelerator) -> str:
    """Why there is no device; there must be none."""
    probe = accelerator.probe()
    assert probe.count == 0
    assert "\n" not in probe.reason
    return probe.reason


@each_vendor
def test_nothing_is_there(vendor: Vendor) -> None:
    accelerator = vendor.make()
    assert accelerator.probe() == Probe(0, vendor.absent)
    assert accelerator.model(0) == "UNKNOWN"
    assert accelerator.memory(0) is None


@tools()
def test_devices_are_there(vendor: Vendor, tool: Library | Command, machine: Machine) -> None:
    part = vendor.reach(machine, [MODEL] * 3)
    tool.show(machine, [MODEL] * 3)
    accelerator = vendor.make()
    assert accelerator.probe() == Probe(3)
    assert [accelerator.model(i) for i in range(3)] == [MODEL] * 3
    assert not part.started
    assert accelerator.model(3) == "UNKNOWN"


@each_vendor
def test_torch_counts_where_no_tool_is_installed(vendor: Vendor, machine: Machine) -> None:
    part = vendor.reach(machine, [MODEL, "Chip X2"])
    accelerator = vendor.make()
    assert accelerator.probe() == Probe(2)
    assert not part.started
    assert [accelerator.model(i) for i in range(3)] == [MODEL, "Chip X2", "UNKNOWN"]
    assert accelerator.memory(1) == (1001, 2000)


@tools()
def test_a_device_that_torch_cannot_reach_does_not_count(
    vendor: Vendor, tool: Library | Command, machine: Machine
) -> None:
    tool.show(machine, [MODEL] * 2)
    accelerator = vendor.make()
    expected = f"{name_of(tool)} sees 2 × {MODEL}, but torch cannot reach that: {vendor.lacking}; {accelerator.remedy}"
    assert reason(accelerator) == expected


@tools(but="rocm-smi")  # It prints nothing that tells no device from a fault.
def test_no_device_is_an_answer_and_torch_is_not_asked(
    vendor: Vendor, tool: Library | Command, machine: Machine
) -> None:
    part = vendor.reach(machine, [MODEL])
    tool.show(machine, [])
    assert reason(vendor.make()) == f"{name_of(tool)} sees no device"
    assert part.counted == 0


@tools()
def test_torch_counts_none_of_what_a_tool_sees(vendor: Vendor, tool: Library | Command, machine: Machine) -> None:
    vendor.reach(machine, [])
    tool.show(machine, [MODEL] * 2)
    accelerator = vendor.make()
    said = reason(accelerator)
    if vendor.make.name == "intel":
        machine.variable("ONEAPI_DEVICE_SELECTOR", "opencl:cpu")
    else:
        machine.variable(accelerator.visible_devices_env, "")
    assert said.startswith(f"{name_of(tool)} sees 2 × {MODEL}, but torch 2.")
    assert said.endswith("counts no device")
    assert f"counts no device with {accelerator.visible_devices_env} at '" in reason(accelerator)


@each_library
def test_a_library_that_cannot_be_imported_is_passed_over(vendor: Vendor, machine: Machine) -> None:
    module = library(vendor).module.split(".")[0]
    machine.broken_module(module, "OSError('libvendor.so.1: cannot open shared object file')")
    said = f"{module} cannot be imported: OSError: libvendor.so.1: cannot open shared object file"
    assert said in reason(vendor.make()).replace("torch_xmlir._XMLIRC", "torch_xmlir")
    if module != "torch_xmlir":  # Without it torch reaches nothing.
        vendor.reach(machine, [MODEL])
        assert vendor.make().probe() == Probe(1)


@each_library
def test_a_library_that_lacks_another_module_says_which(vendor: Vendor, machine: Machine) -> None:
    module = library(vendor).module.split(".")[0]
    machine.broken_module(module, "ModuleNotFoundError(\"No module named 'lib_y'\", name='lib_y')")
    assert "cannot be imported: No module named 'lib_y'" in reason(vendor.make())


@each_library
def test_a_library_call_that_raises_is_passed_over(vendor: Vendor, machine: Machine) -> None:
    tool = library(vendor)
    tool.show(machine, [MODEL])
    setattr(sys.modules[tool.module], tool.call, sick)
    assert reason(vendor.make()).split("; ")[1] == "Sick: Driver/library version mismatch"
    vendor.reach(machine, [MODEL])
    setattr(sys.modules[tool.module], tool.call, sick)
    assert vendor.make().probe() == Probe(1)


@pytest.mark.parametrize("key", ["nvidia", "amd", "ascend", "metax"])
def test_the_library_that_fails_gives_way_to_the_command(key: str, machine: Machine) -> None:
    vendor = VENDORS[key]
    vendor.reach(machine, [MODEL])
    library(vendor).show(machine, ["wrong"])
    setattr(sys.modules[library(vendor).module], library(vendor).call, sick)
    command(vendor).show(machine, [MODEL])
    accelerator = vendor.make()
    assert accelerator.probe() == Probe(1)
    assert accelerator.model(0) == MODEL


@each_command
@pytest.mark.parametrize("out", ["no devices, call your administrator\n", "{'a': 1}", '{"driver": "1.0"}', "\x00\x1b["])
def test_a_command_that_prints_garbage(vendor: Vendor, machine: Machine, out: str) -> None:
    machine.command(command(vendor).name, out)
    assert f"{command(vendor).name} printed what cannot be read: {out.strip()!r}" in reason(vendor.make())
    vendor.reach(machine, [MODEL])
    assert vendor.make().probe() == Probe(1)


@each_command
@pytest.mark.parametrize(("out", "err"), [("", "no driver\nmore"), ("no driver", "")])
def test_a_command_that_fails(vendor: Vendor, machine: Machine, out: str, err: str) -> None:
    machine.command(command(vendor).name, out, err=err, code=9)
    assert f"{command(vendor).name} failed with exit code 9: no driver" in reason(vendor.make())


@each_command
def test_a_command_that_cannot_be_started(vendor: Vendor, machine: Machine) -> None:
    machine.command(command(vendor).name)
    Path(str(shutil.which(command(vendor).name))).write_text("#!/nowhere/sh\n")
    assert f"{command(vendor).name} cannot be started: No such file or directory" in reason(vendor.make())


@each_command
def test_a_command_that_hangs(vendor: Vendor, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tools, "TIMEOUT_S", 0.2)
    machine.command(command(vendor).name, hangs=True)
    assert f"{command(vendor).name} did not answer within 0.2 s" in reason(vendor.make())
    vendor.reach(machine, [MODEL])
    assert vendor.make().probe() == Probe(1)


@tools()
def test_models_are_tidied(vendor: Vendor, tool: Library | Command, machine: Machine) -> None:
    vendor.reach(machine, ["x"])
    tool.show(machine, ["MetaX:昇腾:910™"])
    accelerator = vendor.make()
    accelerator.probe()
    assert accelerator.model(0) == "MetaX 昇腾 910™"


def test_a_model_on_two_lines_is_put_on_one(machine: Machine) -> None:
    vendor = VENDORS["biren"]
    vendor.reach(machine, [" BR:104 \n x", " : "])
    assert [vendor.make().model(i) for i in range(2)] == ["BR 104 x", "UNKNOWN"]


@tools(but="acl")  # It knows one model a machine.
def test_unlike_devices_are_named_by_torch(vendor: Vendor, tool: Library | Command, machine: Machine) -> None:
    """torch may put the fastest first, where tools go by slot."""
    vendor.reach(machine, ["MetaX fast", "MetaX slow"])
    tool.show(machine, ["MetaX slow", "MetaX fast"])
    accelerator = vendor.make()
    assert accelerator.probe() == Probe(2)
    assert [accelerator.model(i) for i in range(2)] == ["MetaX fast", "MetaX slow"]
    assert accelerator.memory(1) == (1001, 2000)


PLUGINS = {"ascend": ("torch_npu", "npu"), "musa": ("torch_musa", "musa"), "biren": ("torch_supa", "supa")}


@pytest.mark.parametrize("key", PLUGINS)
def test_torch_plugin_that_is_broken_or_does_not_fit(key: str, machine: Machine) -> None:
    module, part = PLUGINS[key]
    accelerator = VENDORS[key].make()
    machine.module(module)
    assert reason(accelerator).startswith(f"{module} does not fit torch 2.9.0+cpu: it adds no torch.{part}")
    with pytest.raises(ImportError, match=f"no torch.{part}"):
        accelerator.torch_module()
    machine.broken_module(module, "OSError('libhal.so: cannot open shared object file')")
    assert f"{module} cannot be imported: OSError: libhal.so: cannot open shared object file" in reason(accelerator)
    machine.broken_module(module, "RuntimeError('compiled for torch 2.1')")
    assert f"{module} cannot be imported: RuntimeError: compiled for torch 2.1" in reason(accelerator)


@each_vendor
def test_torch_that_raises_when_counting(vendor: Vendor, machine: Machine) -> None:
    part = vendor.reach(machine, [MODEL])
    part.device_count = sick
    if vendor.make.name == "intel":
        machine.build("2.9.0+xpu", xpu="20250101")
    assert reason(vendor.make()) == "probing failed: Sick: Driver/library version mismatch"


@pytest.mark.parametrize(("key", "which"), [("nvidia", 0), ("nvidia", 1), ("amd", 0), ("amd", 1)])
def test_memory_is_the_tools_until_torch_has_started(key: str, which: int, machine: Machine) -> None:
    vendor = VENDORS[key]
    part = vendor.reach(machine, [MODEL] * 3)
    vendor.tools[which].show(machine, [MODEL] * 3)
    accelerator = vendor.make()
    assert accelerator.probe() == Probe(3)
    assert [accelerator.memory(i) for i in range(3)] == [((70 + i) * MIB, 80 * MIB) for i in range(3)]
    assert accelerator.memory(3) is None
    part.started = True
    assert accelerator.memory(2) == (1002, 2000)


@pytest.mark.parametrize("key", ["nvidia", "amd"])
def test_what_tools_tell_is_looked_up_behind_hidden_devices(key: str, machine: Machine) -> None:
    vendor = VENDORS[key]
    part = vendor.reach(machine, [MODEL])
    vendor.tools[1].show(machine, [MODEL] * 3)
    accelerator = vendor.make()
    machine.variable(accelerator.visible_devices_env, "2")
    assert accelerator.probe() == Probe(1)
    assert accelerator.memory(0) == (72 * MIB, 80 * MIB)
    machine.variable(accelerator.visible_devices_env, "GPU-8f2c")  # An identifier: torch must tell.
    assert accelerator.memory(0) == (1000, 2000)
    assert part.started


def test_shared_memory_of_nvidia_smi_is_torchs_to_tell(machine: Machine) -> None:
    VENDORS["nvidia"].reach(machine, ["GB10"])
    machine.command("nvidia-smi", "NVIDIA GB10, [N/A], [N/A]\n")
    accelerator = VENDORS["nvidia"].make()
    assert accelerator.probe() == Probe(1)
    assert (accelerator.model(0), accelerator.memory(0)) == ("NVIDIA GB10", (1000, 2000))


def test_acl_that_counts_with_an_error(machine: Machine) -> None:
    VENDORS["ascend"].tools[0].show(machine, [MODEL])
    sys.modules["acl"].rt.get_device_count = lambda: (0, 507899)
    assert "acl counts no devices: error 507899" in reason(VENDORS["ascend"].make())


@each_vendor
def test_waiting_is_for_the_device(vendor: Vendor, machine: Machine) -> None:
    part = vendor.reach(machine, [MODEL] * 2)
    vendor.make().synchronize(1)
    assert part.waited == [1]


def test_a_probe_says_why_or_counts() -> None:
    for count, words in ((0, ""), (1, "why"), (-1, "why")):
        with pytest.raises(ValueError, match="-1" if count < 0 else "reason"):
            Probe(count, words)
