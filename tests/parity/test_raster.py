"""Every rasterizer backend against the float64 reference: images, and gradients in every input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from recon4d.geometry import look_at
from recon4d.raster import Missing, backends, make_plans, rasterize, survey
from recon4d.raster._contract import Request
from recon4d.raster.reference import uncertain_pixels
from recon4d.raster.torch import _project as portable
from recon4d.types import Camera, Cameras, RenderOutput, Splats

ATTRIBUTES = ("means", "quats", "scales", "opacities", "sh")
BACKGROUND = (0.1, 0.2, 0.3)
IMAGE_MEAN, IMAGE_P999 = 1e-5, 1e-4
"""Worst measured over all scenes and backends: 2.3e-6 and 2.3e-5, both in depth (metres); rgb stays ten times below."""
GRADIENT = 1e-4
"""Relative L2 per attribute. Worst measured: 6.3e-5 (cpu) and 8.4e-5 (torch), by way of depth in thin pixels, where the
division by alpha enlarges what float32 rounds; without depth 1e-5."""


PLANNED = "torch, planned"
"""The torch backend as it runs while an accelerator is trained on: with room fixed ahead, several entries a step."""


def rendered(backend: str, splats: Splats, cameras: Cameras, **options: Any) -> RenderOutput:
    if backend != PLANNED:
        return rasterize(splats, cameras, backend=backend, **options)
    counts = survey(splats, cameras, backend="torch", antialiased=options.get("antialiased", False))
    assert counts is not None
    plans = make_plans(list(counts.numpy()), 1.0, counts.device)
    output = rasterize(splats, cameras, backend="torch", plans=plans, **options)
    assert output.overflow is not None
    assert not output.overflow
    return output


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Thousands of tiny torch operations: handing each to several threads costs more than it gains."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _available() -> list:
    rows = []
    for name, row in backends().items():
        if name == "reference":
            continue
        marks = [pytest.mark.skip(reason=row.status.reason)] if isinstance(row.status, Missing) else []
        if row.devices and not {"cpu", "*"} & set(row.devices):
            marks.append(
                pytest.mark.skip(reason=f"takes no CPU tensors, {', '.join(row.devices)} only: see its own tests")
            )
        rows.append(pytest.param(name, marks=marks))
    return [*rows, PLANNED]


def camera(width: int = 64, height: int = 48, center: tuple[float, float, float] = (0.3, -2.0, 1.2)) -> Camera:
    K = np.array([[55.0, 0.0, width / 2], [0.0, 58.0, height / 2], [0.0, 0.0, 1.0]])
    pose = look_at(np.array(center), np.array([0.0, 0.0, 0.2]))
    return Camera(name="c", width=width, height=height, K=K, T_cam_world=pose)


def cloud(count: int, degree: int, *, spread_m: float = 0.6, sigma_m: float = 0.04, seed: int = 0) -> Splats:
    """Random splats about the world's origin."""
    rng = np.random.default_rng(seed)
    tensor = lambda a: torch.tensor(np.asarray(a), dtype=torch.float32)  # noqa: E731
    sh = rng.normal(0.0, 0.15, (count, (degree + 1) ** 2, 3))
    sh[:, 0] = rng.uniform(-1.9, 1.9, (count, 3))  # Some channels fall below zero and are raised to it.
    return Splats(
        means=tensor(rng.uniform(-spread_m, spread_m, (count, 3)) + np.array([0.0, 0.0, 0.2])),
        quats=tensor(rng.normal(size=(count, 4))),
        scales=tensor(sigma_m * np.exp(rng.normal(0.0, 0.5, (count, 3)))),
        opacities=tensor(rng.uniform(0.05, 1.0, count)),
        sh=tensor(sh),
    )


def with_scales(splats: Splats, change: Callable[[torch.Tensor], None]) -> Splats:
    scales = splats.scales.clone()
    change(scales)
    return replace(splats, scales=scales)


def _odd_scales(scales: torch.Tensor) -> None:
    scales[::4] *= 1e-6
    scales[1::16] = 8.0  # Some thousand pixels wide.
    scales[2::4, 0] = 0.0
    scales[3::8, 1] *= 30.0


