"""Worlds of moving bodies against a float64 composition, and against themselves drawn otherwise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from recon4d.errors import BackendError
from recon4d.geometry import SH_C0, look_at, quat_to_matrix, sh_basis
from recon4d.raster import (
    Missing,
    WorldCache,
    WorldCameras,
    WorldImages,
    WorldSplats,
    backends,
    rasterize,
    render_worlds,
)
from recon4d.raster._contract import Request
from recon4d.raster.reference import uncertain_pixels
from recon4d.types import Cameras, Splats, StaticPool

BACKGROUND = (0.1, 0.2, 0.3)
OUTPUTS = ("rgb", "alpha", "depth", "segmentation")
WORLDS, BODIES = 3, 4
IMAGE_MEAN, IMAGE_P999 = 1e-5, 1e-4


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _available() -> list:
    rows = []
    for name, row in backends().items():
        fits = not isinstance(row.status, Missing) and bool({"cpu", "*"} & set(row.devices))
        rows.append(pytest.param(name, marks=[] if fits else [pytest.mark.skip(reason=f"{name} cannot draw here")]))
    return rows


def pool(count: int, degree: int, *, seed: int, spread_m: float = 0.6, sigma_m: float = 0.03) -> StaticPool:
    rng = np.random.default_rng(seed)
    sh = rng.normal(0.0, 0.15, (count, (degree + 1) ** 2, 3))
    sh[:, 0] = rng.uniform(-1.9, 1.9, (count, 3))
    values = {
        "means": rng.uniform(-spread_m, spread_m, (count, 3)),
        "quats": rng.normal(size=(count, 4)),
        "scales": sigma_m * np.exp(rng.normal(0.0, 0.5, (count, 3))),
        "opacities": rng.uniform(0.05, 1.0, count),
        "sh": sh,
    }
    return StaticPool(**{name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()})


def poses(worlds: int = WORLDS, bodies: int = BODIES, seed: int = 1) -> Tensor:
    rng = np.random.default_rng(seed)
    T = torch.eye(4, dtype=torch.float64).repeat(worlds, bodies, 1, 1)
    quats = torch.tensor(rng.normal(size=(worlds, bodies - 1, 4)))
    T[:, 1:, :3, :3] = quat_to_matrix(quats)
    T[:, 1:, :3, 3] = torch.tensor(rng.uniform(-0.5, 0.5, (worlds, bodies - 1, 3)))
    return T


def world(degree: int = 1, ground: int = 300) -> WorldSplats:
    groups = [(1, pool(60, degree, seed=2, spread_m=0.1)), (3, pool(70, 0, seed=3, spread_m=0.12))]
    return WorldSplats.of([*groups, (0, pool(ground, degree, seed=4))], BODIES)


def cameras(width: int = 72, height: int = 50, *, worlds: int = 1) -> WorldCameras:
    """Two cameras, the second off centre; in several worlds they stand in other places."""
    views, Ks = [], []
    for w in range(worlds):
        centers = (np.array([0.3 + 0.1 * w, -2.0, 1.2]), np.array([-1.5, 0.9 - 0.2 * w, 0.8]))
        views.append([look_at(center, np.array([0.0, 0.0, 0.1])) for center in centers])
        Ks.append([[[55.0, 0, 36.0], [0, 58.0, 25.0], [0, 0, 1]], [[50.0, 0, 14.0], [0, 52.0, 41.0], [0, 0, 1]]])
    return WorldCameras(
        viewmats=torch.tensor(np.array(views)), Ks=torch.tensor(Ks, dtype=torch.float64), width=width, height=height
    )


def composition(splats: WorldSplats, T: Tensor, view: Tensor) -> Splats:
    """One world's splats in float64: moved, and in the colours that they have in their own frame's direction."""
    parts = []
    for body in range(splats.bodies):
        own = {n: getattr(splats.splats, n)[splats.starts[body] : splats.starts[body + 1]].double() for n in ATTRIBUTES}
        R, t = T[body, :3, :3], T[body, :3, 3]
        center = R.T @ (-view[:3, :3].T @ view[:3, 3] - t)
        directions = torch.nn.functional.normalize(own["means"] - center, dim=1)
        basis = sh_basis(directions, splats.splats.sh_degree)
        seen = ((basis[..., None] * own["sh"]).sum(1) + 0.5).clamp_min(0)
        values, vectors = own["quats"], torch.zeros(len(own["quats"]), 4, dtype=torch.float64)
        turn = rotation_quaternion(R)
        w, v = turn[0], turn[1:]
        vectors[:, 0] = w * values[:, 0] - values[:, 1:] @ v
        vectors[:, 1:] = (
            w * values[:, 1:] + values[:, :1] * v + torch.linalg.cross(v.expand(len(values), 3), values[:, 1:])
        )
        moved = own["means"] @ R.T + t
        parts.append((moved, vectors, own["scales"], own["opacities"], ((seen - 0.5) / SH_C0)[:, None]))
    joined = (torch.cat(column) for column in zip(*parts, strict=True))
    return Splats(**dict(zip(ATTRIBUTES, joined, strict=True)))


ATTRIBUTES = ("means", "quats", "scales", "opacities", "sh")


def rotation_quaternion(R: Tensor) -> Tensor:
    """wxyz, from the axis that a rotation keeps, found with its skew part."""
    w = 0.5 * float((1 + torch.trace(R)).clamp_min(0).sqrt())
    assert w > 1e-3  # The tests' rotations are none of half a turn.
    skew = torch.stack([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    return torch.cat([torch.tensor([w], dtype=R.dtype), skew / (4 * w)])


def wanted(splats: WorldSplats, T: Tensor, view: Tensor, K: Tensor, size: tuple[int, int], **options: Any) -> dict:
    """What the reference draws of the composition; and the pixels where rounding decides nothing."""
    moved = composition(splats, T, view)
    seen = Cameras(viewmats=view[None], Ks=K[None], width=size[0], height=size[1])
    drawn = rasterize(moved, seen, background=BACKGROUND, backend="reference", **options)
    shares = []
    for body in range(splats.bodies):
        tint = torch.zeros_like(moved.sh)
        tint[splats.starts[body] : splats.starts[body + 1]] = 1.0
        painted = replace(moved, sh=(tint - 0.5) / SH_C0)
        shares.append(rasterize(painted, seen, backend="reference", outputs=("rgb",), **options).rgb[0, ..., 0])
    shares = torch.stack(shares, -1)
    alpha = drawn.alpha[0]
    best = torch.cat([shares, torch.full_like(shares[..., :1], -1.0)], -1).topk(2, -1)
    request = Request(
        splats=moved, cameras=seen, background=torch.zeros(3).double(), depth=True, antialiased=bool(options)
    )
    sure = ~uncertain_pixels(request)[0]
    clear = (alpha < 0.5) | (best.values[..., 0] - best.values[..., 1] > 1e-4)
    settled = sure & ((alpha - 0.5).abs() > 1e-4) & clear
    labels = torch.where(alpha >= 0.5, best.indices[..., 0], -1)
    return {
        "rgb": drawn.rgb[0],
        "alpha": alpha,
        "depth": drawn.depth[0],
        "labels": labels,
        "sure": sure,
        "settled": settled,
    }


def check(images: WorldImages, splats: WorldSplats, T: Tensor, seen: WorldCameras, **options: Any) -> None:
    for w in range(len(T)):
        for c in range(seen.Ks.shape[1]):
            view, K = seen.viewmats[w % len(seen.viewmats), c], seen.Ks[w % len(seen.Ks), c]
            want = wanted(splats, T[w], view, K, (seen.width, seen.height), **options)
            assert float(want["sure"].float().mean()) > 0.9
            for name in ("rgb", "alpha", "depth"):
                error = (getattr(images, name)[w, c].double() - want[name]).abs()[want["sure"]]
                assert float(error.mean()) < IMAGE_MEAN, (name, w, c)
                assert float(error.flatten().quantile(0.999)) < IMAGE_P999, (name, w, c)
            assert float(want["settled"].float().mean()) > 0.8
            same = images.segmentation[w, c] == want["labels"]
            assert bool(same[want["settled"]].all()), (w, c)


def equal(a: WorldImages, b: WorldImages) -> None:
    assert a.outputs == b.outputs
    for name in a.outputs:
        assert torch.equal(getattr(a, name), getattr(b, name)), name


@pytest.mark.parametrize("backend", _available())
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_images_are_those_of_the_composition(backend: str, degree: int) -> None:
    splats, T, seen = world(degree), poses(), cameras()
    images = render_worlds(splats, T, seen, background=BACKGROUND, backend=backend)
    assert set(images.segmentation.unique().tolist()) == {-1, 0, 1, 3}
    check(images, splats, T, seen)


@pytest.mark.parametrize("backend", _available())
def test_cameras_that_move_and_antialiasing(backend: str) -> None:
    splats, T, seen = world(), poses(), cameras(worlds=WORLDS)
    images = render_worlds(splats, T, seen, background=BACKGROUND, backend=backend, antialiased=True)
    check(images, splats, T, seen, antialiased=True)


def test_a_cache_changes_nothing_while_bodies_move() -> None:
    """Bodies before and behind the background, out of view, and back; a camera that moves; other splats."""
    splats, T, cache = world(), poses(), WorldCache()
    for step in range(5):
        T = T.clone()
        T[:, 1:, 0, 3] += 0.3 if step < 4 else -1.2
        if step == 2:
            T[:, 3, 1, 3] = 5.0  # Behind everything.
        if step == 3:
            T[:, 1:, 2, 3] = -50.0  # Nothing is seen of any body.
        equal(
            render_worlds(splats, T, cameras(), background=BACKGROUND, cache=cache),
            render_worlds(splats, T, cameras(), background=BACKGROUND),
        )
    assert len(cache) == 2
    seen = replace(cameras(), viewmats=cameras(worlds=2).viewmats[1:])
    equal(render_worlds(splats, T, seen, cache=cache), render_worlds(splats, T, seen))
    assert len(cache) == 4
    other = world(2)
    equal(render_worlds(other, T, seen, cache=cache), render_worlds(other, T, seen))
    assert len(cache) == 2


def test_a_cache_keeps_a_bounded_number_of_views() -> None:
    cache, splats = WorldCache(cameras=1), world()
    for _ in range(2):
        equal(render_worlds(splats, poses(), cameras(), cache=cache), render_worlds(splats, poses(), cameras()))
        assert len(cache) == 1
    with pytest.raises(ValueError, match="at least one"):
        WorldCache(cameras=0)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("worlds", [1, WORLDS])
def test_a_batch_is_its_single_worlds_bit_for_bit(cached: bool, worlds: int) -> None:
    splats, T, seen = world(), poses(), cameras(worlds=worlds)
    batch = render_worlds(splats, T, seen, cache=WorldCache() if cached else None)
    for w in range(WORLDS):
        here = slice(w, w + 1) if worlds > 1 else slice(None)
        own = replace(seen, viewmats=seen.viewmats[here], Ks=seen.Ks[here])
        single = render_worlds(splats, T[w : w + 1], own, cache=WorldCache() if cached else None)
        equal(WorldImages(**{name: getattr(batch, name)[w : w + 1] for name in OUTPUTS}), single)


def test_memory_only_changes_how_many_worlds_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    splats, T, seen = world(), poses(7), cameras(128, 128)
    whole = render_worlds(splats, T, seen)
    monkeypatch.setattr("recon4d.raster.cpu._worlds._ENTRY", 60)
    equal(render_worlds(splats, T, seen, memory_mib=1), whole)
    monkeypatch.setattr("recon4d.raster.cpu._worlds._ENTRY", 1000)
    with pytest.raises(BackendError, match="memory_mib allows"):
        render_worlds(splats, T, seen, memory_mib=1)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("backend", ["cpu", "torch"])
def test_turning_scene_and_camera_together_changes_nothing(degree: int, backend: str) -> None:
    """The background too is given as a body here, because the world's does not turn."""
    splats = WorldSplats.of([(1, pool(60, degree, seed=2, spread_m=0.1)), (2, pool(300, degree, seed=4))], 3)
    T, seen = poses(1, 3), cameras()
    turn = poses(1, 2, seed=9)[0, 1]
    turned = T.clone()
    turned[:, 1:] = turn @ T[:, 1:]
    along = replace(seen, viewmats=seen.viewmats @ torch.linalg.inv(turn))
    a, b = (render_worlds(splats, *pair, backend=backend) for pair in ((T, seen), (turned, along)))
    sure = wanted(splats, T[0], seen.viewmats[0, 0], seen.Ks[0, 0], (72, 50))["sure"]
    for name in ("rgb", "alpha", "depth"):
        assert float((getattr(a, name)[0, 0] - getattr(b, name)[0, 0]).abs()[sure].max()) < 1e-4, name


