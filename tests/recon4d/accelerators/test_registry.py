"""What holds of every accelerator there is, here and in other packages, sound and unsound ones."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from recon4d.accelerators import Accelerator, Probe, _registry, accelerators, resolve, rlinf_type
from recon4d.accelerators._registry import known
from recon4d.errors import AcceleratorError
from tests.recon4d.accelerators.machine import VENDOR_MODULES
from tests.recon4d.accelerators.vendors import VENDORS, sick

NAMES = (*VENDORS, "mps", "cpu")


def own() -> list[Accelerator]:
    return [accelerator for accelerator in known().values() if isinstance(accelerator, Accelerator)]


def test_the_registry_is_whole_and_the_cpu_is_last() -> None:
    assert tuple(known()) == NAMES


@pytest.mark.parametrize("accelerator", own(), ids=lambda accelerator: accelerator.name)
def test_every_field_is_filled(accelerator: Accelerator) -> None:
    assert re.fullmatch(r"[a-z0-9]+", accelerator.name)
    assert re.fullmatch(r"[a-z]+", accelerator.device_type)
    assert re.fullmatch(r"[A-Z_]+", accelerator.rlinf_type)
    assert accelerator.vendor
    assert accelerator.remedy
    assert accelerator.rasterizers[-1] in ("torch", "cpu")
    assert re.fullmatch(r"[a-z]+", accelerator.ccl_backend)
    assert re.fullmatch(r"[A-Z_]+", accelerator.ccl_ifname_env)
    assert bool(accelerator.visible_devices_env) == (accelerator.name not in ("cpu", "mps"))
    assert bool(accelerator.ray_noset_env) == bool(accelerator.visible_devices_env)
    assert all(name.startswith("RAY_EXPERIMENTAL_NOSET_") for name in accelerator.ray_noset_env)
    assert accelerator.__doc__


PROBE = """
import sys, warnings
import torch
before = set(sys.modules)
import recon4d.accelerators as room
loaded = {name.split(".")[0] for name in set(sys.modules) - before}
assert not loaded & set(sys.argv[1:]), loaded
assert not {n for n in sys.modules if n.startswith("recon4d.accelerators.") and "._" not in n}, "a vendor's file"
room.resolve("auto")
assert not torch.cuda.is_initialized(), "started to look for devices"
table = room.accelerators()
for name, row in table.items():
    assert row.count == len(row.devices) and bool(row.reason) == (row.count == 0), row
    for device in row.devices:
        assert ":" not in device.model and device.model, row
        assert torch.device(device.torch_device).type == row.device_type
        assert device.memory is None or 0 <= device.memory[0] <= device.memory[1]
        assert room.resolve(f"{name}:{device.index}").torch_device == device.torch_device
assert table["cpu"].count == 1
assert room.resolve("auto").accelerator.name == next(name for name, row in table.items() if row.count)
"""


def test_this_machine_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: importing is cheap, probing raises nothing, whatever this machine has."""
    monkeypatch.undo()
    modules = [name for name in VENDOR_MODULES if "." not in name]
    command = [sys.executable, "-W", "error", "-c", PROBE, *modules]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", "")


def test_importing_the_room_does_not_import_torch() -> None:
    code = "import sys, recon4d.accelerators; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


class Sound(Accelerator):
    """Another package's accelerator."""

    name = "sound"
    vendor = "Sound Ltd"
    rlinf_type = "NO_ACCEL"
    device_type = "sound"

    def probe(self) -> Probe:
        return Probe(2)


class Unsound(Sound):
    """Breaks every promise."""

    name = "unsound"
    probe = model = memory = sick


class Dishonest(Sound):
    """Gives what is no probe."""

    name = "dishonest"

    def probe(self) -> Any:
        return 3


class Forgetful(Accelerator):
    """Lacks two fields."""

    name = "forgetful"
    vendor = "Forgetful Ltd"


class Mute(Sound):
    """Does not say how torch reaches it."""

    name = "mute"
    probe = Accelerator.probe


