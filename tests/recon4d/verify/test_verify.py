"""The run passes where all is well, and fails on every mistake that it is there to find."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import pytest

from recon4d.errors import AcceleratorError, BackendError
from recon4d.events import Event, Finished, Started
from recon4d.verify import Finding, Report, verify
from tests.recon4d.verify import defects


@pytest.fixture(scope="module", autouse=True)
def _planted() -> Iterator[None]:
    with defects.planted():
        yield


@cache
def report(backend: str) -> Report:
    return verify("cpu", backend=backend, quick=True)


def found(report: Report, part: str, name: str) -> Finding:
    (finding,) = (f for f in report.findings if (f.part, f.name) == (part, name))
    return finding


@pytest.mark.parametrize("backend", ["torch", "cpu", "host"])
def test_sound_backends_pass_by_a_wide_margin(backend: str) -> None:
    sound = report(backend)
    assert sound.passed
    assert sound.failures == ()
    assert all(operator.state == "right" for operator in sound.operators)
    for finding in sound.findings:
        if finding.limit:
            assert isinstance(finding.value, float)
            assert finding.value < finding.limit / 2, finding


CAUGHT = {
    "halved_conic": ("gradients", "quats, translucent scene", ""),
    "scaled_opacity": ("gradients", "opacities, translucent scene", "1.05 times the right one"),
    "quaternions_xyzw": ("images", "rgb of the translucent scene, mean error", "quaternions were read as xyzw"),
    "harmonics_in_camera": ("images", "rgb of the translucent scene, mean error", "in the camera's axes"),
    "dropped_band": ("images", "rgb of the translucent scene, mean error", "band 3 of the harmonics were missing"),
    "red_for_blue": ("images", "rgb of the translucent scene, mean error", "red and blue were exchanged"),
    "early_clamp": ("images", "a splat of opacity 1 lets a thousandth through", "rgb is 0.08"),
    "unsorted": ("images", "the nearer of two splats hides the other", "rgb is 0."),
}
"""What tells each mistake: the finding, and words of its remark."""


@pytest.mark.parametrize("defect", defects.DEFECTS)
def test_every_mistake_is_found_and_named(defect: str) -> None:
    wrong = report(defect)
    assert not wrong.passed
    part, name, words = CAUGHT[defect]
    finding = found(wrong, part, name)
    assert finding in wrong.failures
    assert words in finding.detail
    assert f"- {part}: {name}." in wrong.to_markdown()


@pytest.mark.parametrize("defect", ["halved_conic", "scaled_opacity"])
def test_a_wrong_gradient_shows_in_no_picture(defect: str) -> None:
    wrong = report(defect)
    assert {f.part for f in wrong.findings if f.part == "images" and f.passed} == {"images"}
    assert "images" not in {f.part for f in wrong.failures}


def test_a_wrong_scale_of_one_gradient_touches_no_other_attribute() -> None:
    names = {f.name for f in report("scaled_opacity").failures if f.part == "gradients"}
    assert names == {"opacities, translucent scene", "opacities, opaque scene"}


def test_a_clamp_shows_only_where_something_is_opaque() -> None:
    failures = report("early_clamp").failures
    assert all("translucent" not in f.name for f in failures)
    assert {f.part for f in failures} == {"images", "gradients"}


@pytest.mark.parametrize("defect", sorted(set(defects.DEFECTS) - {"scaled_opacity", "early_clamp"}))
def test_most_mistakes_show_in_the_training_too(defect: str) -> None:
    assert "training" in {f.part for f in report(defect).failures}


@pytest.mark.parametrize("defect", defects.DEFECTS)
def test_the_likeness_of_loss_curves_would_find_none_of_them(defect: str) -> None:
    """The reason why it is not judged: 0.99 is what such comparisons usually ask for."""
    finding = found(report(defect), "training", "Pearson r of the loss curves")
    assert finding.passed is None
    assert isinstance(finding.value, float)
    assert finding.value > 0.99
    if defect == "halved_conic":
        assert finding.value > 0.9999


def test_the_stages_are_told() -> None:
    events: list[Event] = []
    verify("cpu", backend="host", quick=True, on_event=events.append)
    for kind in (Started, Finished):
        assert [e.stage for e in events if isinstance(e, kind)] == ["operators", "images", "training", "figures"]


def test_what_a_device_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def render(request: object) -> None:
        raise RuntimeError("the driver\nwent away | for good")

    monkeypatch.setattr(defects.module("unsorted"), "render", render)
    broken = verify("cpu", backend="unsorted", quick=True)
    assert not broken.passed
    ends = [(f.part, f.detail) for f in broken.failures]
    said = "RuntimeError: the driver went away | for good"
    assert ends == [("images", said), ("first step", said), ("training", said)]
    assert "went away \\| for good" in broken.to_markdown()


def test_the_backend_and_why() -> None:
    by_itself = verify("cpu", quick=True)
    assert (by_itself.backend, by_itself.reason) == (
        "cpu",
        "the first of the accelerator's rasterizers that can be used",
    )
    assert by_itself.device == "cpu:0"
    assert report("host").reason == "as asked for"
    assert report("host").reproduce == "recon4d accelerators verify cpu:0 --backend host --quick"
    with pytest.raises(BackendError, match="not tensorflow: there is no such backend, but cpu, "):
        verify("cpu", backend="tensorflow")
    with pytest.raises(AcceleratorError, match="'toaster'"):
        verify("toaster")


def test_a_report_is_json_and_a_page() -> None:
    sound = report("torch")
    told = json.loads(json.dumps(sound.to_json(), allow_nan=False))
    assert (told["version"], told["passed"], told["backend"]) == (1, True, "torch")
    assert len(told["findings"]) == len(sound.findings)
    assert {operator["state"] for operator in told["operators"]} == {"right"}
    page = sound.to_markdown()
    assert page.startswith(f"# {sound.facts['model']}: passed\n")
    for word in ("## Findings", "## Operators", "| sort |", sound.reproduce, sound.facts["torch"], sound.facts["date"]):
        assert word in page
    widths = {line.count(" | ") for line in page.splitlines() if line.startswith(("| images", "| gradients"))}
    assert widths == {5}
