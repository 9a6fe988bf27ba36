"""The gsplat backend where there is no CUDA: what it passes, what it makes of the answer, and what it says is missing.

gsplat itself is played by the float64 reference, behind gsplat's signature and units: its images are the right ones if
and only if the arguments are. The signature, the projection and the harmonics are held against the real package where
that is installed, and the whole against the reference where there is a device.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from recon4d.errors import BackendError
from recon4d.geometry import SH_C0, quat_to_matrix, sh_basis
from recon4d.raster import Missing, Ready, backends, rasterize
from recon4d.raster import gsplat as backend
from recon4d.raster._contract import Request
from recon4d.raster.reference import render as reference_render
from recon4d.types import Cameras, Splats
from tests.parity.test_raster import (
    ATTRIBUTES,
    SCENES,
    _spoil,
    camera,
    case,
    check,
    cloud,
    draw,
    reference,
)

INSTALLED = find_spec("gsplat") is not None
needs_package = pytest.mark.skipif(not INSTALLED, reason="gsplat is not installed: pip install 'recon4d[gsplat]'")

DIFFERENT = {"off_center", "crop", "opaque", "odd_scales", "odd_scales_antialiased"}
"""Scenes that show what the backend's docstring names as different."""

Rasterization = Callable[..., tuple[Tensor, Tensor, dict]]


def rasterization(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float,
    far_plane: float,
    radius_clip: float,
    eps2d: float,
    sh_degree: int | None,
    packed: bool,
    render_mode: str,
    rasterize_mode: str,
    backgrounds: Tensor | None = None,
) -> tuple[Tensor, Tensor, dict]:
    """gsplat's function of this name, drawn by the reference."""
    assert (near_plane, radius_clip, eps2d, packed) == (0.01, 0.0, 0.3, False)
    assert far_plane >= 1e18
    assert len(means) > 0  # The real one divides by it.
    for value in (means, quats, scales, opacities, colors):
        assert torch.isfinite(value).all()
    if sh_degree is None:
        sh = (colors[:, None] - 0.5) / SH_C0
    else:
        assert (sh_degree + 1) ** 2 <= colors.shape[1]
        sh = colors[:, : (sh_degree + 1) ** 2]
    splats = Splats(means=means, quats=quats, scales=scales, opacities=opacities, sh=sh)
    cameras = Cameras(viewmats=viewmats, Ks=Ks, width=width, height=height)
    black = torch.zeros(3) if backgrounds is None else backgrounds[0]
    antialiased = {"classic": False, "antialiased": True}[rasterize_mode]
    drawn = reference_render(
        Request(splats=splats, cameras=cameras, background=black, depth=False, antialiased=antialiased)
    )
    assert drawn.rgb is not None
    assert drawn.alpha is not None
    channels = [drawn.rgb]
    if render_mode == "RGB+D":
        # Accumulated camera-z is what a colour of that value gives.
        z = torch.einsum("ni,i->n", means, viewmats[0, 2, :3]) + viewmats[0, 2, 3]
        deep = replace(splats, sh=((z - 0.5) / SH_C0)[:, None, None].expand(-1, 1, 3))
        request = Request(splats=deep, cameras=cameras, background=torch.zeros(3), depth=False, antialiased=antialiased)
        accumulated = reference_render(request).rgb
        assert accumulated is not None
        channels.append(accumulated[..., :1])
    else:
        assert render_mode == "RGB"
    return torch.cat(channels, -1), drawn.alpha[..., None], {}