def flat(count: int, z: float, size: float, opacity: float = 1.0) -> StaticPool:
    """A square of count x count white discs across the view axis."""
    grid = (torch.arange(count) - (count - 1) / 2) * size
    means = torch.stack([*torch.meshgrid(grid, grid, indexing="ij"), torch.full((count, count), z)], -1).reshape(-1, 3)
    n = len(means)
    return StaticPool(
        means=means,
        quats=torch.tensor([1.0, 0, 0, 0]).repeat(n, 1),
        scales=torch.tensor([size, size, 1e-4]).repeat(n, 1),
        opacities=torch.full((n,), opacity),
        sh=torch.full((n, 1, 3), 0.5 / SH_C0),
    )


def straight(width: int = 33, height: int = 33, cx: float = 16.5, cy: float = 16.5, f: float = 40.0) -> WorldCameras:
    K = torch.tensor([[[[f, 0, cx], [0, f, cy], [0, 0, 1]]]])
    return WorldCameras(viewmats=torch.eye(4)[None, None], Ks=K, width=width, height=height)


@pytest.mark.parametrize("backend", _available())
def test_one_splat_has_the_numbers_of_the_contract(backend: str) -> None:
    """Opacity a half at 4 m: depth is not pulled to the camera by what is transparent."""
    splats = WorldSplats.of([(1, flat(1, 0.0, 0.5, 0.5))], 2)
    T = torch.eye(4).repeat(1, 2, 1, 1)
    T[0, 1, 2, 3] = 4.0
    images = render_worlds(splats, T, straight(), backend=backend)
    assert float(images.alpha[0, 0, 16, 16]) == pytest.approx(0.5, abs=1e-6)
    assert float(images.depth[0, 0, 16, 16]) == pytest.approx(4.0, abs=1e-6)
    assert images.rgb[0, 0, 16, 16].tolist() == pytest.approx([0.5] * 3, abs=1e-6)
    beside = float(images.alpha[0, 0, 16, 20])
    assert 0.3 < beside < 0.49
    assert float(images.depth[0, 0, 16, 20]) == pytest.approx(4.0, abs=1e-6)
    white = render_worlds(splats, T, straight(), background=(1, 1, 1), dtype=torch.uint8, backend=backend)
    assert bool((white.rgb == 255).all())


