"""How much of a job is done, from its events."""

from __future__ import annotations

import pytest

from api.jobs import KINDS
from api.jobs._kinds import Kind
from api.jobs._progress import Progress as Share
from recon4d.events import Finished, Progress, Started, Warned

STAGES = {"static": 0.25, "joint": 0.75}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_shares_add_up(kind: Kind) -> None:
    assert sum(kind.stages.values()) == pytest.approx(1)


def test_it_grows_with_the_steps_and_never_goes_back() -> None:
    share = Share(STAGES)
    seen = []
    for event in (
        Started(stage="run"),
        Started(stage="static"),
        Progress(stage="static", step=1, total=2, eta_s=7.0),
        Finished(stage="static", seconds=1.0),
        Started(stage="joint"),
        Progress(stage="joint", step=1, total=3),
        Warned(stage="compile", message="slow"),
        Progress(stage="joint", step=0, total=3),
        Finished(stage="joint", seconds=1.0),
    ):
        share.hear(event)
        seen.append(share.fraction)
    assert seen == pytest.approx([0, 0, 0.125, 0.25, 0.25, 0.5, 0.5, 0.5, 1.0])


def test_it_tells_the_stage_and_what_is_left_of_it() -> None:
    share = Share(STAGES)
    share.hear(Progress(stage="static", step=1, total=2, eta_s=7.0))
    assert (share.stage, share.eta_s) == ("static", 7.0)
    share.hear(Started(stage="joint"))
    assert (share.stage, share.eta_s) == ("joint", None)