def module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    vars(made).update(contents)
    return made


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_failure", None)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Rasterization], None]:
    """Puts a gsplat in place that draws with the given function, and lets CPU tensors pass for those of a device."""

    def put(function: Rasterization, extension: object = "compiled", version: str = "1.5.3") -> None:
        monkeypatch.setitem(sys.modules, "gsplat", module("gsplat", rasterization=function))
        monkeypatch.setitem(sys.modules, "gsplat.cuda", module("gsplat.cuda"))
        monkeypatch.setitem(sys.modules, "gsplat.cuda._backend", module("gsplat.cuda._backend", _C=extension))
        monkeypatch.setattr(backend, "_version", lambda: version)
        monkeypatch.setattr(torch.version, "cuda", "12.8")
        monkeypatch.setattr(backend, "_device_count", lambda: 1)
        monkeypatch.setattr(backend, "DEVICES", ("cuda", "cpu"))

    return put


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("scene", SCENES)
def test_images_and_gradients_are_those_of_the_reference(install: Callable, scene: str) -> None:
    install(rasterization)
    splats, cameras, antialiased, sure, weights = case(scene)
    check(draw("gsplat", splats, cameras, antialiased, weights), reference(scene, tuple(weights)), sure)


@pytest.mark.parametrize("outputs", [("rgb",), ("alpha",), ("depth",)])
def test_each_output_alone(install: Callable, outputs: tuple[str, ...]) -> None:
    install(rasterization)
    splats, cameras, antialiased, sure, weights = case("sh1")
    wanted = reference("sh1", outputs)
    check(draw("gsplat", splats, cameras, antialiased, {name: weights[name] for name in outputs}), wanted, sure)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_harmonics_go_to_gsplat_unless_the_view_needs_a_gradient(install: Callable, degree: int) -> None:
    asked: list[dict[str, Any]] = []

    def record(**arguments: Any) -> tuple[Tensor, Tensor, dict]:
        asked.append(arguments)
        return rasterization(**arguments)

    install(record)
    splats, cameras = cloud(200, degree), Cameras.of(camera())
    results = []
    for name in ("reference", "gsplat"):
        leaves = {attribute: getattr(splats, attribute).clone().requires_grad_() for attribute in ATTRIBUTES}
        rgb = rasterize(Splats(**leaves), cameras, background=(0.3, 0.2, 0.1), backend=name).rgb
        assert rgb is not None
        rgb.square().sum().backward()
        results.append((rgb.detach(), *(leaf.grad for leaf in leaves.values())))
    assert asked[0]["sh_degree"] == degree
    assert not asked[0]["viewmats"].requires_grad
    for wanted, found in zip(*results, strict=True):
        assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))
    posed = replace(cameras, viewmats=cameras.viewmats.clone().requires_grad_())
    rasterize(splats, posed, backend="gsplat")
    assert asked[1]["sh_degree"] is None
    assert asked[1]["colors"].shape == (asked[1]["means"].shape[0], 3)


def _xyzw(arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "quats": arguments["quats"].roll(1, -1)}


def _degree_less(arguments: dict[str, Any]) -> dict[str, Any]:
    # With the view's gradient colours are passed, so this fault shows where there is none.
    return {**arguments, "sh_degree": (arguments["sh_degree"] or 1) - 1} if arguments["sh_degree"] else arguments


def _other_dilation(arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "scales": arguments["scales"] * 1.01}


def _normalised(colours: Tensor, alphas: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cat([colours[..., :3], colours[..., 3:] / alphas.clamp_min(1e-10)], -1), alphas


def _with_background(colours: Tensor, alphas: Tensor) -> tuple[Tensor, Tensor]:
    rgb = colours[..., :3] + (1 - alphas) * torch.tensor([0.1, 0.2, 0.3])
    return torch.cat([rgb, colours[..., 3:]], -1), alphas


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_xyzw, None),
        (_degree_less, None),
        (_other_dilation, None),
        (None, _normalised),
        (None, _with_background),
    ],
)
def test_the_comparison_finds_a_gsplat_that_means_something_else(
    install: Callable, before: Callable | None, after: Callable | None
) -> None:
    def other(**arguments: Any) -> tuple[Tensor, Tensor, dict]:
        colours, alphas, info = rasterization(**(before(arguments) if before else arguments))
        return (*(after(colours, alphas) if after else (colours, alphas)), info)

    splats, cameras, *_ = case("sh2")

    def images() -> list[Tensor]:
        drawn = rasterize(splats, cameras, background=(0.1, 0.2, 0.3), backend="gsplat")
        return [image for image in (drawn.rgb, drawn.alpha, drawn.depth) if image is not None]

    install(rasterization)
    wanted = images()
    install(other)
    worst = max(float((a - b).abs().max()) for a, b in zip(images(), wanted, strict=True))
    assert worst > 1e-3


