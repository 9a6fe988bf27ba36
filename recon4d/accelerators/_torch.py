"""What the torch that is installed was built for. Looks at versions alone and starts no device."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from recon4d.accelerators._tools import NoAnswer, library

_LABELS = {"nvidia": "NVIDIA", "amd": "AMD (ROCm)", "metax": "MetaX (MACA)", "kunlunxin": "Kunlunxin (torch_xmlir)"}


def version() -> str:
    """torch's own version, with the mark of its build: "2.9.0+cu128"."""
    import torch

    return str(torch.__version__)


def cuda_vendor() -> str | None:
    """The name of the accelerator that torch means by "cuda"; None when this build has no such devices.

    MetaX's build fills ``torch.version.cuda`` as NVIDIA's does, and Kunlunxin's module turns NVIDIA's build to its own
    chips when imported, so both are looked for before NVIDIA is believed.
    """
    import torch

    if getattr(torch.version, "hip", None):
        return "amd"
    if getattr(torch.version, "maca", None) or "metax" in version().lower():
        return "metax"
    if torch.version.cuda is None:
        return None
    return "kunlunxin" if installed("torch_xmlir") else "nvidia"


def lacks_cuda_of(vendor: str) -> str | None:
    """Why torch's "cuda" is not this vendor's; None when it is."""
    actual = cuda_vendor()
    if actual == vendor:
        return None
    if actual is None:
        return f"torch {version()} is built without devices called 'cuda'"
    return f"torch {version()} is built for {_LABELS[actual]}: what it calls 'cuda' is not {_LABELS[vendor]}"


def cuda() -> ModuleType:
    """``torch.cuda``, which serves every vendor whose devices torch calls "cuda"."""
    import torch

    return torch.cuda


def plugin(module: str, attribute: str) -> ModuleType:
    """The module that a vendor's package adds to torch, such as ``torch.npu``.

    Raises:
        ImportError: the package is missing, cannot be imported, or adds nothing to this torch.
    """
    import torch

    try:
        library(module)
    except NoAnswer as error:
        raise ImportError(str(error)) from error
    added = getattr(torch, attribute, None)
    if added is None:
        raise ImportError(f"{module} does not fit torch {version()}: it adds no torch.{attribute}")
    return added


def installed(module: str) -> bool:
    """Whether a module can be found, without importing it."""
    if module in sys.modules:
        return sys.modules[module] is not None
    return importlib.util.find_spec(module) is not None
