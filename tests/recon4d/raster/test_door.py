"""The room's door: what it checks, what it resolves, what it leaves out."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from recon4d.errors import BackendError, CalibrationError
from recon4d.raster import Missing, Ready, _registry, backends, prefer, rasterize
from recon4d.types import Camera, Cameras, Splats


def scene(count: int = 3, dtype: torch.dtype = torch.float32) -> tuple[Splats, Cameras]:
    """A few splats on the axis of a small camera."""
    means = torch.zeros(count, 3, dtype=dtype)
    means[:, 2] = torch.linspace(1.0, 2.0, count, dtype=dtype)
    quats = torch.zeros(count, 4, dtype=dtype)
    quats[:, 0] = 1.0
    splats = Splats(
        means=means,
        quats=quats,
        scales=torch.full((count, 3), 0.1, dtype=dtype),
        opacities=torch.full((count,), 0.5, dtype=dtype),
        sh=torch.full((count, 1, 3), 0.4, dtype=dtype),
    )
    K = torch.tensor([[[20.0, 0.0, 10.0], [0.0, 20.0, 8.0], [0.0, 0.0, 1.0]]], dtype=dtype)
    return splats, Cameras(viewmats=torch.eye(4, dtype=dtype)[None], Ks=K, width=20, height=16)


def test_shapes_and_wanted_outputs() -> None:
    splats, cameras = scene()
    both = replace(cameras, viewmats=cameras.viewmats.repeat(2, 1, 1), Ks=cameras.Ks.repeat(2, 1, 1))
    output = rasterize(splats, both)
    assert output.rgb.shape == (2, 16, 20, 3)
    assert output.alpha.shape == output.depth.shape == (2, 16, 20)
    assert torch.equal(output.rgb[0], output.rgb[1])
    only = rasterize(splats, cameras, outputs=("alpha",))
    assert only.rgb is None
    assert only.depth is None
    assert torch.equal(only.alpha[0], output.alpha[0])


def test_depth_is_that_of_the_splats() -> None:
    splats, cameras = scene(1)
    output = rasterize(splats, cameras)
    assert float(output.depth[0, 8, 10]) == pytest.approx(1.0, rel=1e-5)
    assert float(output.depth[0, 0, 0]) == 0.0


@pytest.mark.parametrize("backend", ["reference", "torch", "cpu"])
@pytest.mark.parametrize("learned", [False, True])
def test_the_exposure_scales_colours_background_and_gradients_alone(backend: str, learned: bool) -> None:
    splats, cameras = scene()
    both = replace(cameras, viewmats=cameras.viewmats.repeat(2, 1, 1), Ks=cameras.Ks.repeat(2, 1, 1))
    background = torch.tensor([0.1, 0.5, 0.9], requires_grad=learned)
    splats.sh.requires_grad_()
    plain = rasterize(splats, both, background=background, backend=backend)
    plain.rgb.sum().backward()
    once = splats.sh.grad.clone()
    splats.sh.grad = None
    exposed = replace(both, exposures=torch.tensor([0.5, 1.25]))
    drawn = rasterize(splats, exposed, background=background, backend=backend)
    assert torch.allclose(drawn.rgb[0], 0.5 * plain.rgb[0], atol=1e-7)
    assert torch.allclose(drawn.rgb[1], 1.25 * plain.rgb[1], atol=1e-7)
    assert torch.equal(drawn.alpha, plain.alpha)
    assert torch.equal(drawn.depth, plain.depth)
    drawn.rgb.sum().backward()
    assert torch.allclose(splats.sh.grad, once * (0.5 + 1.25) / 2, rtol=1e-5)


def test_a_batch_of_cameras_knows_their_exposures() -> None:
    camera = Camera(name="a", width=20, height=16, K=np.diag([20.0, 20.0, 1.0]), T_cam_world=np.eye(4))
    assert Cameras.of([camera, camera]).exposures is None
    dark = Camera.from_json(replace(camera, exposure=0.8).to_json())
    assert torch.equal(Cameras.of([camera, dark.crop(0, 0, 20, 16)]).exposures, torch.tensor([1.0, 0.8]))
    for exposure in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(CalibrationError, match="exposure"):
            replace(camera, exposure=exposure)


def test_no_splats_draw_the_background() -> None:
    splats, cameras = scene(0)
    output = rasterize(splats, cameras, background=torch.tensor([0.1, 0.2, 0.3]))
    assert torch.equal(output.rgb, torch.tensor([0.1, 0.2, 0.3]).expand(1, 16, 20, 3))


def test_without_gradients_nothing_is_kept() -> None:
    splats, cameras = scene()
    assert rasterize(splats, cameras).rgb.grad_fn is None


def test_pose_gradient_only_when_asked() -> None:
    splats, cameras = scene()
    splats.means.requires_grad_()
    rasterize(splats, cameras).rgb.sum().backward()
    assert cameras.viewmats.grad is None
    assert splats.means.grad is not None
    assert splats.sh.grad is None


@pytest.mark.parametrize("backend", ["reference", "torch", "cpu"])
def test_only_the_pose_may_require_a_gradient(backend: str) -> None:
    splats, cameras = scene()
    cameras.viewmats.requires_grad_()
    rasterize(splats, cameras, backend=backend).depth.sum().backward()
    assert float(cameras.viewmats.grad[0, 2, 3]) > 0  # Moving the scene away makes it deeper.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, c: (s, replace(c, viewmats=c.viewmats[0])), "viewmats"),
        (lambda s, c: (s, replace(c, Ks=c.Ks.repeat(2, 1, 1))), "Ks"),
        (lambda s, c: (s, replace(c, width=0)), "0x16"),
        (lambda s, c: (s, replace(c, exposures=torch.ones(2))), "exposures"),
        (lambda s, c: (s, replace(c, exposures=torch.ones(1, dtype=torch.float64))), "cameras.exposures is"),
        (lambda s, c: (s, replace(c, Ks=c.Ks + torch.tensor([[0.0, 0.5, 0.0], [0.0] * 3, [0.0] * 3]))), "skew"),
        (lambda s, c: (s, replace(c, Ks=-c.Ks)), "focal"),
        (lambda s, c: (s, replace(c, viewmats=c.viewmats.double())), "cameras.viewmats is torch.float64"),
        (lambda s, c: (replace(s, quats=s.quats.to("meta")), c), "splats.quats"),
    ],
)
def test_refuses_what_cannot_be_drawn(change: object, words: str) -> None:
    splats, cameras = change(*scene())
    with pytest.raises(ValueError, match=words):
        rasterize(splats, cameras)


@pytest.mark.parametrize("options", [{"outputs": ("rgb", "normals")}, {"outputs": ()}, {"background": (0.0, 1.0)}])
def test_refuses_bad_options(options: dict) -> None:
    with pytest.raises(ValueError, match=r"outputs|background"):
        rasterize(*scene(), **options)


def test_float64_goes_to_the_backends_that_take_it() -> None:
    with pytest.raises(ValueError, match="float32"):
        rasterize(*scene(dtype=torch.float64), backend="cpu")
    found = rasterize(*scene(dtype=torch.float64), backend="torch").rgb
    assert found.dtype == torch.float64
    assert torch.allclose(found, rasterize(*scene(dtype=torch.float64), backend="reference").rgb, atol=1e-12)


def test_backends_table() -> None:
    table = backends()
    own = {name: row for name, row in table.items() if row.module.startswith("recon4d.")}
    assert set(own) == {"reference", "torch", "cpu", "gsplat", "host"}
    assert all(isinstance(row.status, Ready) for name, row in own.items() if name != "gsplat")
    assert table["torch"].devices == ("*",)


def test_unknown_backend_names_those_there_are() -> None:
    with pytest.raises(BackendError, match=r"did you mean 'torch'\?.*auto, cpu, gsplat, host, reference, torch"):
        rasterize(*scene(), backend="troch")


def test_auto_follows_the_device() -> None:
    assert _registry.load("auto", torch.device("cpu"))[0] == "cpu"
    assert _registry.load("auto", torch.device("meta"))[0] == "torch"


@pytest.fixture
def preferences(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The process's preferences, empty, and as they were afterwards."""
    empty: dict[str, str] = {}
    monkeypatch.setattr(_registry, "_preferred", empty)
    return empty


