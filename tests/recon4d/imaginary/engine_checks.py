"""The package's parts on a device without float64 or kernels of its own. Run by ``test_imaginary_device.py``."""

from __future__ import annotations

from dataclasses import replace

import imaginary_accel
import numpy as np
import pytest
import torch
from imaginary_accel import watch
from torch import Tensor

from recon4d.geometry import look_at
from recon4d.loss import LossTerms, image_loss
from recon4d.model import Gaussians4D, Layout, RowAdam
from recon4d.raster import rasterize
from recon4d.types import Camera, Cameras, Splats

imaginary_accel.install()

on_both = pytest.mark.parametrize("device", ["imaginary:0", "imaginary:1"])


def camera() -> Camera:
    K = np.array([[90.0, 0, 48], [0, 90.0, 32], [0, 0, 1]])
    return Camera(
        name="c", width=96, height=64, K=K, T_cam_world=look_at(np.array([0.9, 0.1, 0.5]), np.array([0.1, 0.2, 0.0]))
    )


def parameters(n_static: int, n: int) -> Tensor:
    """[n, D] raw rows in a half-metre cube."""
    layout, generator = Layout(1), torch.Generator().manual_seed(0)
    params = torch.zeros(n, layout.width)
    for name, offset, spread in (
        ("mean", 0.0, 0.25),
        ("quat", 0.0, 1.0),
        ("log_scale", -4.0, 0.4),
        ("logit_opacity", 0.0, 1.0),
        ("sh_dc", 0.0, 0.5),
        ("velocity", 0.0, 0.3),
        ("center", 1.0, 0.2),
        ("log_radius", -2.0, 0.3),
        ("log_tail", -2.0, 0.3),
    ):
        column = params[:, layout.columns[name]]
        column.copy_(offset + spread * torch.randn(column.shape, generator=generator))
    params[:n_static, layout.temporal] = 0
    return params


def splats(count: int, device: str) -> Splats:
    """Differentiable leaves."""
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    values = {
        "means": 0.3 * normal(count, 3),
        "quats": normal(count, 4),
        "scales": 0.02 * normal(count, 3).exp(),
        "opacities": normal(count).sigmoid(),
        "sh": 0.3 * normal(count, 4, 3),
    }
    return Splats(**{name: value.to(device).requires_grad_() for name, value in values.items()})


def target(device: str) -> Tensor:
    return torch.rand(64, 96, 3, generator=torch.Generator().manual_seed(2)).to(device)


def assert_near(expected: Tensor, found: Tensor, device: str) -> None:
    """Rounding apart, relative to the largest entry: the devices add up in another order."""
    assert found.device == torch.device(device)
    scale = float(expected.detach().abs().max())
    torch.testing.assert_close(found.detach().cpu() / scale, expected.detach() / scale, rtol=1e-5, atol=1e-5)


@on_both
@pytest.mark.parametrize("antialiased", [False, True])
def test_images_and_gradients_are_the_cpus(device: str, antialiased: bool) -> None:
    results: list[list[Tensor]] = []
    for place in ("cpu", device):
        drawn = splats(400, place)
        cameras = Cameras.of(camera(), device=place)
        output = rasterize(drawn, cameras, outputs=("rgb", "alpha", "depth"), antialiased=antialiased, backend="torch")
        images = [image for image in (output.rgb, output.alpha, output.depth) if image is not None]
        weights = [torch.linspace(-1, 1, image.numel()).view_as(image).to(place) for image in images]
        torch.stack([(w * i).sum() for w, i in zip(weights, images, strict=True)]).sum().backward()
        leaves = (drawn.means, drawn.quats, drawn.scales, drawn.opacities, drawn.sh)
        results.append([*images, *(leaf.grad for leaf in leaves if leaf.grad is not None)])
    assert len(results[0]) == len(results[1]) == 8
    for expected, found in zip(*results, strict=True):
        assert_near(expected, found, device)


@on_both
def test_the_automatic_backend_serves_the_device(device: str) -> None:
    with torch.no_grad():
        output = rasterize(splats(50, device), Cameras.of(camera(), device=device))
    assert output.rgb is not None
    assert output.rgb.device == torch.device(device)


@on_both
def test_a_slice_is_the_cpus(device: str) -> None:
    host = Gaussians4D(parameters(200, 500), 200, 1, backend="torch")
    there = host.to(device)
    results = []
    for model in (host, there):
        part = model.slice(1.0, camera(), opacity_cost=1e-3, static_opacity_cost=1e-4)
        values = [part.splats.means, part.splats.quats, part.splats.scales, part.splats.opacities, part.splats.sh]
        torch.stack([value.square().sum() for value in values]).sum().backward()
        results.append([part.rows, *values, part.gradient()])
    (rows, *expected), (rows_there, *found) = results
    assert 0 < len(rows) < 500
    assert rows_there.tolist() == rows.tolist()
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one.detach(), other.detach().cpu())
    assert torch.equal(host.at(1.1).means, there.at(1.1).means.cpu())
    static, dynamic = there.to_pools()
    assert static.means.device == dynamic.means.device == torch.device("cpu")


@on_both
def test_steps_of_adam_are_the_cpus(device: str) -> None:
    results = []
    for place in ("cpu", device):
        params = parameters(20, 50).to(place)
        adam = RowAdam(params, backend="torch")
        still, moving = (Layout(1).vector(mean=1e-3, sh_dc=1e-2, velocity=rate).to(place) for rate in (0.0, 1e-2))
        for seed in range(3):
            generator = torch.Generator().manual_seed(seed)
            rows = torch.randperm(50, generator=generator)[:30].sort().values
            gradient = torch.randn(30, params.shape[1], generator=generator)
            gradient[::4] = 0
            adam.step(rows.to(place), gradient.to(place), still, moving, 20)
        results.append([params, *adam.state_dict().values()])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other.cpu())


@on_both
@pytest.mark.parametrize("terms", [LossTerms(), LossTerms(l1=0.5, ssim=0.0, l2=0.5)], ids=["ssim", "squares"])
def test_the_loss_is_the_cpus(device: str, terms: LossTerms) -> None:
    results = []
    for place in ("cpu", device):
        image = target(place).flip(0).requires_grad_()
        weight = torch.linspace(0, 1, 64 * 96).view(64, 96).to(place)
        truth = (target(place) * 255).to(torch.uint8)
        loss = image_loss(image, truth, weight=weight, terms=replace(terms), pixels=6144, backend="torch")
        loss.backward()
        assert image.grad is not None
        results.append([loss.detach(), image.grad])
    for expected, found in zip(*results, strict=True):
        assert torch.equal(expected, found.cpu())


@on_both
def test_a_step_of_training_asks_for_no_operator_that_devices_lack(device: str) -> None:
    model = Gaussians4D(parameters(200, 500), 200, 1).to(device)
    optimizer = RowAdam(model.params)
    truth = (target(device) * 255).to(torch.uint8)
    rates = Layout(1).vector(mean=1e-3, sh_dc=1e-2).to(device)
    before = model.params.clone()
    with watch() as log:
        part = model.slice(1.0, camera(), opacity_cost=1e-3)
        drawn = rasterize(part.splats, Cameras.of(camera(), device=device), outputs=("rgb",))
        assert drawn.rgb is not None
        image_loss(drawn.rgb[0], truth).backward()
        optimizer.step(part.rows, part.gradient(), rates, rates, model.n_static)
    assert log.refusals == []
    assert bool((model.params != before).any())