def test_a_plane_is_where_it_is_beside_something_far() -> None:
    far = flat(40, 50.0, 2.0)
    splats = WorldSplats.of([(0, far), (1, flat(60, 0.0, 0.01))], 2)
    T = torch.eye(4).repeat(1, 2, 1, 1)
    T[0, 1, 2, 3] = 0.5
    images = render_worlds(splats, T, straight())
    assert float((images.depth[0, 0] - 0.5).abs().max()) < 1e-3
    assert bool((images.segmentation == 1).all())


def test_the_principal_point_counts() -> None:
    splats = WorldSplats.of([(1, flat(1, 0.0, 0.1))], 2)
    T = torch.eye(4).repeat(1, 2, 1, 1)
    T[0, 1, :3, 3] = torch.tensor([0.1, -0.2, 2.0])
    alpha = render_worlds(splats, T, straight(cx=9.25, cy=21.5), outputs=("alpha",)).alpha[0, 0]
    v, u = torch.meshgrid(torch.arange(33) + 0.5, torch.arange(33) + 0.5, indexing="ij")
    assert float((alpha * u).sum() / alpha.sum()) == pytest.approx(9.25 + 40 * 0.05, abs=0.01)
    assert float((alpha * v).sum() / alpha.sum()) == pytest.approx(21.5 - 40 * 0.1, abs=0.01)