@pytest.mark.parametrize("antialiased", [False, True])
def test_bad_splats_are_not_passed_on_and_get_zero_gradients(install: Callable, antialiased: bool) -> None:
    install(rasterization)
    splats, cameras, _, _, weights = case("sh1")
    clean = draw("gsplat", splats, cameras, antialiased, weights)
    spoilt = draw("gsplat", _spoil(splats), cameras, antialiased, weights)
    for name, image in clean[0].items():
        assert torch.equal(spoilt[0][name], image), name
    for name in ATTRIBUTES:
        assert torch.isfinite(spoilt[1][name]).all(), name
        assert not spoilt[1][name][:16].any(), name


def test_the_greatest_variance_is_that_of_the_contract(install: Callable) -> None:
    """A splat of 1e5 pixels is the last that is passed on, along either axis and however it is turned."""
    passed: list[int] = []

    def record(**arguments: Any) -> tuple[Tensor, Tensor, dict]:
        passed.append(len(arguments["means"]))
        return rasterization(**arguments)

    install(record)
    one, cameras = cloud(1, 0), Cameras.of(camera())
    drawn = []
    for quat in ((1.0, 0.0, 0.0, 0.0), (0.5, 0.5, 0.1, -0.3), (0.7, 0.0, -0.7, 0.0)):
        for scale in (1e3, 2e3, 3e3, 4e3, 6e3, 1e4):
            wide = replace(
                one,
                means=torch.tensor([[0.0, 0.0, 0.2]]),
                quats=torch.tensor([quat]),
                scales=torch.tensor([[scale, 0.05, 0.02]]),
                opacities=torch.tensor([0.9]),
            )
            wanted = rasterize(wide, cameras, backend="reference").alpha
            passed.clear()
            found = rasterize(wide, cameras, backend="gsplat").alpha
            assert torch.allclose(found, wanted, atol=1e-4), (quat, scale)
            assert bool(passed) == bool(wanted.any()), (quat, scale)
            drawn.append(bool(passed))
    assert True in drawn
    assert False in drawn


@pytest.mark.parametrize("count", [0, 5])
@pytest.mark.parametrize("only_the_view", [False, True])
def test_nothing_to_draw(install: Callable, count: int, only_the_view: bool) -> None:
    install(rasterization)
    splats = cloud(count, 1)
    splats = replace(splats, means=splats.means + torch.tensor([0.0, -50.0, 0.0]))
    cameras = Cameras.of(camera(30, 20))
    leaf = (cameras.viewmats if only_the_view else splats.means).requires_grad_()
    drawn = rasterize(splats, cameras, background=(0.1, 0.2, 0.3), backend="gsplat")
    assert torch.equal(drawn.rgb, torch.tensor([0.1, 0.2, 0.3]).expand(1, 20, 30, 3))
    assert not drawn.alpha.any()
    assert not drawn.depth.any()
    (drawn.rgb.sum() + drawn.depth.sum()).backward()
    assert not leaf.grad.any()


def test_float64_is_refused(install: Callable) -> None:
    install(rasterization)
    splats, cameras = cloud(5, 0), Cameras.of(camera(), dtype=torch.float64)
    double = Splats(**{name: getattr(splats, name).double() for name in ATTRIBUTES})
    with pytest.raises(ValueError, match="'gsplat' computes in float32"):
        rasterize(double, cameras, backend="gsplat")


