"""The accelerators that are in every machine of a kind: the CPU, and the GPU of an Apple chip."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from recon4d.accelerators import Probe, cpu, resolve
from recon4d.accelerators.cpu import Cpu
from recon4d.accelerators.mps import Mps
from tests.recon4d.accelerators.machine import Machine
from tests.recon4d.accelerators.vendors import sick

CPUINFO = "processor\t: 0\nmodel name\t: Ryzen: 9 \x00™\n\nprocessor\t: 1\nmodel name\t: other\n"
MEMINFO = "MemTotal:       2048 kB\nMemFree:          10 kB\nMemAvailable:   1024 kB\n"


def test_the_cpu_is_one_device() -> None:
    assert Cpu().probe() == Probe(1)
    assert Cpu().torch_device(0) == "cpu"
    Cpu().synchronize(0)
    assert torch.zeros(1, device=resolve("cpu").torch_device).device == torch.device("cpu")


def test_the_cpu_tells_what_the_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_PROC", tmp_path)
    monkeypatch.setattr(cpu.platform, "processor", lambda: "arm:64")
    assert (Cpu().model(0), Cpu().memory(0)) == ("arm 64", None)
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    (tmp_path / "meminfo").write_text(MEMINFO)
    assert (Cpu().model(0), Cpu().memory(0)) == ("Ryzen 9 \x00™", (2**20, 2**21))
    (tmp_path / "meminfo").write_bytes(b"\xff\xfegarbage")
    (tmp_path / "cpuinfo").write_bytes(b"\xff\xfegarbage")
    monkeypatch.setattr(cpu.platform, "processor", lambda: "")
    assert (Cpu().model(0), Cpu().memory(0)) == ("UNKNOWN", None)


def metal(monkeypatch: pytest.MonkeyPatch, *, built: bool = True, available: bool = True, count: int = 1) -> None:
    backend = SimpleNamespace(is_built=lambda: built, is_available=lambda: available)
    monkeypatch.setattr(torch.backends, "mps", backend)
    waited: list[str] = []
    part = SimpleNamespace(
        device_count=lambda: count,
        recommended_max_memory=lambda: 1000,
        driver_allocated_memory=lambda: 300,
        synchronize=lambda: waited.append("once"),
        waited=waited,
    )
    monkeypatch.setattr(torch, "mps", part)


def test_metal_is_there(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    metal(monkeypatch)
    assert Mps().probe() == Probe(1)
    assert Mps().model(0) == "UNKNOWN"
    machine.command("sysctl", "Apple M4: Max\n")
    device = resolve("auto")
    assert (device.name, device.torch_device, device.model, device.memory) == (
        *("mps:0", "mps", "Apple M4 Max", (700, 1000)),
    )
    device.accelerator.synchronize(0)
    assert torch.mps.waited == ["once"]


def test_metal_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    metal(monkeypatch, built=False)
    words = "torch 2.9.0+cpu is built without MPS, which is for macOS on Apple silicon"
    assert Mps().probe() == Probe(0, words)
    metal(monkeypatch, available=False)
    assert "Metal is not available: it needs macOS 12.3" in Mps().probe().reason
    metal(monkeypatch, count=0)
    assert Mps().probe() == Probe(0, "torch 2.9.0+cpu counts no device")


def test_metal_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    metal(monkeypatch)
    monkeypatch.setattr(torch.mps, "device_count", sick)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", sick)
    assert Mps().probe() == Probe(0, "probing failed: Sick: Driver/library version mismatch")
    assert Mps().memory(0) is None
