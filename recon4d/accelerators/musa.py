"""Moore Threads GPUs: torch_musa."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._contract import Accelerator, Found, Tool
from recon4d.accelerators._tools import library, text


class Musa(Accelerator):
    """Moore Threads GPUs; seen by ``pymtml``."""

    name = "musa"
    vendor = "Moore Threads"
    rlinf_type = "MUSA_GPU"
    device_type = "musa"
    remedy = "install the vendor's torch and torch_musa, see https://github.com/MooreThreads/torch_musa"
    visible_devices_env = "MUSA_VISIBLE_DEVICES"
    ray_noset_env = ("RAY_EXPERIMENTAL_NOSET_MUSA_VISIBLE_DEVICES",)
    ccl_backend = "mccl"
    ccl_ifname_env = "MCCL_SOCKET_IFNAME"

    def torch_module(self) -> ModuleType:
        return _torch.plugin("torch_musa", "musa")

    def tools(self) -> Sequence[Tool]:
        return (Tool("pymtml", _mtml),)


def _mtml() -> list[Found]:
    mtml = library("pymtml")
    mtml.mtmlLibraryInit()
    try:
        handles = [mtml.mtmlLibraryInitDeviceByIndex(i) for i in range(mtml.mtmlLibraryCountDevice())]
        return [Found(model=text(mtml.mtmlDeviceGetName(handle))) for handle in handles]
    finally:
        mtml.mtmlLibraryShutDown()


ACCELERATOR = Musa()
