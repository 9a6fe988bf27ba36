"""Colour fit and view envelope against what is known."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from recon4d.geometry import look_at
from recon4d.types import Camera
from simbridge.bundle import EnvelopeConfig, build, read_config
from simbridge.bundle._colour import apply, features, fit, gap_db
from simbridge.bundle._envelope import envelope, nearest_angle
from simbridge.bundle._transform import selected
from tests import worlds
from tests.simbridge.bundle import small


@pytest.mark.parametrize("kind", ["affine", "quadratic"])
def test_a_known_colour_transform_is_recovered_among_outliers(kind: Literal["affine", "quadratic"]) -> None:
    draws = np.random.default_rng(0)
    rendered = draws.uniform(0.1, 0.9, (3000, 3))
    true = np.zeros((4 if kind == "affine" else 7, 3))
    true[-4:-1] = np.diag([0.9, 0.8, 0.85]) + 0.02
    true[-1] = [0.03, 0.02, 0.05]
    if kind == "quadratic":
        true[:3] = np.diag([0.1, -0.05, 0.08])
    real = features(rendered, kind) @ true + draws.normal(0, 0.002, (3000, 3))
    real[:600] = draws.uniform(0, 1, (600, 3))
    found = fit(rendered, real, kind)
    assert np.abs(features(rendered, kind) @ (found - true)).max() < 2e-3
    assert gap_db(apply(found, rendered[600:]), real[600:]) > gap_db(rendered[600:], real[600:]) + 20


def test_a_fit_needs_pixels() -> None:
    with pytest.raises(ValueError, match="at least 40 pixels; there are 5"):
        fit(np.zeros((5, 3)), np.zeros((5, 3)), "affine")


def down(x: float, height: float = 0.5) -> Camera:
    """Looks straight down; its picture of the bench is 0.5 m wide at a height of 0.5 m."""
    T = look_at(np.array([x, 0, height]), np.array([x, 0, 0]))
    return Camera(
        name=f"at {x}", width=64, height=64, K=np.array([[64.0, 0, 32], [0, 64, 32], [0, 0, 1]]), T_cam_world=T
    )


def test_holes_and_coverage_are_the_share_of_the_picture() -> None:
    half = selected(small.bench(), small.bench().means[:, 0] <= 0)
    found = envelope(half, [down(0.0), down(-0.5)], [], EnvelopeConfig(samples=0), 0)["cameras"]
    assert abs(found["at 0.0"]["holes"] - 0.5) < 0.06
    assert abs(found["at 0.0"]["coverage"] - 0.5) < 0.06
    assert found["at -0.5"]["holes"] == 0
    assert found["at -0.5"]["angle_rad"] is None


def test_the_worst_case_is_worse_and_reproducible() -> None:
    half = selected(small.bench(), small.bench().means[:, 0] <= 0)
    config = EnvelopeConfig(samples=6, position_m=0.1, rotation_rad=0.1)
    first, second = (envelope(half, [down(-0.2)], [down(-0.2)], config, 3) for _ in range(2))
    assert first == second
    facts = first["cameras"]["at -0.2"]
    assert facts["worst"]["holes"] > facts["holes"]
    assert facts["worst"]["angle_rad"] > facts["angle_rad"]


def test_the_angle_is_that_between_views_of_one_point() -> None:
    aside = Camera.from_json({**down(0).to_json(), "T_cam_world": look_at(np.array([0.5, 0, 0.0]), np.zeros(3))})
    assert abs(nearest_angle(down(0.0), [aside], 0.5) - np.pi / 2) < 1e-6
    assert nearest_angle(down(0.0), [aside, down(0.0)], 0.5) < 1e-6


def test_colours_are_fitted_to_a_capture(tmp_path: Path) -> None:
    folder = worlds.write_capture(worlds.capture(seconds=0.6), tmp_path / "capture")
    built = build(small.scene(), read_config(small.config_file(tmp_path)), tmp_path / "b", capture=folder)
    assert built.colour is not None
    assert built.colour.shape == (4, 3)
    facts = built.provenance["colour"]
    assert facts["gap_after_db"] >= facts["gap_before_db"]
    assert torch.isfinite(torch.tensor(built.colour)).all()
