"""The host's processors, all of them as one device. Always there."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from types import ModuleType

from recon4d.accelerators._contract import Accelerator, tidy

_PROC = Path("/proc")


class Cpu(Accelerator):
    """The CPU. Threads share it, and nothing hides it from a process."""

    name = "cpu"
    vendor = "CPU"
    rlinf_type = "NO_ACCEL"
    device_type = "cpu"
    rasterizers = ("cpu",)

    def torch_module(self) -> ModuleType:
        import torch

        return torch.cpu

    def model(self, index: int) -> str:
        named = re.search(r"^model name\s*:(.*)$", _read("cpuinfo"), re.MULTILINE)
        return tidy(named.group(1) if named else platform.processor())

    def memory(self, index: int) -> tuple[int, int] | None:
        """What the system could give without swapping, and all there is; None where there is no /proc."""
        sizes = dict(re.findall(r"^(MemAvailable|MemTotal):\s*(\d+) kB$", _read("meminfo"), re.MULTILINE))
        return (1024 * int(sizes["MemAvailable"]), 1024 * int(sizes["MemTotal"])) if len(sizes) == 2 else None

    def synchronize(self, index: int) -> None:
        """Nothing: the CPU is done when a call returns."""

    def torch_device(self, index: int) -> str:
        return self.device_type


def _read(name: str) -> str:
    try:
        return (_PROC / name).read_text("utf-8", "replace")
    except OSError:
        return ""


ACCELERATOR = Cpu()
