"""The tiny world, divided, and a fit of it small enough for seconds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from recon4d.capture import Division, divide
from recon4d.points import DynamicSeedConfig, Foreground
from recon4d.train import FitConfig, JointConfig, StaticConfig, find_foreground, fit_static, seed_dynamic
from recon4d.types import Capture, DynamicPool, SplitRule, StaticPool
from tests import worlds

CONFIG = FitConfig(
    static=StaticConfig(count=800, steps=60),
    seeds=DynamicSeedConfig(count=400),
    joint=JointConfig(steps=220, checkpoint_every=100),
)


@dataclass(frozen=True)
class Prepared:
    """All that a joint fit begins from."""

    capture: Capture
    static: StaticPool
    foreground: Foreground
    dynamic: DynamicPool


@pytest.fixture(scope="session")
def config() -> FitConfig:
    return CONFIG


@pytest.fixture(scope="session")
def division() -> Division:
    """Three training cameras, two held-out instants."""
    return divide(worlds.capture(seconds=1.3, split=SplitRule(heldout_cameras=("c3",))))


@pytest.fixture(scope="session")
def prepared(division: Division, config: FitConfig) -> Prepared:
    still = fit_static(division.train, config)
    capture = division.train.exposed(still.exposures)
    foreground = find_foreground(capture, still.pool, config)
    dynamic = seed_dynamic(capture, foreground, config)
    return Prepared(capture=capture, static=still.pool, foreground=foreground, dynamic=dynamic)