def _off_center() -> Camera:
    base = camera()
    K = base.K.copy()
    K[0, 2], K[1, 2] = 14.0, 41.0
    return replace(base, K=K)


SCENES: dict[str, Callable[[], tuple[Splats, list[Camera], bool]]] = {
    "sh0": lambda: (cloud(500, 0), [camera()], False),
    "sh1": lambda: (cloud(400, 1), [camera()], False),
    "sh2": lambda: (cloud(400, 2), [camera()], False),
    "sh3": lambda: (cloud(400, 3), [camera()], False),
    "antialiased": lambda: (cloud(400, 1, sigma_m=0.008), [camera()], True),
    "off_center": lambda: (cloud(400, 1), [_off_center()], False),
    "crop": lambda: (cloud(400, 1), [camera().crop(25, 9, 60, 45)], False),
    "two_cameras": lambda: (cloud(400, 1), [camera(), camera(center=(-1.5, 0.9, 0.8))], False),
    "around": lambda: (cloud(800, 1, spread_m=3.0, sigma_m=0.1, seed=3), [camera()], False),
    "odd_scales": lambda: (with_scales(cloud(400, 1), _odd_scales), [camera()], False),
    "odd_scales_antialiased": lambda: (with_scales(cloud(400, 1), _odd_scales), [camera()], True),
    "opaque": lambda: (replace(cloud(400, 0), opacities=torch.ones(400)), [camera()], False),
    "one_pixel": lambda: (cloud(40, 1, sigma_m=0.1, seed=2), [camera(1, 1)], False),
    "ragged": lambda: (cloud(400, 1), [camera(33, 17)], False),
}


