"""MetaX GPUs: the vendor's build of torch, which calls them "cuda"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._contract import Accelerator, Found, Tool
from recon4d.accelerators._tools import garbage, library, output, parsed, text


class Metax(Accelerator):
    """MetaX GPUs; seen by ``pymxsml`` or ``mx-smi``."""

    name = "metax"
    vendor = "MetaX"
    rlinf_type = "METAX_GPU"
    device_type = "cuda"
    remedy = "install the vendor's torch (its version ends in +metax…), see https://developer.metax-tech.com"
    visible_devices_env = "MACA_VISIBLE_DEVICES"
    # Ray knows no MetaX, and hides devices called "cuda" by NVIDIA's variable.
    ray_noset_env = ("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",)
    ccl_backend = "mccl"
    ccl_ifname_env = "MCCL_SOCKET_IFNAME"

    def torch_module(self) -> ModuleType:
        return _torch.cuda()

    def lacks(self) -> str | None:
        return _torch.lacks_cuda_of(self.name)

    def tools(self) -> Sequence[Tool]:
        return Tool("pymxsml", _mxsml), Tool("mx-smi", _smi)


def _mxsml() -> list[Found]:
    mxsml = library("pymxsml")
    mxsml.mxSmlInit()
    infos = [mxsml.mxSmlGetDeviceInfo(i) for i in range(mxsml.mxSmlGetDeviceCount())]
    return [Found(model=text(info.deviceName)) for info in infos]


def _smi() -> list[Found]:
    """Devices from the JSON form, which lacks their models; the models from the table for people, when it has them."""
    said = output("mx-smi", "-j")
    listed = parsed("mx-smi", said)
    cards = [card for card in listed.values() if isinstance(card, dict) and "device_id" in card]
    if not cards and "attached_gpus" not in listed:
        raise garbage("mx-smi", said)
    count = sum(not card.get("unavailable_reason") for card in cards)
    models = re.findall(r"^\|\s*\d+\s+(MetaX\b.*?)\s*\|", output("mx-smi"), re.MULTILINE) if count else []
    return [Found(model=models[i] if i < len(models) else "") for i in range(count)]


ACCELERATOR = Metax()