def test_a_crop_shows_what_the_whole_shows() -> None:
    splats, T, seen = world(), poses(), cameras()
    K = seen.Ks.clone()
    K[..., :2, 2] -= torch.tensor([20.0, 9.0])
    crop = render_worlds(splats, T, replace(seen, Ks=K, width=30, height=32), background=BACKGROUND)
    whole = render_worlds(splats, T, seen, background=BACKGROUND)
    for name in ("rgb", "alpha", "depth"):
        part = getattr(whole, name)[:, :, 9:41, 20:50]
        assert float((getattr(crop, name) - part).abs().flatten().quantile(0.999)) < 1e-4, name


def test_masked_worlds_are_left_alone_and_buffers_are_used_again() -> None:
    splats, T, seen = world(), poses(), cameras()
    whole = render_worlds(splats, T, seen)
    mask = torch.tensor([True, False, True])
    some = render_worlds(splats, T, seen, mask=mask)
    for name in OUTPUTS:
        assert torch.equal(getattr(some, name)[mask], getattr(whole, name)[mask])
        assert not getattr(some, name)[1].any()
    out = WorldImages(**{name: torch.full_like(getattr(whole, name), 7) for name in OUTPUTS})
    given = render_worlds(splats, T, seen, mask=mask.numpy(), out=out)
    for name in OUTPUTS:
        assert getattr(given, name) is getattr(out, name)
        assert bool((getattr(given, name)[1] == 7).all())
        assert torch.equal(getattr(given, name)[mask], getattr(whole, name)[mask])
    again = render_worlds(splats, T, seen)
    assert again.rgb.data_ptr() != whole.rgb.data_ptr()
    nobody = render_worlds(splats, T, seen, mask=[False] * 3)
    assert not nobody.rgb.any()


