"""What a fit is told: presets, ranges, and the way to JSON and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest

from recon4d.errors import ConfigError
from recon4d.loss import LossTerms
from recon4d.train import FitConfig, JointConfig, Preset, RateConfig, StaticConfig, preset


@pytest.mark.parametrize("name", get_args(Preset))
def test_a_configuration_survives_json(name: Preset) -> None:
    config = preset(name)
    assert FitConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_changed_values_at_every_depth_survive_json() -> None:
    config = FitConfig(
        seed=7,
        loss=LossTerms(l1=0.5, ssim=0.1, l2=2.0),
        joint=JointConfig(steps=11, rates=RateConfig(means=0.25, quats=0.5)),
    )
    again = FitConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert again.joint.rates.quats == 0.5


def test_presets_grow_and_balanced_is_the_default() -> None:
    fast, balanced, quality = (preset(name) for name in ("fast", "balanced", "quality"))
    assert balanced == FitConfig()
    assert fast.joint.steps < balanced.joint.steps < quality.joint.steps
    assert fast.static.count < balanced.static.count < quality.static.count
    assert fast.seeds.count < balanced.seeds.count < quality.seeds.count


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'best'.*fast, balanced, quality"):
        preset("best")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sh_degree": 4}, "sh_degree is 4.*0 and 3"),
        ({"sh_degree": -1}, "sh_degree is -1"),
        ({"key_hz": 0.0}, "key_hz is 0.0"),
        ({"train_hz": float("nan")}, "train_hz is nan"),
        ({"ssim_every": 0}, "ssim_every is 0"),
        ({"static": StaticConfig(count=0)}, "static.count is 0"),
        ({"static": StaticConfig(steps=0)}, "static.steps is 0"),
        ({"joint": JointConfig(steps=0)}, "joint.steps is 0"),
        ({"joint": JointConfig(whole_every=0)}, "joint.whole_every is 0"),
        ({"joint": JointConfig(checkpoint_every=0)}, "joint.checkpoint_every is 0"),
    ],
)
def test_values_out_of_range_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(FitConfig(), **change)


@pytest.mark.parametrize(
    ("path", "words"),
    [(("stepz",), "'stepz'; there are.*joint"), (("joint", "stepz"), r"'joint\.stepz'; there are.*steps")],
)
def test_an_unknown_field_is_refused_with_its_path(path: tuple[str, ...], words: str) -> None:
    data = FitConfig().to_json()
    group = data
    for name in path[:-1]:
        group = group[name]
    group[path[-1]] = 1
    with pytest.raises(ConfigError, match=words):
        FitConfig.from_json(data)
