"""A small random model, shared by the tests of the model room."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recon4d.geometry import look_at
from recon4d.model import Gaussians4D, Layout
from recon4d.types import Camera

T = 1.0


def make_params(layout: Layout, n_static: int, n: int, seed: int = 0) -> torch.Tensor:
    """[n, D] raw rows in a half-metre cube; about a third of the dynamic ones sit in their tail at t = 1."""
    rng = np.random.default_rng(seed)
    params = np.zeros((n, layout.width), np.float32)

    def fill(name: str, values: np.ndarray) -> None:
        params[:, layout.columns[name]] = values

    fill("mean", rng.uniform(-0.5, 0.5, (n, 3)))
    fill("quat", rng.normal(size=(n, 4)))
    fill("log_scale", np.log(0.01) + 0.5 * rng.normal(size=(n, 3)))
    fill("logit_opacity", rng.normal(size=(n, 1)))
    params[:, layout.sh] = 0.3 * rng.normal(size=(n, 3 * layout.coefficients))
    fill("velocity", 0.3 * rng.normal(size=(n, 3)))
    fill("center", T + rng.uniform(-0.6, 0.6, (n, 1)))
    fill("log_radius", np.log(rng.uniform(0.05, 0.3, (n, 1))))
    fill("log_tail", np.log(rng.uniform(0.1, 0.3, (n, 1))))
    params[:n_static, layout.temporal] = 0
    return torch.from_numpy(params)


@pytest.fixture(params=[0, 1, 3], ids=["sh0", "sh1", "sh3"])
def model(request: pytest.FixtureRequest) -> Gaussians4D:
    """700 static and 1300 dynamic rows: several chunks, the last one partly filled."""
    layout = Layout(request.param)
    return Gaussians4D(make_params(layout, 700, 2000), 700, request.param)


@pytest.fixture
def camera() -> Camera:
    """Sees about half of the cube."""
    K = np.array([[160.0, 0, 48], [0, 150.0, 32], [0, 0, 1]])
    pose = look_at(np.array([0.9, 0.1, 0.5]), np.array([0.1, 0.2, 0.0]))
    return Camera(name="test", width=96, height=64, K=K, T_cam_world=pose)
