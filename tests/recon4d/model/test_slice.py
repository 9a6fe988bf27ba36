"""The instant: activation, visibility, culling, and the gradient back to raw parameters."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch

from recon4d.geometry import quat_to_matrix
from recon4d.model import Gaussians4D, Layout, Slice, view_vector
from recon4d.types import Camera, Splats

T = 1.0
ATTRIBUTES = ("means", "quats", "scales", "opacities", "sh")


def eager(model: Gaussians4D) -> Gaussians4D:
    return Gaussians4D(model.params, model.n_static, model.sh_degree, backend="torch")


def upstream(splats: Splats, unseen_every: int = 3) -> list[torch.Tensor]:
    """Random gradients of the splats; every third row was not seen."""
    generator = torch.Generator().manual_seed(1)
    pulls = [torch.randn(getattr(splats, name).shape, generator=generator) for name in ATTRIBUTES]
    for pull in pulls:
        pull[::unseen_every] = 0
    return pulls


def pull_back(slice_: Slice, pulls: list[torch.Tensor]) -> torch.Tensor:
    torch.autograd.backward([getattr(slice_.splats, name) for name in ATTRIBUTES], pulls)
    return slice_.gradient()


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm().clamp_min(1e-12))


def test_formula_at_known_values() -> None:
    """One dynamic Gaussian, radius 0.2 s, tail 0.1 s, centre 1 s, opacity 0.8, velocity (1, 0, -2) m/s."""
    layout = Layout(0)
    params = torch.zeros(1, layout.width)
    values = {"quat": 1.0, "center": 1.0, "log_radius": np.log(0.2), "log_tail": np.log(0.1)}
    params[0] = layout.vector(**values, logit_opacity=float(np.log(0.8 / 0.2)), log_scale=float(np.log(0.05)))
    params[0, layout.columns["velocity"]] = torch.tensor([1.0, 0.0, -2.0])
    for model in (Gaussians4D(params, 0, 0), Gaussians4D(params, 0, 0, backend="torch")):
        for t, visibility in {1.0: 1.0, 1.2: 1.0, 0.85: 1.0, 1.3: np.exp(-0.5), 0.6: np.exp(-2.0)}.items():
            splats = model.at(t)
            torch.testing.assert_close(splats.opacities, torch.tensor([0.8 * visibility]).float(), atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(splats.means, torch.tensor([[t - 1, 0.0, 2 - 2 * t]]))
            torch.testing.assert_close(splats.scales, torch.full((1, 3), 0.05))
        # 0.8 exp(-u^2 / 2) falls below 1/255 at u = 3.2609, that is at t = 1.52609.
        assert len(model.at(1.5260)) == 1
        assert len(model.at(1.5262)) == 0


def test_rows_are_ascending_and_those_above_the_cut(model: Gaussians4D) -> None:
    static, dynamic = model.to_pools()
    beyond = ((T - dynamic.centers_s).abs() - dynamic.radii_s).clamp_min(0) / dynamic.tails_s
    alive = torch.cat([static.opacities, dynamic.opacities * torch.exp(-0.5 * beyond**2)]) >= 1 / 255
    splats = model.at(T)
    assert splats.rows is not None
    assert splats.rows.tolist() == alive.nonzero().squeeze(1).tolist()
    assert 700 < len(splats) < 2000
    assert not splats.means.requires_grad


@pytest.mark.parametrize("culled", [False, True])
def test_compiled_equals_torch(model: Gaussians4D, camera: Camera, culled: bool) -> None:
    arguments = {"camera": camera if culled else None, "opacity_cost": 0.1, "static_opacity_cost": 0.03}
    ours, theirs = model.slice(T, **arguments), eager(model).slice(T, **arguments)
    assert torch.equal(ours.rows, theirs.rows)
    assert torch.equal(ours.leaf, model.params[ours.rows])
    for name in ATTRIBUTES:
        # Worst seen 9e-8.
        torch.testing.assert_close(getattr(ours.splats, name), getattr(theirs.splats, name), rtol=1e-6, atol=1e-6)
    pulls = upstream(ours.splats)
    a, b = pull_back(ours, pulls), pull_back(theirs, pulls)
    for columns in model.layout.columns.values():
        assert relative(a[:, columns], b[:, columns]) < 1e-5  # Worst seen 1e-7.
    assert not a[::3].any()
    assert not b[::3].any()
    assert a[1::3].any(1).all()


def test_static_rows_have_no_temporal_gradient(model: Gaussians4D) -> None:
    slice_ = model.slice(T)
    gradient = pull_back(slice_, upstream(slice_.splats))
    still = slice_.rows < model.n_static
    assert still.any()
    assert not gradient[still][:, model.layout.temporal].any()
    assert gradient[~still][:, model.layout.temporal].any()


@pytest.mark.parametrize("room", [1900, 1500, 2000])
def test_with_room_the_same_rows_come_first(model: Gaussians4D, camera: Camera, room: int) -> None:
    """Room for more rows than are seen: the others are zeros that nothing draws and that get no gradient."""
    exact = eager(model).slice(T, camera, opacity_cost=0.1)
    view = torch.from_numpy(view_vector(camera))
    for roomy in (
        model.slice(T, view=view, opacity_cost=0.1, room=room),
        eager(model).slice(T, camera, room=len(model)),
    ):
        n = len(exact)
        assert int(roomy.kept) == n
        assert len(roomy) <= max(room, len(model))
        assert sorted(roomy.rows.tolist()) == sorted(set(roomy.rows.tolist()))
        seen = torch.isin(roomy.rows, exact.rows)
        assert torch.equal(roomy.rows[seen], exact.rows)
        assert not roomy.splats.opacities[~seen].any()
        for name in ATTRIBUTES:
            assert torch.equal(getattr(roomy.splats, name)[seen], getattr(exact.splats, name)), name
    roomy = model.slice(T, view=view, opacity_cost=0.1, room=room)
    seen = torch.isin(roomy.rows, exact.rows)
    pulls = upstream(exact.splats)
    padded = [torch.zeros_like(getattr(roomy.splats, name)) for name in ATTRIBUTES]
    for whole, part in zip(padded, pulls, strict=True):
        whole[seen] = part
    gradient = pull_back(roomy, padded)
    assert torch.equal(gradient[seen], pull_back(exact, pulls))
    assert not gradient[~seen].any()


def test_too_little_room_is_told(model: Gaussians4D, camera: Camera) -> None:
    exact = model.slice(T, camera)
    tight = model.slice(T, camera, room=50)
    assert int(tight.kept) == len(exact) > 50
    assert torch.equal(tight.rows, exact.rows[:50])


@pytest.mark.parametrize("column", ["mean", "log_scale", "logit_opacity"])
def test_what_fills_the_room_cannot_spoil_a_gradient(model: Gaussians4D, camera: Camera, column: str) -> None:
    params = model.params.clone()
    unseen = torch.ones(len(model), dtype=torch.bool)
    unseen[model.slice(T, camera).rows] = False
    params[unseen.nonzero()[:5].squeeze(1), model.layout.columns[column]] = float("nan")
    roomy = Gaussians4D(params, model.n_static, model.sh_degree).slice(T, camera, room=len(model))
    gradient = pull_back(roomy, upstream(roomy.splats))
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("offset", [-0.35, -0.05, 0.1, 0.3], ids=["tail-before", "flat", "flat-after", "tail-after"])
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_gradient_against_finite_differences(offset: float, backend: str) -> None:
    """The formula in float64, differentiated numerically, on both sides and on the flat top of the life span."""
    layout = Layout(0)
    row = layout.vector(center=T - offset, log_radius=float(np.log(0.15)), log_tail=float(np.log(0.2)), quat=0.5)
    row[layout.columns["mean"]] = torch.tensor([0.1, -0.2, 0.3])
    row[layout.columns["velocity"]] = torch.tensor([0.5, -1.0, 0.25])
    row[layout.columns["log_scale"]] = torch.tensor([-3.0, -4.0, -5.0])
    row[layout.columns["logit_opacity"]] = 0.4
    pulls = upstream(Gaussians4D(row[None], 0, 0).at(T), unseen_every=2**30)
    for pull in pulls:
        pull += 0.3  # The first row counts as unseen above; here it is the only one.

    def loss(raw: np.ndarray) -> float:
        part = {name: raw[columns] for name, columns in layout.columns.items()}
        dt = T - part["center"][0]
        beyond = max(abs(dt) - np.exp(part["log_radius"][0]), 0.0)
        visibility = np.exp(-0.5 * (beyond / np.exp(part["log_tail"][0])) ** 2)
        opacity = visibility / (1 + np.exp(-part["logit_opacity"]))
        values = [part["mean"] + part["velocity"] * dt, part["quat"], np.exp(part["log_scale"]), opacity]
        return sum(float((v * g.double().numpy().ravel()).sum()) for v, g in zip(values, pulls, strict=False))

    slice_ = Gaussians4D(row[None].clone(), 0, 0, backend=backend).slice(T)  # type: ignore[arg-type]
    gradient = pull_back(slice_, pulls)[0].double().numpy()
    raw, step = row.double().numpy(), 1e-6
    for column in [
        c for name, s in layout.columns.items() if not name.startswith("sh") for c in range(s.start, s.stop)
    ]:
        change = np.zeros(layout.width)
        change[column] = step
        expected = (loss(raw + change) - loss(raw - change)) / (2 * step)
        assert gradient[column] == pytest.approx(expected, rel=2e-6, abs=2e-7), column  # Worst seen 7e-8.


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_opacity_cost_is_paid_by_what_was_seen(model: Gaussians4D, backend: str) -> None:
    """cost * d sigmoid / d logit * visibility, on rows with any gradient and on no other column."""
    source = model if backend == "auto" else eager(model)
    free, priced = source.slice(T), source.slice(T, opacity_cost=0.5, static_opacity_cost=0.25)
    pulls = upstream(free.splats)
    extra = pull_back(priced, pulls) - pull_back(free, pulls)
    logit = priced.leaf.detach()[:, model.layout.columns["logit_opacity"]].squeeze(1)
    opacity = torch.sigmoid(logit)
    cost = torch.where(priced.rows < 700, 0.25, 0.5)
    expected = cost * priced.splats.opacities.detach() * (1 - opacity)
    expected[::3] = 0
    torch.testing.assert_close(
        extra[:, model.layout.columns["logit_opacity"]].squeeze(1), expected, rtol=1e-4, atol=1e-6
    )
    extra[:, model.layout.columns["logit_opacity"]] = 0
    assert not extra.any()


def contributions(splats: Splats, camera: Camera) -> np.ndarray:
    """[n] largest alpha over pixel centres, by the projection that rasterizers share, in float64, nothing culled."""
    T_cam = torch.from_numpy(camera.T_cam_world)
    cam = splats.means.double() @ T_cam[:3, :3].T + T_cam[:3, 3]
    x, y, z = cam.unbind(1)
    fx, fy, cx, cy = camera.K[0, 0], camera.K[1, 1], camera.K[0, 2], camera.K[1, 2]
    safe = z.where(z > 0, 1)
    limits = [1.3 * max(cx, camera.width - cx) / fx, 1.3 * max(cy, camera.height - cy) / fy]
    sx, sy = (x / safe).clamp(-limits[0], limits[0]), (y / safe).clamp(-limits[1], limits[1])
    zero = torch.zeros_like(z)
    J = torch.stack([fx / safe, zero, -fx * sx / safe, zero, fy / safe, -fy * sy / safe], 1).reshape(-1, 2, 3)
    M = J @ T_cam[:3, :3] @ quat_to_matrix(splats.quats.double()) * splats.scales.double()[:, None]
    inverse = torch.linalg.inv(M @ M.transpose(1, 2) + 0.3 * torch.eye(2, dtype=torch.float64))
    v, u = torch.meshgrid(torch.arange(camera.height) + 0.5, torch.arange(camera.width) + 0.5, indexing="ij")
    pixels = torch.stack([u, v], -1).reshape(1, -1, 2).double()
    d = pixels - torch.stack([fx * x / safe + cx, fy * y / safe + cy], 1)[:, None]
    power = torch.einsum("npi,nij,npj->np", d, inverse, d)
    alpha = splats.opacities.double() * torch.exp(-0.5 * power.amin(1))
    return alpha.where(z > 0.01, 0).numpy()


@pytest.mark.parametrize("crop", [None, (0, 0, 20, 12), (70, 40, 96, 64), (40, 30, 41, 31)])
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_culling_keeps_whatever_is_drawn(crop: tuple[int, int, int, int] | None, backend: str, camera: Camera) -> None:
    """Large, elongated, opaque Gaussians all around the camera, near it and behind it."""
    rng = np.random.default_rng(3)
    layout = Layout(0)
    n = 400
    params = np.zeros((n, layout.width), np.float32)
    params[:, layout.columns["mean"]] = camera.center_w + rng.normal(size=(n, 3)) * rng.choice([0.05, 0.5, 2.0], (n, 1))
    params[:, layout.columns["quat"]] = rng.normal(size=(n, 4))
    params[:, layout.columns["log_scale"]] = np.log(rng.choice([1e-4, 0.01, 0.1, 0.5], (n, 3)))
    params[:, layout.columns["logit_opacity"]] = 8.0
    if crop is not None:
        camera = camera.crop(*crop)
    model = Gaussians4D(torch.from_numpy(params), n, 0, backend=backend)  # type: ignore[arg-type]
    drawn = contributions(model.at(0.0), camera) >= 1 / 255
    kept = np.zeros(n, bool)
    kept[model.slice(0.0, camera).rows.numpy()] = True
    assert not (drawn & ~kept).any()
    assert drawn.sum() > 10
    assert kept.sum() < n - 100  # It does cull: at least everything behind the camera.


def test_threads_do_not_change_a_bit(model: Gaussians4D, camera: Camera) -> None:
    results = []
    before = numba.get_num_threads()
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(threads)
        try:
            slice_ = model.slice(T, camera, opacity_cost=0.1)
            gradient = pull_back(slice_, upstream(slice_.splats))
        finally:
            numba.set_num_threads(before)
        results.append([slice_.rows, gradient, *(getattr(slice_.splats, name) for name in ATTRIBUTES)])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_nothing_alive(camera: Camera, backend: str) -> None:
    layout = Layout(1)
    for params in (torch.zeros(0, layout.width), torch.full((3, layout.width), -60.0)):
        model = Gaussians4D(params, 0, 1, backend=backend)  # type: ignore[arg-type]
        assert len(model.at(0.0)) == 0
        slice_ = model.slice(0.0, camera)
        assert slice_.gradient().shape == (0, layout.width)


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("column", ["mean", "logit_opacity", "center", "log_tail"])
def test_a_row_that_is_not_finite_spoils_no_other(
    model: Gaussians4D, camera: Camera, backend: str, column: str
) -> None:
    clean = model.slice(T, camera)
    params = model.params.clone()
    victim = int(clean.rows[-1])
    params[victim, model.layout.columns[column]] = float("nan")
    slice_ = Gaussians4D(params, 700, model.sh_degree, backend=backend).slice(T, camera)  # type: ignore[arg-type]
    others = slice_.rows != victim
    assert slice_.rows[others].tolist() == clean.rows[:-1].tolist()
    gradient = pull_back(slice_, upstream(slice_.splats))
    assert torch.isfinite(gradient[others]).all()


def test_gradient_before_backward_is_an_error(model: Gaussians4D) -> None:
    with pytest.raises(RuntimeError, match="call backward"):
        model.slice(T).gradient()
