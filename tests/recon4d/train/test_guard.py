"""Broken numbers: a bad round is rolled back, and a fit that cannot recover says where it broke."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from recon4d.errors import TrainingDiverged
from recon4d.events import Event, Warned
from recon4d.loss import image_loss
from recon4d.model import RowAdam
from recon4d.train import FitConfig, _optimize, fit_joint, fit_static
from recon4d.types import DynamicPool, StaticPool

Poison = Callable[[int], bool]


def poison_loss(monkeypatch: pytest.MonkeyPatch, when: Poison) -> None:
    """Makes the losses that ``when`` chooses by their number not a number."""
    calls = 0

    def poisoned(*args: Any, **kwargs: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        loss = image_loss(*args, **kwargs)
        return loss * float("nan") if when(calls) else loss

    monkeypatch.setattr(_optimize, "image_loss", poisoned)


def poison_parameter(monkeypatch: pytest.MonkeyPatch, column: str, when: Poison) -> None:
    """Puts an infinity into a parameter after the steps that ``when`` chooses."""
    step, calls = RowAdam.step, 0

    def poisoned(self: RowAdam, *args: Any) -> None:
        nonlocal calls
        calls += 1
        step(self, *args)
        if when(calls):
            self.params[3, _optimize.Gaussians4D(self.params, 0, 1).layout.columns[column]] = float("inf")

    monkeypatch.setattr(RowAdam, "step", poisoned)


def run(prepared: Any, config: FitConfig, checkpoint: Path | None = None) -> tuple[list[Event], list[torch.Tensor]]:
    events: list[Event] = []
    pools: tuple[StaticPool, DynamicPool] = fit_joint(
        prepared.capture,
        prepared.static,
        prepared.dynamic,
        prepared.foreground,
        config,
        checkpoint=checkpoint,
        on_event=events.append,
    )
    return events, [value for pool in pools for value in vars(pool).values()]


def test_one_broken_loss_is_rolled_back(prepared: Any, config: FitConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    poison_loss(monkeypatch, lambda call: call == 130)
    events, values = run(prepared, config)
    (warning,) = [e for e in events if isinstance(e, Warned)]
    assert warning.stage == "joint"
    assert "step 200" in warning.message
    assert "rolled back" in warning.message
    assert all(torch.isfinite(value).all() for value in values)


@pytest.mark.parametrize("column", ["mean", "log_scale", "log_tail"])
def test_a_broken_parameter_is_rolled_back(
    prepared: Any, config: FitConfig, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    poison_parameter(monkeypatch, column, lambda call: call == 50)
    events, values = run(prepared, config)
    assert len([e for e in events if isinstance(e, Warned)]) == 1
    assert all(torch.isfinite(value).all() for value in values)


def test_three_bad_rounds_in_a_row_are_survived(
    prepared: Any, config: FitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison_loss(monkeypatch, lambda call: call in (10, 110, 210))
    events, values = run(prepared, config)
    assert len([e for e in events if isinstance(e, Warned)]) == 3
    assert all(torch.isfinite(value).all() for value in values)


def test_a_loss_that_stays_broken_ends_the_fit(
    prepared: Any, config: FitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison_loss(monkeypatch, lambda call: call > 100 and (call - 1) % 100 == 41)
    with pytest.raises(TrainingDiverged, match=r"step 142: 'loss' is not finite.*recon4d check") as refused:
        run(prepared, config)
    assert (refused.value.step, refused.value.tensor) == (142, "loss")


def test_a_parameter_that_stays_broken_is_named(
    prepared: Any, config: FitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison_parameter(monkeypatch, "logit_opacity", lambda call: call % 100 == 0)
    with pytest.raises(TrainingDiverged, match="step 100: 'logit_opacity'") as refused:
        run(prepared, config)
    assert (refused.value.step, refused.value.tensor) == (100, "logit_opacity")


def test_the_static_fit_is_guarded_too(prepared: Any, config: FitConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    poison_loss(monkeypatch, lambda call: call == 5)
    events: list[Event] = []
    pool = fit_static(prepared.capture, config, on_event=events.append).pool
    assert [e.stage for e in events if isinstance(e, Warned)] == ["static"]
    assert all(torch.isfinite(value).all() for value in vars(pool).values())


def test_no_broken_number_reaches_a_checkpoint(
    prepared: Any, config: FitConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from recon4d.files import read_tensors

    poison_loss(monkeypatch, lambda call: call > 100)
    with pytest.raises(TrainingDiverged):
        run(prepared, config, tmp_path / "joint.safetensors")
    found = read_tensors(tmp_path / "joint.safetensors")
    assert found is not None
    assert found[1]["step"] == 100
    assert all(torch.isfinite(value).all() for value in found[0].values())
