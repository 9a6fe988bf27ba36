"""Parts of the run on their own: what is made of operators, numbers and measures that go wrong."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recon4d.verify import Finding, Operator, Report
from recon4d.verify._figures import _burst
from recon4d.verify._gradients import _distance
from recon4d.verify._limits import limits
from recon4d.verify._operators import CASES, Case, coverage
from recon4d.verify._run import _coverage
from recon4d.verify._suspects import likeness

CPU = torch.device("cpu")


def on_second_thought(change: Callable[[Tensor], Tensor]) -> Case:
    """An operation that is right the first time, on the CPU, and not on the device after it."""
    calls: list[int] = []

    def run(inputs: object) -> Tensor:
        calls.append(1)
        value = torch.linspace(0, 1, 5)
        return value if len(calls) == 1 else change(value)

    return Case(run)


def warned(value: Tensor) -> Tensor:
    warnings.warn("The operator 'aten::x' will fall back to run on the CPU", stacklevel=1)
    return value


def refused(value: Tensor) -> Tensor:
    raise NotImplementedError("Could not run 'aten::x'")


def crashed(value: Tensor) -> Tensor:
    raise RuntimeError("illegal memory access")


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        (warned, "falls back", "fall back to run on the CPU"),
        (refused, "missing", "NotImplementedError: Could not run 'aten::x'"),
        (crashed, "wrong", "RuntimeError: illegal memory access"),
        (lambda value: value * 1.001, "wrong", "its result differs by 0.001 of the CPU's"),
        (lambda value: value * float("nan"), "wrong", "its result differs by nan"),
        (lambda value: value.double(), "wrong", "its result is torch.float64 [5], not torch.float32 [5]"),
        (lambda value: value[:4], "wrong", "its result is torch.float32 [4]"),
    ],
)
def test_operators_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Tensor], Tensor], state: str, words: str
) -> None:
    monkeypatch.setattr("recon4d.verify._operators.CASES", {"sort": on_second_thought(change)})
    (operator,) = coverage(CPU, lists=True)
    assert operator.state == state
    assert words in operator.detail
    finding = _coverage([operator])
    assert finding.passed == (state == "falls back")
    assert "sort" in finding.detail


def test_a_wrong_gradient_of_an_operator_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def run(inputs: dict[str, Tensor]) -> Tensor:
        calls.append(1)
        return inputs["x"] + (0 if len(calls) == 1 else inputs["x"] - inputs["x"].detach())

    monkeypatch.setattr("recon4d.verify._operators.CASES", {"add": Case(run)})
    (operator,) = coverage(CPU, lists=True)
    assert operator.state == "wrong"
    assert operator.detail.startswith("its gradient differs by 1 ")


def test_what_a_backend_does_not_need_is_not_asked_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"sort", "index_add", "conv2d", "uint8 to float"} < set(CASES)
    operators = [Operator(name=n, needed=n != "bmm", state="missing" if n == "bmm" else "right") for n in ("bmm", "mm")]
    finding = _coverage(operators)
    assert (finding.passed, finding.value) == (True, "1 of 1")
    needed = {operator.name for operator in coverage(CPU, lists=False) if operator.needed}
    assert "conv2d" in needed
    assert "searchsorted" not in needed


def test_what_is_not_a_number_fails() -> None:
    wanted = torch.ones(3)
    finding = _distance("gradients", "means", wanted * float("nan"), wanted, limits("torch", "opaque"))
    assert finding.passed is False
    report = Report(device="x:0", facts={}, backend="torch", reason="", findings=(finding,), operators=(), reproduce="")
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["findings"][0]["value"] == "nan"
    assert not report.passed


def test_nothing_judged_is_not_passed() -> None:
    told = Finding(part="figures", name="speed", passed=None, value=1.0)
    report = Report(device="x:0", facts={}, backend="torch", reason="", findings=(told,), operators=(), reproduce="")
    assert not report.passed


def test_relaxed_limits_say_why() -> None:
    assert limits("gsplat", "opaque").reason
    assert limits("gsplat", "opaque").image_mean > limits("torch", "opaque").image_mean
    assert limits("of-another-package", "opaque") == limits("torch", "translucent")


def test_likeness_of_gradients() -> None:
    right = torch.linspace(-1, 1, 7)
    assert likeness(0 * right, right) == "it is zero"
    assert likeness(-0.5 * right, right) == "it is -0.5 times the right one"
    assert likeness(right.flip(0).abs(), right) == ""


def test_idle_time_is_not_told_where_there_is_no_queue() -> None:
    burst, reason = _burst(CPU, lambda: None)
    assert burst is None
    assert reason == "an operation returns when it is done: there is no queue that could run empty"