def test_status_tells_what_is_missing(install: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    install(rasterization)
    assert isinstance(backend.status(), Ready)
    for version in ("1.5.3+pt26cu124", "1.5.3b2", "1.6.0", "1.6.4"):
        install(rasterization, version=version)
        assert version in backend.status().detail
    for version in ("1.5.2", "1.4.0", "1.7.0", "2.0"):
        install(rasterization, version=version)
        assert f"gsplat {version} is installed, versions from 1.5.3 to 1.6 are supported" in backend.status().reason
    install(rasterization)
    monkeypatch.setattr(backend, "_device_count", lambda: 0)
    assert "finds no CUDA or ROCm device" in backend.status().reason
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    assert "is a build for the CPU alone" in backend.status().reason
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    assert "pip install 'recon4d[gsplat]'" in backend.status().reason
    with pytest.raises(BackendError, match=r"'gsplat' cannot be used here: the package 'gsplat' is not installed"):
        rasterize(cloud(2, 0), Cameras.of(camera()), backend="gsplat")


def test_status_imports_nothing_of_gsplat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "import_module", lambda name: pytest.fail(f"imported {name}"))
    before = torch.cuda.is_initialized()
    row = backends()["gsplat"]
    assert row.devices == ("cuda",)
    assert isinstance(row.status, Missing | Ready)
    assert torch.cuda.is_initialized() == before


def test_no_compiler_is_told_once_and_remembered(install: Callable) -> None:
    install(rasterization, extension=None)
    splats, cameras = cloud(2, 0), Cameras.of(camera())
    assert isinstance(backend.status(), Ready)
    with pytest.raises(BackendError, match=r"neither a prebuilt extension nor a compiler.*CUDA toolkit 12\.8 \(nvcc\)"):
        rasterize(splats, cameras, backend="gsplat")
    assert "could not be loaded or built" in backend.status().reason
    assert "backend 'torch'" in backends()["gsplat"].status.reason
    install(rasterization)  # Were it tried again, it would be found now.
    with pytest.raises(BackendError, match="could not be loaded or built"):
        rasterize(splats, cameras, backend="gsplat")


