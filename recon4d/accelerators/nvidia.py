"""NVIDIA GPUs: the CUDA build of torch."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._contract import Accelerator, Found, Tool
from recon4d.accelerators._tools import garbage, kernel_module, library, output, text

_MIB = 2**20


class Nvidia(Accelerator):
    """NVIDIA GPUs; seen by NVML, through its Python bindings or ``nvidia-smi``."""

    name = "nvidia"
    vendor = "NVIDIA"
    rlinf_type = "NV_GPU"
    device_type = "cuda"
    remedy = "install a CUDA build of torch, see https://pytorch.org/get-started/locally"
    visible_devices_env = "CUDA_VISIBLE_DEVICES"
    ray_noset_env = ("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",)
    ccl_backend = "nccl"
    ccl_ifname_env = "NCCL_SOCKET_IFNAME"
    rasterizers = ("gsplat", "torch")

    def torch_module(self) -> ModuleType:
        return _torch.cuda()

    def lacks(self) -> str | None:
        return _torch.lacks_cuda_of(self.name)

    def driver(self) -> str | None:
        return kernel_module("nvidia")

    def tools(self) -> Sequence[Tool]:
        return Tool("pynvml", _nvml), Tool("nvidia-smi", _smi)


def _nvml() -> list[Found]:
    nvml = library("pynvml")
    nvml.nvmlInit()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        found = []
        for handle in handles:
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            model = text(nvml.nvmlDeviceGetName(handle))
            found.append(Found(model=model, memory=(int(memory.free), int(memory.total))))
        return found
    finally:
        nvml.nvmlShutdown()


def _smi() -> list[Found]:
    said = output("nvidia-smi", "--query-gpu=name,memory.free,memory.total", "--format=csv,noheader,nounits")
    found = []
    for line in said.strip().splitlines():
        cells = [cell.strip() for cell in line.rsplit(",", 2)]
        if len(cells) != 3:
            raise garbage("nvidia-smi", line)
        # Chips that share the host's memory print "[N/A]" for it.
        memory = (int(cells[1]) * _MIB, int(cells[2]) * _MIB) if cells[1].isdigit() and cells[2].isdigit() else None
        found.append(Found(model=cells[0], memory=memory))
    return found


ACCELERATOR = Nvidia()
