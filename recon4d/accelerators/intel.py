"""Intel GPUs: the XPU build of torch."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._contract import Accelerator, Found, Tool
from recon4d.accelerators._tools import garbage, output, parsed


class Intel(Accelerator):
    """Intel GPUs; seen by ``xpu-smi``."""

    name = "intel"
    vendor = "Intel"
    rlinf_type = "INTEL_GPU"
    device_type = "xpu"
    remedy = "install an XPU build of torch: pip install torch --index-url https://download.pytorch.org/whl/xpu"
    visible_devices_env = "ONEAPI_DEVICE_SELECTOR"
    # Indices alone are no valid selector to SYCL: it wants the runtime before them, as Ray writes it too.
    visible_prefix = "level_zero:"
    ray_noset_env = ("RAY_EXPERIMENTAL_NOSET_ONEAPI_DEVICE_SELECTOR",)
    ccl_backend = "ccl"
    ccl_ifname_env = "CCL_MNIC_NAME"

    def torch_module(self) -> ModuleType:
        import torch

        return torch.xpu

    def lacks(self) -> str | None:
        import torch

        # Not every build that has XPU says so in its version.
        if getattr(torch.version, "xpu", None) or torch.xpu.device_count() > 0:
            return None
        return f"torch {_torch.version()} is built without XPU"

    def tools(self) -> Sequence[Tool]:
        return (Tool("xpu-smi", _smi),)


def _smi() -> list[Found]:
    said = output("xpu-smi", "discovery", "-j")
    devices = parsed("xpu-smi", said).get("device_list")
    if not isinstance(devices, list) or not all(isinstance(device, dict) for device in devices):
        raise garbage("xpu-smi", said)
    return [Found(model=str(device.get("device_name", ""))) for device in devices]


ACCELERATOR = Intel()
