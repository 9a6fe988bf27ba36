"""The host backend: the cpu backend's images and gradients, for tensors of any device."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from recon4d.raster import backends, host, rasterize
from recon4d.raster._contract import Request
from recon4d.types import Cameras, RenderOutput, Splats
from tests.parity.test_raster import ATTRIBUTES, camera, case, cloud, draw


@pytest.mark.parametrize("scene", ["sh0", "sh3", "antialiased", "two_cameras"])
def test_images_and_gradients_are_those_of_the_cpu_backend(scene: str) -> None:
    splats, cameras, antialiased, _, weights = case(scene)
    wanted = draw("cpu", splats, cameras, antialiased, weights)
    found = draw("host", splats, cameras, antialiased, weights)
    for part in (0, 1):
        for name, value in wanted[part].items():
            assert torch.equal(found[part][name], value), name


def test_learned_background_and_exposures() -> None:
    splats, cameras, *_ = case("two_cameras")
    exposed = replace(cameras, exposures=torch.tensor([0.5, 1.5]))
    results = []
    for backend in ("cpu", "host"):
        background = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
        rgb = rasterize(splats, exposed, background=background, backend=backend).rgb
        rgb.sum().backward()
        results.append((rgb.detach(), background.grad))
    for wanted, found in zip(*results, strict=True):
        assert torch.equal(found, wanted)


def test_takes_any_device_and_float32_alone() -> None:
    assert backends()["host"].devices == ("*",)
    splats, cameras = cloud(3, 0), Cameras.of(camera(), dtype=torch.float64)
    double = Splats(**{name: getattr(splats, name).double() for name in ATTRIBUTES})
    with pytest.raises(ValueError, match="'host' computes in float32"):
        rasterize(double, cameras, backend="host")


def test_everything_goes_to_the_cpu_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen on meta tensors, which hold no numbers: those that arrive are of another device, and all of them do."""

    @dataclass(frozen=True, kw_only=True)
    class Later(Request):
        more: torch.Tensor

    moved = []
    real = torch.Tensor.to

    def to(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        moved.append((tensor.device.type, device.type))
        return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else real(tensor, device)

    asked: list[Later] = []

    def render(request: Later) -> RenderOutput:
        asked.append(request)
        return RenderOutput(rgb=torch.zeros(1, 4, 5, 3), alpha=torch.zeros(1, 4, 5))

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr("recon4d.raster.cpu.render", render)
    splats, cameras = cloud(3, 1), Cameras.of(camera(5, 4))
    meta = Later(
        splats=Splats(
            **{name: torch.empty_like(getattr(splats, name), device="meta") for name in ATTRIBUTES},
            rows=torch.empty(3, dtype=torch.int64, device="meta"),
        ),
        cameras=replace(cameras, viewmats=torch.empty(1, 4, 4, device="meta"), Ks=torch.empty(1, 3, 3, device="meta")),
        background=torch.empty(3, device="meta"),
        depth=False,
        antialiased=True,
        more=torch.empty(7, device="meta"),
    )
    drawn = host.render(meta)
    (request,) = asked
    assert moved == [("meta", "cpu")] * 9 + [("cpu", "meta")] * 2
    assert request.splats.rows is None
    assert request.antialiased
    assert request.more.device.type == request.cameras.Ks.device.type == "cpu"
    assert drawn.rgb.device.type == drawn.alpha.device.type == "meta"
    assert drawn.depth is None
