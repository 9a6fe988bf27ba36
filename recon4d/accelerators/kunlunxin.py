"""Kunlunxin XPUs: a CUDA build of torch that torch_xmlir turns to them, so that they are called "cuda"."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._contract import Accelerator, Found, Tool
from recon4d.accelerators._tools import NoAnswer, library, text


class Kunlunxin(Accelerator):
    """Kunlunxin XPUs; seen by the management library inside torch_xmlir."""

    name = "kunlunxin"
    vendor = "Kunlunxin"
    rlinf_type = "KUNLUN_XPU"
    device_type = "cuda"
    remedy = "install the vendor's torch and torch_xmlir"
    visible_devices_env = "CUDA_VISIBLE_DEVICES"
    ray_noset_env = ("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",)
    ccl_backend = "bkcl"
    ccl_ifname_env = "BKCL_SOCKET_IFNAME"

    def torch_module(self) -> ModuleType:
        try:
            library("torch_xmlir")  # Turns torch.cuda to the vendor's chips.
        except NoAnswer as error:
            raise ImportError(str(error)) from error
        return _torch.cuda()

    def lacks(self) -> str | None:
        # Where torch_xmlir is missing, its absence says more than whom torch is built for.
        return super().lacks() or _torch.lacks_cuda_of(self.name)

    def tools(self) -> Sequence[Tool]:
        return (Tool("torch_xmlir", _xpuml),) if _torch.installed("torch_xmlir") else ()


def _xpuml() -> list[Found]:
    xpuml = library("torch_xmlir._XMLIRC")
    xpuml.xpumlInit()
    try:
        handles = [xpuml.xpumlDeviceGetHandleByIndex(i) for i in range(xpuml.xpumlDeviceGetCount())]
        return [Found(model=text(xpuml.xpumlDeviceGetName(handle))) for handle in handles]
    finally:
        xpuml.xpumlShutdown()


ACCELERATOR = Kunlunxin()
