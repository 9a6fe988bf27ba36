"""Machines that are not here: fake vendor modules, fake command-line tools on PATH, fake builds of torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

VENDOR_MODULES = (
    *("pynvml", "amdsmi", "acl", "torch_npu", "pymtml", "torch_musa", "torch_xmlir", "pymxsml", "torch_supa"),
    "torch_xmlir._XMLIRC",
)
VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR", "ASCEND_RT_VISIBLE_DEVICES"),
    *("MUSA_VISIBLE_DEVICES", "MACA_VISIBLE_DEVICES", "SUPA_VISIBLE_DEVICES"),
)


class FakeTorch(SimpleNamespace):
    """A part of torch such as ``torch.cuda``; counts how often it is asked what would start it on a device."""

    def __init__(self, names: Sequence[str], *, started: bool = False) -> None:
        super().__init__(names=list(names), started=started, counted=0, waited=[])

    def device_count(self) -> int:
        self.counted += 1
        return len(self.names)

    def is_initialized(self) -> bool:
        return self.started

    def get_device_name(self, index: int) -> str:
        self.started = True
        return self.names[index]

    def mem_get_info(self, index: int) -> tuple[int, int]:
        self.started = True
        if index >= len(self.names):
            raise RuntimeError("invalid device ordinal")
        return 1000 + index, 2000

    def synchronize(self, index: int) -> None:
        self.waited.append(index)


class Machine:
    """Says what this machine has; without a word it has nothing of any vendor, and torch is built for the CPU alone."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self._patch = patch
        self._bin = folder / "bin"
        self._site = folder / "site"
        self._bin.mkdir()
        self._site.mkdir()
        patch.setenv("PATH", str(self._bin))
        patch.syspath_prepend(str(self._site))
        for name in VENDOR_MODULES:
            patch.setitem(sys.modules, name, None)
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        self.build("2.9.0+cpu")
        for part in ("cuda", "xpu"):
            self.part(part, [])
        for part in ("npu", "musa", "supa"):
            patch.delattr(torch, part, raising=False)

    def build(self, version: str, **marks: str) -> None:
        """The build of torch, with marks such as ``cuda="12.8"`` or ``hip="6.4"``."""
        self._patch.setattr(torch, "__version__", version)
        for mark in ("cuda", "hip", "xpu", "maca"):
            self._patch.setattr(torch.version, mark, marks.get(mark), raising=False)

    def part(self, name: str, models: Sequence[str], *, started: bool = False) -> FakeTorch:
        """A part of torch, such as torch.cuda, that reaches devices of these models."""
        fake = FakeTorch(models, started=started)
        self._patch.setattr(torch, name, fake, raising=False)
        return fake

    def module(self, name: str, **content: Any) -> ModuleType:
        """An installed module."""
        fake = ModuleType(name)
        fake.__spec__ = ModuleSpec(name, None)
        vars(fake).update(content)
        self._patch.setitem(sys.modules, name, fake)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, fake)
        return fake

    def broken_module(self, name: str, raises: str) -> None:
        """An installed module that raises when it is imported."""
        self._patch.delitem(sys.modules, name, raising=False)
        (self._site / f"{name}.py").write_text(f"raise {raises}\n")

    def command(self, name: str, out: str = "", *, err: str = "", code: int = 0, hangs: bool = False) -> None:
        """A command on PATH that prints this, or never ends."""
        (self._bin / f"{name}.out").write_text(out, "utf-8")
        (self._bin / f"{name}.err").write_text(err, "utf-8")
        body = f"cat '{self._bin}/{name}.out'; cat '{self._bin}/{name}.err' >&2; exit {code}"
        script = self._bin / name
        script.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{'exec sleep 60' if hangs else body}\n")
        script.chmod(0o755)

    def variable(self, name: str, value: str) -> None:
        self._patch.setenv(name, value)
