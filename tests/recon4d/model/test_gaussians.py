"""The parameter matrix: layout, validation, pools and scenes."""

from __future__ import annotations

import pytest
import torch

from recon4d.model import Gaussians4D, Layout
from recon4d.types import DynamicPool, Scene4D, StaticPool


def make_pools(n_static: int, n_dynamic: int, sh_degree: int) -> tuple[StaticPool, DynamicPool]:
    generator = torch.Generator().manual_seed(2)

    def shared(n: int) -> dict[str, torch.Tensor]:
        quats = torch.randn(n, 4, generator=generator)
        return {
            "means": torch.randn(n, 3, generator=generator),
            "quats": quats / quats.norm(dim=1, keepdim=True),
            "scales": 0.001 + torch.rand(n, 3, generator=generator),
            "opacities": 0.01 + 0.98 * torch.rand(n, generator=generator),
            "sh": torch.randn(n, (sh_degree + 1) ** 2, 3, generator=generator),
        }

    temporal = {
        "velocities": torch.randn(n_dynamic, 3, generator=generator),
        "centers_s": 10 * torch.rand(n_dynamic, generator=generator),
        "radii_s": 0.01 + torch.rand(n_dynamic, generator=generator),
        "tails_s": 0.01 + torch.rand(n_dynamic, generator=generator),
    }
    return StaticPool(**shared(n_static)), DynamicPool(**shared(n_dynamic), **temporal)


@pytest.mark.parametrize("sh_degree", [0, 1, 2, 3])
def test_columns_partition_the_row(sh_degree: int) -> None:
    layout = Layout(sh_degree)
    seen = [c for columns in layout.columns.values() for c in range(columns.start, columns.stop)]
    assert seen == list(range(layout.width))
    assert layout.width == 3 + 4 + 3 + 1 + 3 * (sh_degree + 1) ** 2 + 6
    assert layout.sh.stop - layout.sh.start == 3 * layout.coefficients
    assert layout.temporal == slice(layout.sh.stop, layout.width)


def test_vector_sets_only_what_is_named() -> None:
    layout = Layout(1)
    vector = layout.vector(mean=2.0, center=3.0)
    assert vector[layout.columns["mean"]].tolist() == [2.0] * 3
    assert vector[layout.columns["center"]].tolist() == [3.0]
    assert vector.sum() == 9.0
    with pytest.raises(KeyError, match="log_scale"):
        layout.vector(scale=1.0)


@pytest.mark.parametrize("sh_degree", [0, 1, 3])
@pytest.mark.parametrize(("n_static", "n_dynamic"), [(40, 60), (0, 5), (5, 0)])
def test_scene_round_trip(sh_degree: int, n_static: int, n_dynamic: int) -> None:
    static, dynamic = make_pools(n_static, n_dynamic, sh_degree)
    model = Gaussians4D.from_scene(Scene4D(static=static, dynamic=dynamic, cameras=(), duration_s=10.0))
    assert (len(model), model.n_static, model.sh_degree) == (n_static + n_dynamic, n_static, sh_degree)
    assert not model.params[:n_static, model.layout.temporal].any()
    for ours, theirs in zip(model.to_pools(), (static, dynamic), strict=True):
        for name, value in vars(theirs).items():
            torch.testing.assert_close(getattr(ours, name), value, rtol=2e-6, atol=1e-6)  # Worst seen 1e-7.


def test_pools_are_copies() -> None:
    model = Gaussians4D.from_pools(*make_pools(3, 4, 1))
    before = model.params.clone()
    for pool in model.to_pools():
        for value in vars(pool).values():
            value.zero_()
    assert torch.equal(model.params, before)


def test_limits_of_logarithms_are_finite() -> None:
    static, dynamic = make_pools(2, 2, 0)
    static.opacities[:] = torch.tensor([0.0, 1.0])
    static.scales[:] = 0
    dynamic.radii_s[:] = 0
    model = Gaussians4D.from_pools(static, dynamic)
    assert torch.isfinite(model.params).all()
    torch.testing.assert_close(model.to_pools()[0].opacities, static.opacities, rtol=0, atol=2e-6)


def test_colour_is_coefficient_major() -> None:
    static, dynamic = make_pools(3, 0, 1)
    model = Gaussians4D.from_pools(static, dynamic)
    assert torch.equal(model.params[:, model.layout.columns["sh_dc"]], static.sh[:, 0])
    assert torch.equal(model.params[:, model.layout.columns["sh_rest"]][:, :3], static.sh[:, 1])
    visible = model.at(0.0)
    assert visible.rows is not None
    assert torch.equal(visible.sh, static.sh[visible.rows])


@pytest.mark.parametrize(
    ("params", "n_static", "sh_degree", "message"),
    [
        (torch.zeros(4, 5), 0, 0, r"float32 \[N, 20\]"),
        (torch.zeros(4, 20, dtype=torch.float64), 0, 0, "float64"),
        (torch.zeros(20, 4).T, 0, 0, "contiguous"),
        (torch.zeros(4, 20), 5, 0, r"\[0, 4\]"),
        (torch.zeros(4, 20), 0, 4, "sh_degree"),
    ],
)
def test_bad_parameters_are_named(params: torch.Tensor, n_static: int, sh_degree: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Gaussians4D(params, n_static, sh_degree)


def test_pools_of_different_degree_are_refused() -> None:
    with pytest.raises(ValueError, match="hold 1 and 4"):
        Gaussians4D.from_pools(make_pools(2, 0, 0)[0], make_pools(0, 2, 1)[1])
