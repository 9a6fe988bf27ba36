"""AMD GPUs: the ROCm build of torch, which calls them "cuda"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType

from recon4d.accelerators import _torch
from recon4d.accelerators._contract import Accelerator, Found, Tool
from recon4d.accelerators._tools import garbage, kernel_module, library, output, parsed, text

_MIB = 2**20


class Amd(Accelerator):
    """AMD GPUs; seen by AMD SMI, through its Python bindings, or by ``rocm-smi``."""

    name = "amd"
    vendor = "AMD"
    rlinf_type = "AMD_GPU"
    device_type = "cuda"
    remedy = "install a ROCm build of torch, see https://pytorch.org/get-started/locally"
    visible_devices_env = "HIP_VISIBLE_DEVICES"
    ray_noset_env = (
        "RAY_EXPERIMENTAL_NOSET_ROCR_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES",
    )
    ccl_backend = "nccl"
    ccl_ifname_env = "NCCL_SOCKET_IFNAME"
    rasterizers = ("gsplat", "torch")

    def torch_module(self) -> ModuleType:
        return _torch.cuda()

    def lacks(self) -> str | None:
        return _torch.lacks_cuda_of(self.name)

    def driver(self) -> str | None:
        return kernel_module("amdgpu")

    def tools(self) -> Sequence[Tool]:
        return Tool("amdsmi", _amdsmi), Tool("rocm-smi", _rocm_smi)


def _amdsmi() -> list[Found]:
    smi = library("amdsmi")
    smi.amdsmi_init()
    try:
        found = []
        for handle in smi.amdsmi_get_processor_handles():
            vram = smi.amdsmi_get_gpu_vram_usage(handle)
            total, used = int(vram["vram_total"]) * _MIB, int(vram["vram_used"]) * _MIB
            model = text(smi.amdsmi_get_gpu_asic_info(handle)["market_name"])
            found.append(Found(model=model, memory=(total - used, total)))
        return found
    finally:
        smi.amdsmi_shut_down()


def _rocm_smi() -> list[Found]:
    said = output("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
    cards = {name: card for name, card in parsed("rocm-smi", said).items() if re.fullmatch(r"card\d+", name)}
    if not cards or not all(isinstance(card, dict) for card in cards.values()):
        raise garbage("rocm-smi", said)
    return [_card(cards[name]) for name in sorted(cards, key=lambda name: int(name.removeprefix("card")))]


def _card(card: dict[str, str]) -> Found:
    # The case of the keys changed between versions.
    values = {key.lower(): str(value) for key, value in card.items()}
    total, used = values.get("vram total memory (b)", ""), values.get("vram total used memory (b)", "")
    memory = (int(total) - int(used), int(total)) if total.isdigit() and used.isdigit() else None
    return Found(model=values.get("card series") or values.get("card model") or "", memory=memory)


ACCELERATOR = Amd()