def test_auto_is_what_was_preferred_for_the_device(preferences: dict[str, str]) -> None:
    prefer("meta", "host")
    assert _registry.load("auto", torch.device("meta"))[0] == "host"
    assert _registry.load("auto", torch.device("cpu"))[0] == "cpu"
    prefer("meta", None)
    prefer("meta", None)
    assert _registry.load("auto", torch.device("meta"))[0] == "torch"


@pytest.mark.parametrize(
    ("device_type", "backend", "error", "words"),
    [
        ("meta", "hots", BackendError, r"did you mean 'host'\?"),
        ("meta", "cpu", BackendError, "takes tensors on cpu; these are on meta"),
        ("meta", "auto", ValueError, "cannot stand for itself"),
        ("cpu", "torch", ValueError, "always is 'cpu' for CPU tensors"),
        ("cuda:1", "torch", ValueError, "give 'cuda', not 'cuda:1'"),
        ("no-such", "torch", ValueError, "no torch device type"),
    ],
)
def test_refuses_a_preference_that_cannot_be_met(
    preferences: dict[str, str], device_type: str, backend: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        prefer(device_type, backend)
    assert preferences == {}


def test_a_preference_for_a_missing_backend_says_why(
    preferences: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recon4d.raster.host.status", lambda: Missing("out of order"))
    with pytest.raises(BackendError, match="'host' cannot be used here: out of order"):
        prefer("meta", "host")
    assert preferences == {}


def test_device_that_a_backend_does_not_take() -> None:
    with pytest.raises(BackendError, match="takes tensors on cpu; these are on meta"):
        _registry.load("cpu", torch.device("meta"))


def test_backend_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {**_registry._modules(), "ours": "recon4d.raster.reference", "broken": "no_such_package.raster"}
    monkeypatch.setattr(_registry, "_modules", lambda: modules)
    table = backends()
    assert isinstance(table["broken"].status, Missing)
    assert "no_such_package" in table["broken"].status.reason
    with pytest.raises(BackendError, match="no_such_package"):
        rasterize(*scene(), backend="broken")
    assert torch.allclose(rasterize(*scene(), backend="ours").rgb, rasterize(*scene()).rgb, atol=1e-5)


def test_import_is_cheap() -> None:
    """The door loads no backend, and so compiles nothing."""
    code = "import sys, recon4d.raster; assert not any(m.startswith('recon4d.raster.cpu') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
