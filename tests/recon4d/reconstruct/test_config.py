"""What a reconstruction is told, and how one value is changed by its name."""

from __future__ import annotations

import json

import pytest

from recon4d.errors import ConfigError
from recon4d.reconstruct import ReconstructConfig
from recon4d.train import preset
from recon4d.types import SplitRule


def test_a_preset_decides_the_fit_alone() -> None:
    assert ReconstructConfig.of("fast").fit == preset("fast")
    assert ReconstructConfig.of("fast").score == ReconstructConfig().score


def test_the_whole_configuration_is_plain_json() -> None:
    config = ReconstructConfig.of("quality")
    assert json.loads(json.dumps(config.to_json()))["fit"]["joint"]["steps"] == config.fit.joint.steps


def test_other_heldout_cameras_leave_the_rest_of_the_rule() -> None:
    own = SplitRule(heldout_cameras=("a",), every=5, guard_s=0.2)
    assert ReconstructConfig().rule(own) == own
    assert ReconstructConfig(heldout_cameras=("b", "c")).rule(own) == SplitRule(
        heldout_cameras=("b", "c"), every=5, guard_s=0.2
    )
    assert ReconstructConfig(heldout_cameras=()).rule(own).heldout_cameras == ()
    assert ReconstructConfig(split=SplitRule(every=0)).rule(own) == SplitRule(every=0)


def test_one_value_is_changed_and_nothing_else() -> None:
    config = ReconstructConfig.of("fast")
    changed = config.with_value("fit.joint.steps=5").with_value("fit.joint.steps = 7").with_value("videos=FALSE")
    changed = changed.with_value("fit.static.rates.means=1e-4").with_value("score.backend=torch")
    assert changed.fit.joint.steps == 7
    assert changed.videos is False
    assert changed.fit.static.rates.means == 1e-4
    assert changed.score.backend == "torch"
    assert changed.fit.joint.rates == config.fit.joint.rates
    back = changed.with_value(f"fit.joint.steps={config.fit.joint.steps}").with_value("videos=true")
    back = back.with_value(f"fit.static.rates.means={config.fit.static.rates.means}").with_value("score.backend=auto")
    assert back == config


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("fit.joint.steps", "no assignment; write NAME=VALUE"),
        ("=3", "no configuration field"),
        ("fit.joint.stepz=3", r"'fit\.joint\.stepz'; 'stepz' is none of.*steps"),
        ("fitt.joint=3", "'fitt' is none of fit, heldout_cameras, ingest, score, split, videos"),
        ("fit.joint=3", "is a group; it holds.*steps"),
        ("fit.joint.steps.more=3", "'steps' is a value and holds no fields"),
        ("fit.joint.steps=many", "of the kind int, like 14000; it is 'many'"),
        ("fit.joint.steps=1.5", "of the kind int"),
        ("fit.loss.l1=big", "of the kind float"),
        ("fit.loss.l1=inf", "must be finite; it is 'inf'"),
        ("fit.loss.l1=-1", r"fit\.loss\.l1: LossTerms\.l1 must be finite and at least 0; it is -1"),
        ("videos=maybe", "of the kind bool"),
        ("split=none", "cannot be set this way"),
        ("fit.joint.steps=0", r"joint\.steps is 0; it must lie between"),
        ("ingest.memory_budget_mib=-1", "memory_budget_mib must be 0 or more"),
        ("score.train_every=0", "train_every must be 1 or more"),
    ],
)
def test_a_bad_assignment_says_what_would_be_right(assignment: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ReconstructConfig().with_value(assignment)