def draw(
    backend: str, splats: Splats, cameras: Cameras, antialiased: bool, weights: dict[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Images, and gradients of their weighted sum."""
    leaves = {name: getattr(splats, name).clone().requires_grad_() for name in ATTRIBUTES}
    viewmats = cameras.viewmats.clone().requires_grad_()
    output = rendered(
        backend,
        Splats(**leaves),
        replace(cameras, viewmats=viewmats),
        background=BACKGROUND,
        antialiased=antialiased,
        outputs=tuple(weights),
    )
    images = {name: getattr(output, name) for name in weights}
    torch.stack([(images[name] * weight).sum() for name, weight in weights.items()]).sum().backward()
    return (
        {name: image.detach() for name, image in images.items()},
        # No gradient and a zero gradient mean the same: alpha does not depend on colours.
        {
            name: torch.zeros_like(x) if x.grad is None else x.grad
            for name, x in (leaves | {"viewmats": viewmats}).items()
        },
    )


@cache
def case(scene: str) -> tuple[Splats, Cameras, bool, torch.Tensor, dict[str, torch.Tensor]]:
    """A scene, the pixels that may be compared, and weights for a loss that sees only those."""
    splats, cameras, antialiased = SCENES[scene]()
    batch = Cameras.of(cameras)
    request = Request(
        splats=splats, cameras=batch, background=torch.tensor(BACKGROUND), depth=True, antialiased=antialiased
    )
    sure = ~uncertain_pixels(request)
    generator = torch.Generator().manual_seed(7)
    weights = {
        "rgb": torch.randn(*sure.shape, 3, generator=generator) * sure[..., None],
        "alpha": torch.randn(sure.shape, generator=generator) * sure,
        "depth": torch.randn(sure.shape, generator=generator) * sure,
    }
    return splats, batch, antialiased, sure, weights


@cache
def reference(scene: str, outputs: tuple[str, ...]) -> tuple:
    splats, cameras, antialiased, _, weights = case(scene)
    return draw("reference", splats, cameras, antialiased, {name: weights[name] for name in outputs})


def check(found: tuple, wanted: tuple, sure: torch.Tensor) -> None:
    for name, image in wanted[0].items():
        error = (found[0][name] - image).abs()[sure]
        assert float(error.mean()) < IMAGE_MEAN, name
        assert float(error.flatten().quantile(0.999)) < IMAGE_P999, name
    for name, gradient in wanted[1].items():
        assert torch.isfinite(found[1][name]).all(), name
        assert float((found[1][name] - gradient).norm()) <= GRADIENT * float(gradient.norm()), name


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("backend", _available())
def test_backend_matches_reference(backend: str, scene: str) -> None:
    splats, cameras, antialiased, sure, weights = case(scene)
    assert float(sure.float().mean()) > 0.9  # Else the comparison would say little.
    wanted = reference(scene, tuple(weights))
    assert float(wanted[1]["means"].norm()) > 0
    check(draw(backend, splats, cameras, antialiased, weights), wanted, sure)


@pytest.mark.parametrize("outputs", [("rgb",), ("alpha",), ("depth",), ("rgb", "depth")])
@pytest.mark.parametrize("backend", _available())
def test_each_output_alone(backend: str, outputs: tuple[str, ...]) -> None:
    splats, cameras, antialiased, sure, weights = case("sh1")
    weights = {name: weights[name] for name in outputs}
    wanted = reference("sh1", outputs)
    check(draw(backend, splats, cameras, antialiased, weights), wanted, sure)


def _spoil(splats: Splats) -> Splats:
    """Appends splats that must not be drawn, in every way that one can be bad."""
    bad = cloud(16, splats.sh_degree, seed=9)
    nan, inf = float("nan"), float("inf")
    bad.means[0, 1], bad.means[1, 0], bad.means[2, 2] = nan, inf, -1e30
    bad.quats[3], bad.quats[4, 2], bad.quats[5] = 0.0, nan, inf
    bad.scales[6, 0], bad.scales[7], bad.scales[8] = nan, inf, 1e30
    bad.opacities[9], bad.opacities[10], bad.opacities[11] = nan, 0.0, -1.0
    bad.sh[12, 0, 1], bad.sh[13, 0] = nan, inf
    bad.means[14] = torch.tensor([0.3, -2.0, 1.2])  # At the camera's centre.
    bad.scales[15] = 1e6
    return Splats(**{name: torch.cat([getattr(bad, name), getattr(splats, name)]) for name in ATTRIBUTES})


@pytest.mark.parametrize("backend", ["reference", *_available()])
@pytest.mark.parametrize("antialiased", [False, True])
def test_bad_splats_leave_the_others_alone(backend: str, antialiased: bool) -> None:
    splats, cameras, _, _, weights = case("sh1")
    clean = draw(backend, splats, cameras, antialiased, weights)
    spoilt = draw(backend, _spoil(splats), cameras, antialiased, weights)
    for name, image in clean[0].items():
        assert torch.equal(spoilt[0][name], image), name
    for name, gradient in clean[1].items():
        found = spoilt[1][name]
        assert torch.isfinite(found).all(), name
        if name != "viewmats":
            assert not found[:16].any(), name
            found = found[16:]
        # Sums run in another order when there are more splats.
        assert float((found - gradient).norm()) <= 1e-5 * float(gradient.norm()), name


@pytest.mark.parametrize("backend", ["reference", *_available()])
@pytest.mark.parametrize("count", [0, 5])
def test_nothing_to_draw(backend: str, count: int) -> None:
    """No splats, or only splats behind the camera: background, and zero gradients."""
    splats = cloud(count, 1)
    splats = replace(splats, means=splats.means + torch.tensor([0.0, -50.0, 0.0]))
    weights = {"rgb": torch.ones(1, 20, 30, 3), "alpha": torch.ones(1, 20, 30), "depth": torch.ones(1, 20, 30)}
    images, gradients = draw(backend, splats, Cameras.of(camera(30, 20)), False, weights)
    assert torch.allclose(images["rgb"], torch.tensor(BACKGROUND).expand(1, 20, 30, 3))
    assert not images["alpha"].any()
    assert not images["depth"].any()
    for name, gradient in gradients.items():
        assert not gradient.any(), name


@pytest.mark.parametrize("backend", ["reference", *_available()])
def test_strided_inputs_give_the_same(backend: str) -> None:
    splats, cameras, _, _, weights = case("sh1")
    strided = Splats(**{name: _strided(getattr(splats, name)) for name in ATTRIBUTES})
    assert not strided.means.is_contiguous()
    turned = replace(cameras, viewmats=cameras.viewmats.transpose(1, 2).contiguous().transpose(1, 2))
    weights = {name: _strided(weight) for name, weight in weights.items()}
    wanted, found = draw(backend, splats, cameras, False, weights), draw(backend, strided, turned, False, weights)
    for part in (0, 1):
        for name, value in wanted[part].items():
            assert torch.equal(found[part][name], value), name


def _strided(value: torch.Tensor) -> torch.Tensor:
    return torch.stack([value, value], -1)[..., 0]


@pytest.mark.parametrize("backend", ["reference", *_available()])
def test_equal_depths_are_drawn_by_index(backend: str) -> None:
    """Two coincident opaque splats: the first hides the second."""
    one = cloud(1, 0)
    both = Splats(**{name: torch.cat([getattr(one, name)] * 2) for name in ATTRIBUTES})
    both.opacities[:], both.scales[:], both.means[:] = 0.99, 0.2, torch.tensor([0.0, 0.0, 0.2])
    both.sh[0], both.sh[1] = torch.tensor([1.0, -1.7, -1.7]), torch.tensor([-1.7, 1.0, -1.7])
    rgb = rendered(backend, both, Cameras.of(camera())).rgb
    middle = rgb[0, 24, 32]
    assert middle[0] > 20 * middle[1]


@pytest.mark.parametrize("backend", ["reference", *_available()])
def test_background_is_learned(backend: str) -> None:
    splats, cameras, *_ = case("sh0")
    background = torch.tensor(BACKGROUND, requires_grad=True)
    output = rendered(backend, splats, cameras, background=background)
    fixed = rendered(backend, splats, cameras, background=BACKGROUND)
    assert torch.allclose(output.rgb, fixed.rgb, atol=1e-6)
    output.rgb.sum().backward()
    assert torch.allclose(background.grad, (1 - output.alpha).sum().expand(3), rtol=1e-5)


@pytest.mark.parametrize("scene", ["sh1", "opaque", "ragged"])
@pytest.mark.parametrize("step", [3, 8])
def test_several_entries_a_step(monkeypatch: pytest.MonkeyPatch, step: int, scene: str) -> None:
    """The torch backend as it runs on accelerators, where it takes several list entries at once."""
    monkeypatch.setattr("recon4d.raster.torch._lists.CPU_STEP", step)
    splats, cameras, antialiased, sure, weights = case(scene)
    check(draw("torch", splats, cameras, antialiased, weights), reference(scene, tuple(weights)), sure)


@pytest.mark.parametrize("scene", ["sh1", "around", "ragged", "two_cameras"])
def test_a_survey_counts_what_is_drawn(scene: str) -> None:
    """Every tile's list is as long as the number of splats whose reach touches it, counted one by one."""
    splats, cameras, *_ = case(scene)
    counts = survey(splats, cameras, backend="torch")
    assert counts is not None
    flat = portable.Camera.of(cameras, 0)
    usable = portable.usable(splats, cameras.viewmats[0])
    safe = portable.harmless(splats, usable, cameras.viewmats[0])
    drawn, rects = portable.tile_rects(portable.project(safe, cameras.viewmats[0], flat, False), flat)
    columns, lines = flat.tiles
    grid = np.zeros((lines, columns), np.int64)
    for x0, y0, x1, y1 in rects[drawn & usable].tolist():
        grid[y0 : y1 + 1, x0 : x1 + 1] += 1
    assert counts[0, 0] == grid.sum()
    assert counts[0, 1:].tolist() == sorted(grid.ravel().tolist(), reverse=True)


def test_a_plan_without_room_says_so_and_draws_what_fits() -> None:
    splats, cameras, *_ = case("sh1")
    counts = survey(splats, cameras, backend="torch")
    assert counts is not None
    full = rasterize(splats, cameras, backend="torch")
    for less in (0.3, 0.0):
        plans = make_plans(list((counts.numpy() * less).astype(np.int64)), 1.0, counts.device)
        output = rasterize(splats, cameras, backend="torch", plans=plans)
        assert output.overflow is not None
        assert output.overflow
        assert torch.isfinite(output.rgb).all()
        assert float(output.alpha.mean()) < float(full.alpha.mean())


def test_backends_without_a_survey_draw_without_plans() -> None:
    splats, cameras, *_ = case("sh1")
    assert survey(splats, cameras, backend="cpu") is None
    assert rasterize(splats, cameras, backend="cpu").overflow is None
