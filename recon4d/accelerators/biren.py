"""Biren GPUs: torch_supa."""

from __future__ import annotations

from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._contract import Accelerator


class Biren(Accelerator):
    """Biren GPUs; seen by torch_supa alone."""

    name = "biren"
    vendor = "Biren"
    rlinf_type = "BIREN_GPU"
    device_type = "supa"
    visible_devices_env = "SUPA_VISIBLE_DEVICES"
    ray_noset_env = ("RAY_EXPERIMENTAL_NOSET_SUPA_VISIBLE_DEVICES",)
    ccl_backend = "bccl"
    ccl_ifname_env = "BCCL_SOCKET_IFNAME"

    def torch_module(self) -> ModuleType:
        return _torch.plugin("torch_supa", "supa")


ACCELERATOR = Biren()
