"""The same joint fit in plain PyTorch: the path that every device without compiled kernels takes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from recon4d.events import Event, Progress
from recon4d.loss import image_loss
from recon4d.model import Gaussians4D, RowAdam
from recon4d.train import FitConfig, JointConfig, _joint, _optimize, fit_joint
from recon4d.train._ahead import with_room
from recon4d.types import DynamicPool, StaticPool

STEPS = 30


def eager_model(static: StaticPool, dynamic: DynamicPool) -> Gaussians4D:
    model = Gaussians4D.from_pools(static, dynamic)
    return Gaussians4D(model.params, model.n_static, model.sh_degree, backend="torch")


def last_progress(prepared: Any, config: FitConfig, steps: int = STEPS) -> tuple[Progress, list[Tensor]]:
    events: list[Event] = []
    pools: tuple[StaticPool, DynamicPool] = fit_joint(
        prepared.capture,
        prepared.static,
        prepared.dynamic,
        prepared.foreground,
        replace(config, joint=JointConfig(steps=steps)),
        on_event=events.append,
    )
    progress = next(e for e in reversed(events) if isinstance(e, Progress))
    return progress, [value for pool in pools for value in vars(pool).values()]


@pytest.fixture
def eagerly(config: FitConfig, monkeypatch: pytest.MonkeyPatch) -> FitConfig:
    """Makes everything run in PyTorch."""
    monkeypatch.setattr(_joint, "Gaussians4D", SimpleNamespace(from_pools=eager_model))
    monkeypatch.setattr(_optimize, "image_loss", partial(image_loss, backend="torch"))
    monkeypatch.setattr(_optimize, "RowAdam", partial(RowAdam, backend="torch"))
    return replace(config, backend="torch")


def survey_always(monkeypatch: pytest.MonkeyPatch, room: float = _optimize.ROOM) -> list[float]:
    """Makes rounds begin with a survey, as on an accelerator. Returns the list of rooms that were given."""
    begin, rooms = _optimize.Descent.__init__, []

    def with_survey(self: Any, *args: Any) -> None:
        begin(self, *args)
        self.surveys = True

    def recorded(model: Any, times_s: Any, prepared: Any, factor: float, backend: str) -> Any:
        rooms.append(factor)
        return with_room(model, times_s, prepared, factor, backend)

    monkeypatch.setattr(_optimize.Descent, "__init__", with_survey)
    monkeypatch.setattr(_optimize, "with_room", recorded)
    monkeypatch.setattr(_optimize, "ROOM", room)
    return rooms


def test_compiled_and_eager_training_agree(prepared: Any, config: FitConfig, request: pytest.FixtureRequest) -> None:
    compiled, _ = last_progress(prepared, config)
    eager, _ = last_progress(prepared, request.getfixturevalue("eagerly"))
    assert compiled.loss is not None
    assert compiled.psnr is not None
    # Measured 7e-4 and 0.05 dB: Adam's steps have full length where a gradient is all rounding, and part there.
    assert eager.loss == pytest.approx(compiled.loss, rel=5e-3)
    assert eager.psnr == pytest.approx(compiled.psnr, abs=0.3)
    assert eager.active == pytest.approx(compiled.active, abs=3)


def test_training_with_surveys_agrees(prepared: Any, eagerly: FitConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, _ = last_progress(prepared, eagerly)
    rooms = survey_always(monkeypatch)
    surveyed, _ = last_progress(prepared, eagerly)
    assert rooms == [_optimize.ROOM]
    assert surveyed.loss == pytest.approx(exact.loss, rel=5e-3)
    assert surveyed.psnr == pytest.approx(exact.psnr, abs=0.3)
    # The survey counts at the beginning of the round, the other at every step.
    assert surveyed.active == pytest.approx(exact.active, rel=0.1)


def test_a_round_that_outgrows_its_room_is_made_again(
    prepared: Any, eagerly: FitConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little room costs time, and changes nothing that is learned."""
    survey_always(monkeypatch)
    _, wanted = last_progress(prepared, eagerly, 8)
    rooms = survey_always(monkeypatch, room=0.2)
    _, found = last_progress(prepared, eagerly, 8)
    assert rooms[:2] == [0.2, 0.4]
    assert rooms[-1] >= 0.8
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)
