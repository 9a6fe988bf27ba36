"""The choice of a backend, with backends and a clock of this file's own: no time is asserted on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from recon4d.errors import BackendError
from recon4d.raster import Choice, Missing, Ready, _choice, _registry, choose, remembered
from recon4d.raster._contract import Request
from recon4d.raster.torch import render as draw
from recon4d.types import Cameras, RenderOutput, Splats
from tests.parity.test_raster import camera, cloud

DEVICE = torch.device("meta")
"""A device that is not the CPU; the scene of the trial stays on the CPU."""


class World:
    """Backends that take as long as they are told, by a clock that only they move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.drawn: list[str] = []
        self.modules = {}

    def add(
        self,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        seconds: float,
        *,
        status: Ready | Missing | None = None,
        fault: Callable[[RenderOutput], RenderOutput] | None = None,
    ) -> None:
        def render(request: Request) -> RenderOutput:
            self.now += seconds
            self.drawn.append(name)
            output = draw(request)
            return fault(output) if fault else output

        module = ModuleType(f"fake_{name}")
        vars(module).update(DEVICES=("*",), status=lambda: status or Ready(), render=render)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        self.modules[name] = module.__name__


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    def scene(device: torch.device) -> tuple[Splats, Cameras]:
        assert device == DEVICE
        return cloud(30, 1), Cameras.of(camera(12, 10))

    made.add(monkeypatch, "torch", 0.030)
    made.add(monkeypatch, "host", 0.020)
    monkeypatch.setattr(_registry, "_modules", lambda: made.modules)
    monkeypatch.setattr(_choice, "_scene", scene)
    monkeypatch.setattr(_choice, "_clock", lambda: made.now)
    return made


def breaks(output: RenderOutput) -> RenderOutput:
    raise NotImplementedError("no such operation on this device\nregister one")


def spoils(output: RenderOutput) -> RenderOutput:
    return replace(output, rgb=output.rgb * float("nan"))


def ask(cache: Path, *preferred: str, key: str = "a chip", refresh: bool = False) -> Choice:
    return choose(DEVICE, preferred=preferred, key=key, cache=cache, refresh=refresh)