Offer = Callable[..., None]


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Installs packages that offer these by name; an exception is raised when its entry point is loaded."""

    def offer(**offered: object) -> None:
        points = [EntryPoint(name=name, value=f"pkg.{name}:IT", group=_registry.GROUP) for name in offered]
        monkeypatch.setattr(_registry, "entry_points", lambda group: [p for p in points if p.group == group])

        def load(point: EntryPoint) -> object:
            if isinstance(offered[point.name], Exception):
                raise offered[point.name]
            return offered[point.name]

        monkeypatch.setattr(EntryPoint, "load", load)

    return offer


def test_another_packages_accelerator_comes_before_the_cpu(offer: Offer) -> None:
    offer(sound=Sound())
    assert tuple(accelerators()) == (*NAMES[:-1], "sound", "cpu")
    assert resolve("auto").name == "sound:0"
    assert resolve("sound:1").torch_device == "sound:1"
    assert (resolve("sound").model, resolve("sound").memory) == ("UNKNOWN", None)
    assert rlinf_type("sound") == "NO_ACCEL"


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        (ImportError("no libsound.so"), "'pkg.it:IT' cannot be imported: no libsound.so"),
        (ValueError("bad\nday"), "'pkg.it:IT' cannot be imported: ValueError: bad"),
        (AttributeError(), "'pkg.it:IT' cannot be imported: AttributeError"),
        (Sound, "'pkg.it:IT' must be an instance of recon4d.accelerators.Accelerator; it is Sound, a class"),
        (7, "'pkg.it:IT' must be an instance of recon4d.accelerators.Accelerator; it is int"),
        (Forgetful(), "'pkg.it:IT' does not say its rlinf_type, device_type"),
        (Sound(), "'pkg.it:IT' is named 'sound'; its entry point must be named so, without a colon"),
    ],
    ids=lambda value: value[-20:] if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_used_is_a_row_with_the_reason(offer: Offer, offered: object, reason: str) -> None:
    offer(it=offered)
    row = accelerators()["it"]
    assert (row.count, row.reason, row.devices, row.rasterizers) == (0, reason, (), ())
    assert resolve("auto").name == "cpu:0"
    with pytest.raises(AcceleratorError, match=f"device 'it' cannot be used here: {re.escape(reason)}"):
        resolve("it")
    with pytest.raises(AcceleratorError, match=f"no accelerator 'it'.*{re.escape(reason)}"):
        rlinf_type("it")


def test_broken_promises_are_rows_with_the_reason(offer: Offer) -> None:
    offer(unsound=Unsound(), dishonest=Dishonest(), mute=Mute())
    table = accelerators()
    assert table["unsound"].reason == "its probe raised Sick: Driver/library version mismatch"
    assert table["dishonest"].reason == "its probe gave 3, which is no Probe"
    assert table["mute"].reason.endswith("Mute does not say how torch reaches it: override torch_module()")
    assert resolve("auto").name == "cpu:0"


def test_a_device_that_raises_when_asked_is_unknown(offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Unsound, "probe", lambda self: Probe(1))
    offer(unsound=Unsound())
    (device,) = accelerators()["unsound"].devices
    assert (device.model, device.memory) == ("UNKNOWN", None)
    assert (resolve("unsound").model, resolve("unsound").memory) == ("UNKNOWN", None)


@pytest.mark.parametrize("name", ["nvidia", "cpu", "auto", "cuda", "npu"])
def test_a_name_of_ours_stays_ours(offer: Offer, name: str) -> None:
    before = known().get(name)
    offer(**{name: Sound()})
    assert known().get(name) is before
    assert accelerators()[f"{name} (pkg.{name}:IT)"].reason == f"the name '{name}' is taken; choose another one"


def test_the_second_of_two_packages_finds_the_name_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(name="sound", value=f"{package}:IT", group=_registry.GROUP) for package in ("a", "b")]
    monkeypatch.setattr(_registry, "entry_points", lambda group: points)
    monkeypatch.setattr(EntryPoint, "load", lambda point: Sound())
    table = accelerators()
    assert table["sound"].count == 2
    assert table["sound (b:IT)"].reason == "the name 'sound' is taken; choose another one"
