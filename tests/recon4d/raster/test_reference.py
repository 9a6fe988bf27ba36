"""The reference itself, against finite differences and against what can be said with pencil and paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from recon4d.geometry import look_at
from recon4d.raster import _contract as contract
from recon4d.raster import rasterize
from recon4d.types import Cameras, Splats

NAMES = ("means", "quats", "scales", "opacities", "sh", "viewmats")


def world() -> dict[str, torch.Tensor]:
    """Six large splats well inside the image, none near a threshold anywhere: every pixel is smooth in everything."""
    rng = np.random.default_rng(1)
    tensor = lambda a: torch.tensor(np.asarray(a), dtype=torch.float64)  # noqa: E731
    return {
        "means": tensor(rng.uniform(-0.1, 0.1, (6, 3))),
        "quats": tensor(rng.normal(size=(6, 4))),
        "scales": tensor(rng.uniform(0.25, 0.5, (6, 3))),
        "opacities": tensor(rng.uniform(0.3, 0.6, 6)),
        "sh": tensor(rng.normal(0.0, 0.1, (6, 16, 3))),
        "viewmats": tensor(look_at(np.array([0.3, -1.5, 0.8]), np.zeros(3)))[None],
    }


def loss(values: dict[str, torch.Tensor], antialiased: bool) -> torch.Tensor:
    cameras = Cameras(
        viewmats=values["viewmats"],
        Ks=torch.tensor([[[16.0, 0.0, 4.5], [0.0, 15.0, 5.0], [0.0, 0.0, 1.0]]], dtype=torch.float64),
        width=10,
        height=9,
    )
    splats = Splats(**{name: values[name] for name in NAMES[:-1]})
    output = rasterize(splats, cameras, background=(0.1, 0.2, 0.3), backend="reference", antialiased=antialiased)
    generator = torch.Generator().manual_seed(2)
    images = (output.rgb, output.alpha, output.depth)
    weights = [torch.randn(image.shape, generator=generator, dtype=torch.float64) for image in images]
    return torch.stack([(i * w).sum() for i, w in zip(images, weights, strict=True)]).sum()


@pytest.mark.parametrize("antialiased", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_finite_differences(name: str, antialiased: bool) -> None:
    values = world()
    leaf = values[name].requires_grad_()
    loss(values, antialiased).backward()
    gradient = leaf.grad
    rng = np.random.default_rng(3)
    for _ in range(3):
        direction = torch.tensor(rng.normal(size=leaf.shape))
        if name == "viewmats":
            direction[:, 3] = 0  # The last row is no number of the pose.
        step = 1e-6
        ends = [loss(values | {name: leaf.detach() + sign * step * direction}, antialiased) for sign in (1, -1)]
        slope = float(ends[0] - ends[1]) / (2 * step)
        # Central differences at 1e-6 in float64; worst measured 2e-8 relative.
        assert slope == pytest.approx(float((gradient * direction).sum()), rel=1e-6, abs=1e-7)


def centered(opacity: float, *, scale: float = 0.5, count: int = 1) -> tuple[Splats, Cameras]:
    """``count`` splats at 2 m on the axis, which meets the centre of pixel (2, 2)."""
    splats = Splats(
        means=torch.tensor([[0.0, 0.0, 2.0]]).repeat(count, 1),
        quats=torch.tensor([[2.0, 0.0, 0.0, 0.0]]).repeat(count, 1),
        scales=torch.full((count, 3), scale),
        opacities=torch.full((count,), opacity),
        sh=torch.zeros(count, 1, 3),
    )
    K = torch.tensor([[[10.0, 0.0, 2.5], [0.0, 10.0, 2.5], [0.0, 0.0, 1.0]]])
    return splats, Cameras(viewmats=torch.eye(4)[None], Ks=K, width=5, height=5)


@pytest.mark.parametrize("backend", ["reference", "torch", "cpu"])
def test_one_splat_by_hand(backend: str) -> None:
    splats, cameras = centered(0.5)
    output = rasterize(splats, cameras, background=(1.0, 0.0, 0.0), backend=backend)
    variance = (10 * 0.5 / 2) ** 2 + 0.3
    for pixel, distance2 in (((2, 2), 0.0), ((2, 3), 1.0), ((4, 1), 5.0)):
        alpha = 0.5 * math.exp(-distance2 / (2 * variance))
        assert float(output.alpha[0][pixel]) == pytest.approx(alpha, rel=1e-5)
        assert output.rgb[0][pixel].tolist() == pytest.approx(
            [0.5 * alpha + 1 - alpha, 0.5 * alpha, 0.5 * alpha], rel=1e-5
        )
        assert float(output.depth[0][pixel]) == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize("backend", ["reference", "torch", "cpu"])
def test_thresholds_by_hand(backend: str) -> None:
    def alpha(opacity: float, count: int = 1, antialiased: bool = False, scale: float = 0.5) -> float:
        splats, cameras = centered(opacity, count=count, scale=scale)
        return float(rasterize(splats, cameras, backend=backend, antialiased=antialiased).alpha[0, 2, 2])

    assert alpha(0.99 / 255) == 0.0
    assert alpha(1.01 / 255) == pytest.approx(1.01 / 255, rel=1e-4)
    assert alpha(1.0) == pytest.approx(0.999, abs=1e-6)
    # 0.05, 0.0025, 1.25e-4 pass; a fourth would leave 6e-6 and is not drawn, nor is any behind it.
    assert alpha(0.95, count=20) == pytest.approx(1 - 0.05**3, abs=2e-6)
    # A splat of a tenth of a pixel: variance 0.01 grows to 0.31 in both axes.
    assert alpha(0.9, antialiased=True, scale=0.02) == pytest.approx(0.9 * 0.01 / 0.31, rel=1e-4)


def test_contract_numbers() -> None:
    """These are promised to scenes that others made; changing one changes how every scene looks."""
    assert contract.NEAR_M == 0.01
    assert contract.DILATION_PX2 == 0.3
    assert pytest.approx(1 / 255) == contract.ALPHA_MIN
    assert (contract.ALPHA_MAX, contract.MIN_TRANSMITTANCE, contract.MIN_DEPTH_ALPHA) == (0.999, 1e-4, 1e-3)
    assert contract.FOV_MARGIN == 1.3