def test_the_fastest_is_chosen_and_the_others_are_told(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world.add(monkeypatch, "fast", 0.004)
    world.add(monkeypatch, "slow", 5.0)
    world.add(monkeypatch, "broken", 0.001, fault=breaks)
    world.add(monkeypatch, "blind", 0.001, fault=spoils)
    world.add(monkeypatch, "absent", 0.001, status=Missing("out of order"))
    choice = ask(tmp_path, "slow", "broken", "blind", "absent", "unheard", "fast")
    assert choice.backend == "fast"
    assert list(choice.milliseconds) == ["slow", "fast", "torch", "host"]
    assert choice.milliseconds == pytest.approx({"slow": 5000, "fast": 4, "torch": 30, "host": 20})
    assert set(choice.skipped) == {"broken", "blind", "absent", "unheard"}
    assert "NotImplementedError: no such operation" in choice.skipped["broken"]
    assert "not finite" in choice.skipped["blind"]
    assert "out of order" in choice.skipped["absent"]
    assert "no rasterizer backend 'unheard'" in choice.skipped["unheard"]
    assert "fast takes 4.0 ms" in choice.reason
    assert "slow 5000.0 ms" in choice.reason
    assert not choice.remembered
    assert "absent" not in world.drawn
    assert world.drawn.count("slow") < world.drawn.count("fast")  # Seconds are enough.


def test_of_equal_ones_the_preferred_is_taken(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world.add(monkeypatch, "other", 0.020)
    assert ask(tmp_path, "other").backend == "other"
    assert ask(tmp_path, "torch").backend == "host"


def test_the_best_of_several_counts_and_the_first_ones_do_not(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A backend that compiles when first used, and is disturbed at times."""
    takes = iter([60.0, 1.0, 0.5, 0.2, 0.01, 0.3, 0.4])
    world.add(monkeypatch, "uneven", 0.0)
    module = sys.modules["fake_uneven"]

    def render(request: Request) -> RenderOutput:
        world.now += next(takes)
        return draw(request)

    module.render = render
    assert ask(tmp_path, "uneven").milliseconds["uneven"] == pytest.approx(10)


def test_what_was_found_is_remembered(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world.add(monkeypatch, "broken", 0.001, fault=breaks)
    first = ask(tmp_path, "broken")
    world.drawn.clear()
    assert ask(tmp_path, "broken") == replace(first, remembered=True)
    assert world.drawn == []
    assert not ask(tmp_path, "broken", refresh=True).remembered
    assert world.drawn
    assert len(list(tmp_path.iterdir())) == 1


def test_it_is_found_anew_when_something_has_changed(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ask(tmp_path)
    assert ask(tmp_path).remembered
    assert not ask(tmp_path, key="another chip").remembered
    assert ask(tmp_path).remembered  # Both are kept.
    with monkeypatch.context() as patch:
        patch.setattr(_choice, "__version__", "9.9")
        assert not ask(tmp_path).remembered
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "9.9")
        assert not ask(tmp_path).remembered
    world.add(monkeypatch, "fast", 0.001)  # Installed since.
    found = ask(tmp_path, "fast")
    assert (found.backend, found.remembered) == ("fast", False)
    world.add(monkeypatch, "fast", 0.001, status=Missing("uninstalled"))
    found = ask(tmp_path, "fast")
    assert (found.backend, found.remembered) == ("host", True)
    assert "uninstalled" in found.skipped["fast"]


def everywhere(entry: object) -> Callable[[str], str]:
    """Puts the entry in the place of each that a memory holds."""
    return lambda text: json.dumps(dict.fromkeys(json.loads(text), entry))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[1, 2]",
        everywhere(None),
        everywhere([]),
        everywhere({"milliseconds": {}, "failed": {}}),
        everywhere({"milliseconds": {}, "failed": {"torch": "why", "host": "why"}}),
        everywhere({"milliseconds": {"torch": "soon", "host": 1.0}, "failed": {}}),
        everywhere({"milliseconds": {"torch": -1.0, "host": 1.0}, "failed": {}}),
        everywhere({"milliseconds": {"torch": float("nan"), "host": 1.0}, "failed": {}}),
        everywhere({"milliseconds": {"elsewhere": 1.0}, "failed": {}}),
    ],
)
def test_a_damaged_memory_is_replaced(world: World, tmp_path: Path, damage: Callable[[str], str]) -> None:
    first = ask(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(damage(file.read_text("utf-8")), "utf-8")
    again = ask(tmp_path)
    assert again.backend == first.backend
    assert not again.remembered
    assert ask(tmp_path).remembered


def test_bytes_that_are_no_text(world: World, tmp_path: Path) -> None:
    ask(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"\xff\xfe\x00{")
    assert not ask(tmp_path).remembered


def test_a_memory_that_cannot_be_written_is_no_error(world: World, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    for _ in range(2):
        found = ask(blocked)
        assert (found.backend, found.remembered) == ("host", False)


def test_the_users_cache_folder(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    choose(DEVICE, preferred=(), key="k")
    assert (tmp_path / "xdg" / "recon4d" / "rasterizers.json").is_file()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    choose(DEVICE, preferred=(), key="k")
    assert (tmp_path / "home" / ".cache" / "recon4d" / "rasterizers.json").is_file()


def test_nothing_that_works_is_an_error_with_every_reason(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world.add(monkeypatch, "torch", 0.1, fault=breaks)
    world.add(monkeypatch, "host", 0.1, status=Missing("out of order"))
    with pytest.raises(BackendError, match=r"works on meta.*out of order.*no such operation") as caught:
        ask(tmp_path)
    assert "device='cpu'" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_on_the_cpu_there_is_nothing_to_find(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_choice, "_try", lambda *_: pytest.fail("tried"))
    found = choose(torch.device("cpu"), preferred=("gsplat",), key="k", cache=tmp_path)
    assert (found.backend, found.milliseconds, found.remembered) == ("cpu", {}, False)
    assert not list(tmp_path.iterdir())


def test_the_trial_draws_and_differentiates_whatever_the_callers_mode() -> None:
    """The real scene and backends, once each."""
    splats, cameras = _choice._scene(torch.device("cpu"))
    assert (len(splats), cameras.width, cameras.height) == (20_000, 320, 240)
    again, _ = _choice._scene(torch.device("cpu"))
    assert torch.equal(again.means, splats.means)
    with torch.no_grad():
        _choice._step("host", splats, cameras)
    with torch.inference_mode():
        _choice._step("torch", *_choice._scene(torch.device("cpu")))
    assert not splats.means.requires_grad


def test_what_is_remembered_can_be_asked_for_without_a_trial(world: World, tmp_path: Path) -> None:
    assert remembered(DEVICE, preferred=(), key="k", cache=tmp_path) is None
    assert world.drawn == []
    tried = choose(DEVICE, preferred=(), key="k", cache=tmp_path)
    drawn = list(world.drawn)
    assert remembered(DEVICE, preferred=(), key="k", cache=tmp_path) == replace(tried, remembered=True)
    assert world.drawn == drawn