def test_a_build_that_fails_is_told_with_its_error(install: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    install(rasterization)

    def build(name: str) -> ModuleType:
        if name == "gsplat.cuda._backend":
            raise RuntimeError("Error building extension 'gsplat_cuda': " + "nvcc said much " * 1000)
        return sys.modules[name]

    monkeypatch.setattr(backend, "import_module", build)
    with pytest.raises(BackendError, match="RuntimeError: Error building extension 'gsplat_cuda'") as caught:
        rasterize(cloud(2, 0), Cameras.of(camera()), backend="gsplat")
    assert len(str(caught.value)) < 1000


def test_a_build_for_rocm_has_its_compiled_part_elsewhere(install: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    install(rasterization)
    splats, cameras = cloud(5, 0), Cameras.of(camera())
    monkeypatch.delitem(sys.modules, "gsplat.cuda._backend")
    with pytest.raises(BackendError, match="none of the modules"):
        rasterize(splats, cameras, backend="gsplat")
    monkeypatch.setattr(backend, "_failure", None)
    monkeypatch.setitem(sys.modules, "gsplat.hip", module("gsplat.hip"))
    monkeypatch.setitem(sys.modules, "gsplat.hip._backend", module("gsplat.hip._backend", _C="compiled"))
    assert rasterize(splats, cameras, backend="gsplat").rgb is not None


@needs_package
@pytest.mark.parametrize("posed", [False, True])
def test_the_real_signature_takes_what_is_passed(monkeypatch: pytest.MonkeyPatch, posed: bool) -> None:
    import gsplat

    bound = []

    def record(**arguments: Any) -> tuple[Tensor, Tensor, dict]:
        bound.append(inspect.signature(gsplat.rasterization).bind(**arguments))
        return rasterization(**arguments)

    monkeypatch.setattr(backend, "_load", lambda: record)
    splats, cameras, _, _, _ = case("two_cameras")
    viewmats = cameras.viewmats.clone().requires_grad_(posed)
    background, request = torch.zeros(3), {"depth": True, "antialiased": True}
    backend.render(
        Request(splats=splats, cameras=replace(cameras, viewmats=viewmats), background=background, **request)
    )
    assert len(bound) == 2


@needs_package
@pytest.mark.parametrize("scene", ["sh0", "sh3", "antialiased", "crop", "around"])
def test_the_real_package_projects_and_colours_as_the_contract(scene: str) -> None:
    """gsplat's own PyTorch form of its kernels, in float64."""
    from gsplat.cuda import _torch_impl as real

    splats, cameras, *_ = case(scene)
    view, K = cameras.viewmats.double(), cameras.Ks.double()
    keep = backend._usable(splats, cameras.viewmats[0], cameras.Ks[0].tolist(), (cameras.width, cameras.height))
    kept = Splats(**{name: getattr(splats, name)[keep].double() for name in ATTRIBUTES})
    root = quat_to_matrix(kept.quats) * kept.scales[:, None, :]
    found = real._fully_fused_projection(
        kept.means,
        root @ root.transpose(1, 2),
        view,
        K,
        cameras.width,
        cameras.height,
        eps2d=0.3,
        near_plane=0.01,
        far_plane=1e30,
        calc_compensations=True,
    )
    from recon4d.raster import torch as ours

    flat = ours._project(kept, view[0], ours._Camera.of(K[0].tolist(), cameras.width, cameras.height), True)
    radii, centres, z, conics, compensations = (part[0] for part in found)
    seen = (radii > 0).all(-1)
    inside = seen & (centres > 0).all(-1) & (centres < torch.tensor([cameras.width, cameras.height])).all(-1)
    # Off the principal axis the clamps differ, but only for splats whose centre is well out of the image.
    seen = inside if scene == "crop" else seen
    assert int(seen.sum()) > 20
    for name, ours_, theirs in (
        ("centres", flat.centres, centres),
        ("conics", flat.conics, conics),
        ("z", flat.z, z),
        ("opacities", flat.opacities, kept.opacities * compensations),
    ):
        assert torch.allclose(theirs[seen], ours_[seen], rtol=1e-6, atol=1e-9), name
    centre = -view[0, :3, :3].T @ view[0, :3, 3]
    directions = torch.nn.functional.normalize(kept.means - centre, dim=-1)
    assert torch.allclose(
        real._spherical_harmonics(kept.sh_degree, directions, kept.sh),
        (sh_basis(directions, kept.sh_degree)[..., None] * kept.sh).sum(1),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.skipif(
    isinstance(backend.status(), Missing), reason=f"no gsplat on a device: {getattr(backend.status(), 'reason', '')}"
)
@pytest.mark.parametrize("scene", sorted(set(SCENES) - DIFFERENT))
def test_on_a_device(scene: str) -> None:
    """The kernels against the reference, but for scenes in which the backend's docstring names a difference.

    The tolerances are wide because nothing has been measured yet: what fast-math does is within them, a wrong argument
    is not.
    """
    splats, cameras, antialiased, sure, weights = case(scene)
    wanted = reference(scene, tuple(weights))
    here = Splats(**{name: getattr(splats, name).cuda() for name in ATTRIBUTES})
    there = replace(cameras, viewmats=cameras.viewmats.cuda(), Ks=cameras.Ks.cuda())
    found = draw("gsplat", here, there, antialiased, {name: weight.cuda() for name, weight in weights.items()})
    for name, image in wanted[0].items():
        error = (found[0][name].cpu() - image).abs()[sure]
        assert float(error.mean()) < 2e-3, name
    for name, gradient in wanted[1].items():
        assert float((found[1][name].cpu() - gradient).norm()) <= 0.05 * float(gradient.norm()), name
