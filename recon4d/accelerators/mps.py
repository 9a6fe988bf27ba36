"""GPUs of Apple silicon: Metal, in every torch for macOS."""

from __future__ import annotations

from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._contract import UNKNOWN, Accelerator, tidy
from recon4d.accelerators._tools import NoAnswer, output


class Mps(Accelerator):
    """The one GPU of an Apple chip. It shares the host's memory, and nothing hides it from a process."""

    name = "mps"
    vendor = "Apple"
    rlinf_type = "NO_ACCEL"
    device_type = "mps"

    def torch_module(self) -> ModuleType:
        import torch

        return torch.mps

    def lacks(self) -> str | None:
        import torch

        if not torch.backends.mps.is_built():
            return f"torch {_torch.version()} is built without MPS, which is for macOS on Apple silicon"
        if not torch.backends.mps.is_available():
            return "torch is built with MPS but Metal is not available: it needs macOS 12.3 and a Mac with its own GPU"
        return None

    def model(self, index: int) -> str:
        try:
            return tidy(output("sysctl", "-n", "machdep.cpu.brand_string"))
        except NoAnswer:
            return UNKNOWN

    def memory(self, index: int) -> tuple[int, int] | None:
        """What Metal recommends at most, and what this process has not taken of it."""
        try:
            module = self.torch_module()
            total = int(module.recommended_max_memory())
            return max(0, total - int(module.driver_allocated_memory())), total
        except Exception:  # noqa: BLE001 - torch raises several kinds where Metal is missing.
            return None

    def synchronize(self, index: int) -> None:
        self.torch_module().synchronize()

    def torch_device(self, index: int) -> str:
        return self.device_type


ACCELERATOR = Mps()
