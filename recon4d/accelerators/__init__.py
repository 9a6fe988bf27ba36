"""The chips that torch may compute on here, by vendor and not by torch device string.

In:   the name of an accelerator ("auto", "amd", "nvidia:1"), or a torch device string ("cuda:0").
Out:  a :class:`Device`, and a table of what there is and why the rest is absent.

Owns: who is behind a torch device string, probing, model names and memory, the environment variables that show a
      process some devices only, the collective backend of a vendor, which rasterizers suit it.
Does not own: tensors and where they lie, the rasterizers themselves, processes and their placement.

The torch device string does not say whose chip it is: builds of torch for AMD, MetaX and Kunlunxin answer to "cuda"
too. What depends on the vendor is decided on an accelerator's name.

Add an accelerator: one module with a subclass of :class:`Accelerator` and an ``ACCELERATOR``, and one line in
``_registry.py``; other packages name theirs under the entry-point group ``recon4d.accelerators``.
"""

from recon4d.accelerators._contract import Accelerator, Found, Probe, Tool
from recon4d.accelerators._resolve import Device, resolve, rlinf_type
from recon4d.accelerators._status import DeviceStatus, Status, accelerators

__all__ = [
    "Accelerator",
    "Device",
    "DeviceStatus",
    "Found",
    "Probe",
    "Status",
    "Tool",
    "accelerators",
    "resolve",
    "rlinf_type",
]
