"""``recon4d accelerators list``, and what ``--device`` makes of an accelerator."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch

from recon4d.accelerators import Accelerator, DeviceStatus, Probe, Status, accelerators, resolve
from recon4d.commands._accelerators import facts, print_tables, rasterizer
from recon4d.commands._device import choice_key, usable
from recon4d.errors import AcceleratorError
from recon4d.raster import BackendStatus, Choice, Missing, Ready, backends

Run = Callable[..., Any]


def backend(name: str, status: Ready | Missing, *devices: str) -> BackendStatus:
    return BackendStatus(name=name, status=status, devices=devices, module=name)


CHIPS = Status(
    name="amd",
    vendor="AMD",
    count=2,
    reason="",
    devices=(
        DeviceStatus(index=0, model="MI[300]X", memory=(2**30, 2**31), torch_device="cuda:0"),
        DeviceStatus(index=1, model="昇腾", memory=None, torch_device="cuda:1"),
    ),
    device_type="cuda",
    rlinf_type="AMD_GPU",
    rasterizers=("other", "gsplat", "cpu", "torch"),
)
BACKENDS = {
    "torch": backend("torch", Ready(), "*"),
    "cpu": backend("cpu", Ready(), "cpu"),
    "gsplat": backend("gsplat", Missing("no compiler"), "cuda"),
}
SKIPPED = {"other": "not installed", "gsplat": "no compiler", "cpu": "takes tensors on cpu"}


def test_the_first_rasterizer_that_can_be_used_is_chosen() -> None:
    assert rasterizer(CHIPS, BACKENDS) == ("torch", SKIPPED)
    ready = BACKENDS | {"gsplat": backend("gsplat", Ready(), "cuda")}
    assert rasterizer(CHIPS, ready) == ("gsplat", {"other": "not installed"})
    assert rasterizer(CHIPS, {}) == ("", dict.fromkeys(CHIPS.rasterizers, "not installed"))


def test_where_rasterizers_have_been_tried_the_fastest_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Choice(
        backend="host",
        reason="",
        milliseconds={"torch": 30.0, "host": 12.0},
        skipped={"gsplat": "no compiler"},
        remembered=True,
    )
    asked = []

    def known(device: torch.device, *, preferred: tuple[str, ...], key: str) -> Choice:
        asked.append((str(device), preferred, key))
        return tried

    monkeypatch.setattr("recon4d.raster.remembered", known)
    assert rasterizer(CHIPS, BACKENDS) == ("host", {"torch": "30.0 ms, not 12.0", "gsplat": "no compiler"})
    assert asked == [("cuda:0", CHIPS.rasterizers, choice_key("amd", "MI[300]X"))]


def test_every_accelerator_has_a_rasterizer_here() -> None:
    for status in accelerators().values():
        assert rasterizer(status, backends())[0] in ("torch", "cpu", "gsplat"), status


def test_a_row_as_json() -> None:
    assert facts(CHIPS, BACKENDS) == {
        "name": "amd",
        "vendor": "AMD",
        "count": 2,
        "reason": "",
        "device_type": "cuda",
        "rlinf_type": "AMD_GPU",
        "devices": [
            {"index": 0, "model": "MI[300]X", "memory": {"free": 2**30, "total": 2**31}, "torch_device": "cuda:0"},
            {"index": 1, "model": "昇腾", "memory": None, "torch_device": "cuda:1"},
        ],
        "rasterizer": "torch",
        "skipped_rasterizers": SKIPPED,
    }


def test_the_table_has_a_line_a_device(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    print_tables([CHIPS], BACKENDS)
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    why = "not other: not installed; not gsplat: no compiler; not cpu: takes tensors on cpu"
    assert [cells for cells in lines if cells] == [
        ["amd", "AMD", "2", "MI[300]X", "1.0 / 2.0 GiB", "cuda:0", f"torch ({why})"],
        ["", "", "", "昇腾", "–", "cuda:1", ""],
    ]


def test_this_machine_is_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    shown, told = run("accelerators", "list"), run("accelerators", "list", "--json")
    assert (shown.code, told.code, shown.err, told.err) == (0, 0, "", "")
    assert [row["name"] for row in told.lines] == list(accelerators())
    for row in told.lines:
        assert row["name"] in shown.out
        assert row["reason"][:40] in shown.out
    (cpu,) = (row for row in told.lines if row["name"] == "cpu")
    assert (cpu["count"], cpu["rasterizer"], cpu["devices"][0]["torch_device"]) == (1, "cpu", "cpu")


def test_an_action_is_needed(run: Run) -> None:
    assert run("accelerators").code == 2
    ran = run("accelerators", "lists")
    assert ran.code == 2
    assert "Available subcommands: list, verify" in ran.out + ran.err


def test_a_device_is_given_to_torch_by_torchs_name() -> None:
    assert usable("cpu:0") == "cpu"
    assert usable("auto") == resolve("auto").torch_device


class Deaf(Accelerator):
    """Counts a device from which no tensor comes back."""

    name = "deaf"
    vendor = "Deaf Ltd"
    rlinf_type = "NO_ACCEL"
    device_type = "meta"

    def probe(self) -> Probe:
        return Probe(1)


def test_a_device_that_does_not_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="deaf", value="pkg:DEAF", group="recon4d.accelerators")
    monkeypatch.setattr("recon4d.accelerators._registry.entry_points", lambda group: [point])
    monkeypatch.setattr(EntryPoint, "load", lambda self: Deaf())
    with pytest.raises(AcceleratorError) as caught:
        usable("deaf")
    assert str(caught.value) == (
        "device 'deaf' cannot be used here: deaf:0 is there, but a tensor put on it does not come back: Cannot copy out"
        " of meta tensor; no data!. Look at its driver, or choose another one of 'recon4d accelerators list'"
    )