def test_bytes_are_the_nearest_and_exposures_come_before_them() -> None:
    splats, T, seen = world(), poses(), cameras()
    plain = render_worlds(splats, T, seen, background=BACKGROUND).rgb
    exposures = torch.tensor([[0.5, 1.0], [1.5, 1.0], [3.0, 0.7]])
    for cache in (None, WorldCache()):
        exposed = replace(seen, exposures=exposures)
        floats = render_worlds(splats, T, exposed, outputs=("rgb",), background=BACKGROUND, cache=cache).rgb
        assert torch.allclose(floats, plain * exposures[..., None, None, None], atol=1e-6)
        steps = render_worlds(
            splats, T, exposed, outputs=("rgb",), background=BACKGROUND, cache=cache, dtype=torch.uint8
        ).rgb
        assert torch.equal(steps, (floats.clamp(0, 1) * 255 + 0.5).to(torch.uint8))


@pytest.mark.parametrize("cached", [False, True])
def test_no_background_and_no_bodies(cached: bool) -> None:
    cache = WorldCache() if cached else None
    bodies = WorldSplats.of([(1, pool(60, 1, seed=2, spread_m=0.1)), (3, pool(70, 0, seed=3, spread_m=0.1))], BODIES)
    T, seen = poses(), cameras()
    check(render_worlds(bodies, T, seen, background=BACKGROUND, cache=cache), bodies, T, seen)
    alone = WorldSplats.of([(0, pool(300, 1, seed=4))], 1)
    check(render_worlds(alone, T[:, :1], seen, background=BACKGROUND, cache=cache), alone, T[:, :1], seen)
    nothing = render_worlds(WorldSplats.of([], 2), T[:, :2], seen, background=BACKGROUND, cache=cache)
    assert torch.allclose(nothing.rgb, torch.tensor(BACKGROUND).expand_as(nothing.rgb))
    assert bool((nothing.segmentation == -1).all())
    assert not nothing.alpha.any()


def test_splats_that_cannot_be_drawn_leave_the_others_alone() -> None:
    bad = pool(6, 1, seed=5, spread_m=0.1)
    bad.means[0, 1], bad.quats[1], bad.scales[2, 0] = float("nan"), 0.0, float("inf")
    bad.opacities[3], bad.opacities[4], bad.sh[5, 0, 1] = float("nan"), 0.0, float("nan")
    T, seen = poses(), cameras()
    whole = world()
    groups = [
        (body, Splats(**{n: getattr(whole.splats, n)[whole.starts[body] : whole.starts[body + 1]] for n in ATTRIBUTES}))
        for body in range(BODIES)
    ]
    equal(render_worlds(WorldSplats.of([*groups, (1, bad)], BODIES), T, seen), render_worlds(whole, T, seen))


def test_poses_that_are_none_are_refused_by_name() -> None:
    splats, T, seen = world(), poses(), cameras()
    for value, word in ((float("nan"), "not finite"), (float("inf"), "not finite"), (9.0, "no rigid transform")):
        bad = T.clone()
        bad[2, 1, 0, 0] = value
        with pytest.raises(ValueError, match=rf"T_world_body of world 2, body 1 is {word}"):
            render_worlds(splats, bad, seen)
    bad = T.clone()
    bad[1, 0, 0, 3] = 1.0
    with pytest.raises(ValueError, match=r"body 0 is the background.*world 1"):
        render_worlds(splats, bad, seen)
    views = seen.viewmats.clone()
    views[0, 1, 2, 3] = float("nan")
    with pytest.raises(ValueError, match="viewmats of world 0, camera 1 is not finite"):
        render_worlds(splats, T, replace(seen, viewmats=views))


