"""Each vendor's machine as its tools and its torch show it, so that tests run over all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from recon4d.accelerators import Accelerator
from recon4d.accelerators.amd import Amd
from recon4d.accelerators.ascend import Ascend
from recon4d.accelerators.biren import Biren
from recon4d.accelerators.intel import Intel
from recon4d.accelerators.kunlunxin import Kunlunxin
from recon4d.accelerators.metax import Metax
from recon4d.accelerators.musa import Musa
from recon4d.accelerators.nvidia import Nvidia
from tests.recon4d.accelerators.machine import FakeTorch, Machine

Models = Sequence[str]
MIB = 2**20


class Sick(Exception):
    """What a fake vendor library raises."""


def sick(*_: object) -> Any:
    raise Sick("Driver/library version mismatch\nsecond line")


def nothing(*_: object) -> None:
    pass


@dataclass(frozen=True)
class Library:
    """A management library: its module, how it shows devices, and a call of it that may fail."""

    module: str
    show: Callable[[Machine, Models], None]
    call: str


@dataclass(frozen=True)
class Command:
    """A command-line tool: what it prints for devices, and for none."""

    name: str
    show: Callable[[Machine, Models], None]


@dataclass(frozen=True)
class Vendor:
    make: Callable[[], Accelerator]
    reach: Callable[[Machine, Models], FakeTorch]
    """Installs the torch that reaches devices; gives the fake part of torch."""
    absent: str
    """The reason on a machine without anything of the vendor."""
    lacking: str
    """The start of it: why torch alone would not do."""
    library: Library | None = None
    command: Command | None = None
    variables: dict[str, str] = field(default_factory=dict)
    """What isolates devices 2 and 0, in this order."""

    @property
    def tools(self) -> list[Library | Command]:
        return [tool for tool in (self.library, self.command) if tool is not None]


def nvml(machine: Machine, models: Models) -> None:
    machine.module(
        "pynvml",
        nvmlInit=nothing,
        nvmlShutdown=nothing,
        nvmlDeviceGetCount=lambda: len(models),
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetName=lambda handle: models[handle].encode(),  # Bytes, as older versions gave.
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(free=(70 + handle) * MIB, total=80 * MIB),
    )


def nvidia_smi(machine: Machine, models: Models) -> None:
    machine.command("nvidia-smi", "".join(f"{model}, {70 + i}, 80\n" for i, model in enumerate(models)))


def amdsmi(machine: Machine, models: Models) -> None:
    machine.module(
        "amdsmi",
        amdsmi_init=nothing,
        amdsmi_shut_down=nothing,
        amdsmi_get_processor_handles=lambda: list(range(len(models))),
        amdsmi_get_gpu_asic_info=lambda handle: {"market_name": models[handle]},
        amdsmi_get_gpu_vram_usage=lambda handle: {"vram_total": 80, "vram_used": 10 - handle},
    )


def rocm_smi(machine: Machine, models: Models) -> None:
    def card(i: int) -> dict[str, str]:
        memory = {
            "VRAM Total Memory (B)": str(80 * MIB),
            "VRAM Total Used Memory (B)": str((10 - i) * MIB),
        }
        return {"Card Series" if i else "Card series": models[i], **memory}

    # Not in order, after a warning, and with a row that is no card.
    cards = {f"card{i}": card(i) for i in reversed(range(len(models)))}
    machine.command("rocm-smi", "WARNING: AMD GPU is in a low-power state\n" + json.dumps({**cards, "system": {}}))


def xpu_smi(machine: Machine, models: Models) -> None:
    devices = [{"device_id": i, "device_name": model, "device_type": "GPU"} for i, model in enumerate(models)]
    machine.command("xpu-smi", json.dumps({"device_list": devices}))


def acl(machine: Machine, models: Models) -> None:
    rt = SimpleNamespace(get_device_count=lambda: (len(models), 0))
    machine.module("acl", rt=rt, get_soc_name=lambda: models[0])


def npu_smi(machine: Machine, models: Models) -> None:
    rows = "".join(f"\t{i // 2}  {i % 2}   {i}     {m}  \n\t{i // 2}  9   -     Mcu\n" for i, m in enumerate(models))
    machine.command("npu-smi", "\tNPU ID   Chip ID    Chip Logic ID    Chip Name\n" + rows)


def mtml(machine: Machine, models: Models) -> None:
    machine.module(
        "pymtml",
        mtmlLibraryInit=nothing,
        mtmlLibraryShutDown=nothing,
        mtmlLibraryCountDevice=lambda: len(models),
        mtmlLibraryInitDeviceByIndex=lambda i: i,
        mtmlDeviceGetName=lambda handle: models[handle],
    )


def xpuml(machine: Machine, models: Models) -> None:
    machine.module("torch_xmlir")
    machine.module(
        "torch_xmlir._XMLIRC",
        xpumlInit=nothing,
        xpumlShutdown=nothing,
        xpumlDeviceGetCount=lambda: len(models),
        xpumlDeviceGetHandleByIndex=lambda i: i,
        xpumlDeviceGetName=lambda handle: models[handle].encode(),
    )


def mxsml(machine: Machine, models: Models) -> None:
    machine.module(
        "pymxsml",
        mxSmlInit=nothing,
        mxSmlGetDeviceCount=lambda: len(models),
        mxSmlGetDeviceInfo=lambda i: SimpleNamespace(deviceName=models[i]),
    )


def mx_smi(machine: Machine, models: Models) -> None:
    """The table for people has the models and no JSON has; the fake prints both at once."""
    cards: dict[str, Any] = {f"0000:{i:02x}:00.0": {"device_id": i} for i in range(len(models))}
    cards["0000:ff:00.0"] = {"device_id": 99, "unavailable_reason": "in use by a virtual machine"}
    table = "".join(f"| {i}     {model} | 30W |\n" for i, model in enumerate(models))
    machine.command("mx-smi", json.dumps({"attached_gpus": len(models), **cards}) + "\n" + table)


def cuda(version: str, **marks: str) -> Callable[[Machine, Models], FakeTorch]:
    def reach(machine: Machine, models: Models) -> FakeTorch:
        machine.build(version, **marks)
        return machine.part("cuda", models)

    return reach


def plugged(module: str, part: str) -> Callable[[Machine, Models], FakeTorch]:
    def reach(machine: Machine, models: Models) -> FakeTorch:
        machine.module(module)
        return machine.part(part, models)

    return reach


def reach_intel(machine: Machine, models: Models) -> FakeTorch:
    machine.build("2.9.0+xpu", xpu="20250101")
    return machine.part("xpu", models)


def reach_kunlunxin(machine: Machine, models: Models) -> FakeTorch:
    machine.build("2.5.1+cu118", cuda="11.8")
    machine.module("torch_xmlir")
    machine.module("torch_xmlir._XMLIRC", xpumlInit=sick)
    return machine.part("cuda", models)


NO_CUDA = "torch 2.9.0+cpu is built without devices called 'cuda'"
NOSET = "RAY_EXPERIMENTAL_NOSET_"

VENDORS = {
    "nvidia": Vendor(
        make=Nvidia,
        reach=cuda("2.9.0+cu128", cuda="12.8"),
        lacking=NO_CUDA,
        absent=f"{NO_CUDA}; pynvml is not installed; nvidia-smi is not on PATH",
        library=Library("pynvml", nvml, "nvmlInit"),
        command=Command("nvidia-smi", nvidia_smi),
        variables={"CUDA_VISIBLE_DEVICES": "2,0", NOSET + "CUDA_VISIBLE_DEVICES": "1"},
    ),
    "amd": Vendor(
        make=Amd,
        reach=cuda("2.9.0+rocm6.4", hip="6.4.43482"),
        lacking=NO_CUDA,
        absent=f"{NO_CUDA}; amdsmi is not installed; rocm-smi is not on PATH",
        library=Library("amdsmi", amdsmi, "amdsmi_init"),
        command=Command("rocm-smi", rocm_smi),
        variables={
            "HIP_VISIBLE_DEVICES": "2,0",
            NOSET + "ROCR_VISIBLE_DEVICES": "1",
            NOSET + "HIP_VISIBLE_DEVICES": "1",
        },
    ),
    "intel": Vendor(
        make=Intel,
        reach=reach_intel,
        lacking="torch 2.9.0+cpu is built without XPU",
        absent="torch 2.9.0+cpu is built without XPU; xpu-smi is not on PATH",
        command=Command("xpu-smi", xpu_smi),
        variables={"ONEAPI_DEVICE_SELECTOR": "level_zero:2,0", NOSET + "ONEAPI_DEVICE_SELECTOR": "1"},
    ),
    "ascend": Vendor(
        make=Ascend,
        reach=plugged("torch_npu", "npu"),
        lacking="torch_npu is not installed",
        absent="torch_npu is not installed; acl is not installed; npu-smi is not on PATH",
        library=Library("acl", acl, "get_soc_name"),
        command=Command("npu-smi", npu_smi),
        variables={"ASCEND_RT_VISIBLE_DEVICES": "2,0", NOSET + "ASCEND_RT_VISIBLE_DEVICES": "1"},
    ),
    "musa": Vendor(
        make=Musa,
        reach=plugged("torch_musa", "musa"),
        lacking="torch_musa is not installed",
        absent="torch_musa is not installed; pymtml is not installed",
        library=Library("pymtml", mtml, "mtmlLibraryInit"),
        variables={"MUSA_VISIBLE_DEVICES": "2,0", NOSET + "MUSA_VISIBLE_DEVICES": "1"},
    ),
    "kunlunxin": Vendor(
        make=Kunlunxin,
        reach=reach_kunlunxin,
        lacking=NO_CUDA,  # torch_xmlir is its tool and what torch needs, so a seen device has it.
        absent="torch_xmlir is not installed",
        library=Library("torch_xmlir._XMLIRC", xpuml, "xpumlInit"),
        variables={"CUDA_VISIBLE_DEVICES": "2,0", NOSET + "CUDA_VISIBLE_DEVICES": "1"},
    ),
    "metax": Vendor(
        make=Metax,
        reach=cuda("2.8.0+metax3.3.0.2", cuda="11.6", maca="3.3.0"),
        lacking=NO_CUDA,
        absent=f"{NO_CUDA}; pymxsml is not installed; mx-smi is not on PATH",
        library=Library("pymxsml", mxsml, "mxSmlInit"),
        command=Command("mx-smi", mx_smi),
        variables={"MACA_VISIBLE_DEVICES": "2,0", NOSET + "CUDA_VISIBLE_DEVICES": "1"},
    ),
    "biren": Vendor(
        make=Biren,
        reach=plugged("torch_supa", "supa"),
        lacking="torch_supa is not installed",
        absent="torch_supa is not installed",
        variables={"SUPA_VISIBLE_DEVICES": "2,0", NOSET + "SUPA_VISIBLE_DEVICES": "1"},
    ),
}
