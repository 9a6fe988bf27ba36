"""Huawei Ascend NPUs: torch_npu."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._contract import Accelerator, Found, Tool
from recon4d.accelerators._tools import NoAnswer, garbage, library, output, text


class Ascend(Accelerator):
    """Ascend NPUs; seen by CANN's ``acl`` module or ``npu-smi``."""

    name = "ascend"
    vendor = "Huawei Ascend"
    rlinf_type = "NPU"
    device_type = "npu"
    remedy = "install CANN, and the torch_npu whose version is torch's"
    visible_devices_env = "ASCEND_RT_VISIBLE_DEVICES"
    ray_noset_env = ("RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES",)
    ccl_backend = "hccl"
    ccl_ifname_env = "HCCL_SOCKET_IFNAME"

    def torch_module(self) -> ModuleType:
        return _torch.plugin("torch_npu", "npu")

    def tools(self) -> Sequence[Tool]:
        return Tool("acl", _acl), Tool("npu-smi", _smi)


def _acl() -> list[Found]:
    acl = library("acl")
    count, code = acl.rt.get_device_count()
    if code != 0:
        raise NoAnswer(f"acl counts no devices: error {code}")
    return [Found(model=text(acl.get_soc_name() or "")) for _ in range(count)]


def _smi() -> list[Found]:
    """Rows of the mapping table: NPU, chip, logic ID, name. The management chip of a board has no logic ID."""
    said = output("npu-smi", "info", "-m")
    if "Chip Logic ID" not in said:
        raise garbage("npu-smi", said)
    rows = re.findall(r"^\s*\d+\s+\d+\s+(\d+)\s+(\S.*?)\s*$", said, re.MULTILINE)
    return [Found(model=name) for _, name in sorted(rows, key=lambda row: int(row[0]))]


ACCELERATOR = Ascend()