def test_wrong_arguments_are_refused_with_what_is_allowed() -> None:
    splats, T, seen = world(), poses(), cameras()
    calls: list[tuple[str, dict[str, Any]]] = [
        (r"T_world_body must be \[W, 4, 4, 4\]", {"T_world_body": T[:, :2]}),
        (r"viewmats must be \[3 or 1, C", {"cameras": replace(seen, viewmats=seen.viewmats.repeat(2, 1, 1, 1))}),
        ("image size", {"cameras": replace(seen, width=0)}),
        ("exposures must be", {"cameras": replace(seen, exposures=torch.ones(2, 2))}),
        (
            "exposures must be positive; in world 0, camera 1",
            {"cameras": replace(seen, exposures=torch.tensor([[1.0, 0]]))},
        ),
        ("mask must be", {"mask": torch.ones(2, dtype=torch.bool)}),
        ("outputs must be", {"outputs": ("normals",)}),
        ("memory_mib", {"memory_mib": 0}),
        ("dtype of rgb", {"dtype": torch.float64}),
        ("background", {"background": (0.0, 1.0)}),
        ("out has no alpha", {"out": WorldImages(rgb=torch.zeros(3, 2, 50, 72, 3))}),
        ("out.rgb must be", {"out": WorldImages(rgb=torch.zeros(3, 2, 50, 72)), "outputs": ("rgb",)}),
    ]
    for message, change in calls:
        arguments = {"splats": splats, "T_world_body": T, "cameras": seen} | change
        with pytest.raises(ValueError, match=message):
            render_worlds(**arguments)
    K = seen.Ks.clone()
    K[0, 1, 0, 1] = 2.0
    with pytest.raises(ValueError, match="camera 1 must be finite, without skew"):
        render_worlds(splats, T, replace(seen, Ks=K))
    with pytest.raises(BackendError, match="no rasterizer backend"):
        render_worlds(splats, T, seen, backend="none")
    with pytest.raises(ValueError, match="body 4; bodies are 0"):
        WorldSplats.of([(4, pool(3, 0, seed=1))], 4)


THREADS = """
import sys
sys.path.insert(0, sys.argv[1])
import hashlib, torch
from tests.parity.test_worlds import BACKGROUND, cameras, poses, world
from recon4d.raster import WorldCache, render_worlds
import numba
numba.set_num_threads(int(sys.argv[2]))
digest = hashlib.sha256()
for cache in (None, WorldCache()):
    images = render_worlds(world(), poses(), cameras(), cache=cache)
    for name in images.outputs:
        digest.update(getattr(images, name).numpy().tobytes())
print(digest.hexdigest())
"""


def test_threads_change_no_bit(request: pytest.FixtureRequest) -> None:
    root = str(request.config.rootpath)
    found = [
        subprocess.run(
            [sys.executable, "-c", THREADS, root, str(n)], capture_output=True, text=True, check=True, env=_threads(2)
        ).stdout
        for n in (1, 2)
    ]
    assert found[0] == found[1]


def _threads(count: int) -> dict[str, str]:
    import os

    return os.environ | {"NUMBA_NUM_THREADS": str(count), "OMP_NUM_THREADS": "1"}


MEMORY = """
import re, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from tests.parity.test_worlds import cameras, poses, pool, world
from recon4d.raster import WorldCache, WorldSplats, render_worlds
groups = [(0, pool(50_000, 1, seed=1)), (1, pool(6_000, 1, seed=2, spread_m=0.1)), (2, pool(6_000, 1, seed=3))]
render_worlds(world(), poses(), cameras(), cache=WorldCache())
splats, T, seen = WorldSplats.of(groups, 4), poses(248), cameras(128, 128)
render_worlds(splats, T, seen, cache=WorldCache(), memory_mib=256)
# Not ru_maxrss: that begins with what the process that started this one had.
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system has no /proc")
def test_many_worlds_stay_within_four_gib(request: pytest.FixtureRequest) -> None:
    command = [sys.executable, "-c", MEMORY, str(request.config.rootpath)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=_threads(1))
    assert float(run.stdout) < 2048  # MiB; the images are 434 of them.
