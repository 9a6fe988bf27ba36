"""Row-wise Adam against torch's own, and what it must leave alone."""

from __future__ import annotations

import numba
import pytest
import torch

from recon4d.model import Layout, RowAdam

LAYOUT = Layout(1)
BACKENDS = pytest.mark.parametrize("backend", ["auto", "torch"])


def setup(n: int = 700, seed: int = 0) -> tuple[torch.Tensor, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    return 0.1 * torch.randn(n, LAYOUT.width, generator=generator), generator


def rates() -> tuple[torch.Tensor, torch.Tensor]:
    return LAYOUT.vector(mean=3e-4, quat=1e-3, sh_dc=1e-2), LAYOUT.vector(mean=3e-3, log_scale=2e-2, center=3e-3)


@BACKENDS
@pytest.mark.parametrize("betas", [(0.9, 0.99), (0.9, 0.999), (0.0, 0.5)])
def test_equals_torch_adam_when_all_rows_always_move(backend: str, betas: tuple[float, float]) -> None:
    params, generator = setup()
    adam = RowAdam(params.clone(), betas, backend=backend)  # type: ignore[arg-type]
    static, dynamic = rates()
    columns = [torch.nn.Parameter(params[:, [c]].double()) for c in range(LAYOUT.width)]
    groups = [{"params": [column], "lr": float(dynamic[c])} for c, column in enumerate(columns)]
    torchs = torch.optim.Adam(groups, betas=betas, eps=1e-15)
    for _ in range(20):
        gradient = torch.randn(params.shape, generator=generator)
        adam.step(torch.arange(len(params)), gradient, static, dynamic, 0)
        for c, column in enumerate(columns):
            column.grad = gradient[:, [c]].double()
        torchs.step()
    moved = torch.cat([column.detach() for column in columns], 1)
    torch.testing.assert_close(adam.params.double(), moved, rtol=0, atol=1e-6)  # Worst seen 1.5e-7.


def test_compiled_equals_torch_path() -> None:
    params, generator = setup()
    pair = [RowAdam(params.clone(), backend=backend) for backend in ("auto", "torch")]
    for _ in range(15):
        rows = torch.randperm(len(params), generator=generator)[:300].sort().values
        gradient = torch.randn(300, LAYOUT.width, generator=generator)
        gradient[::4] = 0
        for adam in pair:
            adam.step(rows, gradient, *rates(), 250)
    torch.testing.assert_close(pair[0].params, pair[1].params, rtol=1e-5, atol=1e-6)
    for name, value in pair[0].state_dict().items():
        torch.testing.assert_close(value, pair[1].state_dict()[name], rtol=1e-5, atol=1e-6)


@BACKENDS
def test_each_pool_has_its_own_rates(backend: str) -> None:
    params, generator = setup()
    adam = RowAdam(params.clone(), backend=backend)  # type: ignore[arg-type]
    static, dynamic = rates()
    adam.step(torch.arange(len(params)), torch.randn(params.shape, generator=generator), static, dynamic, 100)
    change = (adam.params - params).abs()
    # The first step of Adam is as long as the rate, whatever the gradient.
    torch.testing.assert_close(change[:100], static.expand(100, -1), rtol=1e-2, atol=1e-6)
    torch.testing.assert_close(change[100:], dynamic.expand(600, -1), rtol=1e-2, atol=1e-6)


@BACKENDS
def test_rows_without_gradient_rest(backend: str) -> None:
    """Neither rows left out nor rows of zeros change by a bit, in parameters or state, though they have momentum."""
    params, generator = setup()
    adam = RowAdam(params, backend=backend)  # type: ignore[arg-type]
    everything = torch.arange(len(params))
    adam.step(everything, torch.randn(params.shape, generator=generator), *rates(), 300)
    before = {name: value.clone() for name, value in adam.state_dict().items()} | {"params": params.clone()}
    rows = everything[::2]
    gradient = torch.randn(len(rows), LAYOUT.width, generator=generator)
    gradient[::2] = 0
    adam.step(rows, gradient, *rates(), 300)
    moving = torch.zeros(len(params), dtype=torch.bool)
    moving[rows[1::2]] = True
    for name, value in (adam.state_dict() | {"params": params}).items():
        assert torch.equal(value[~moving], before[name][~moving]), name
        assert (value[moving] != before[name][moving]).reshape(int(moving.sum()), -1).any(1).all(), name
    assert adam.steps[moving].unique().tolist() == [2]
    assert adam.steps[~moving].unique().tolist() == [1]


def test_state_round_trip() -> None:
    params, generator = setup(6)
    adam = RowAdam(params.clone())
    adam.step(torch.arange(6), torch.randn(params.shape, generator=generator), *rates(), 3)
    other = RowAdam(adam.params.clone())
    other.load_state_dict(adam.state_dict())
    gradient = torch.randn(params.shape, generator=generator)
    for one in (adam, other):
        one.step(torch.arange(6), gradient, *rates(), 3)
    assert torch.equal(adam.params, other.params)
    smaller = RowAdam(params[:4].clone())
    with pytest.raises(ValueError, match=r"'moments' must be \[4"):
        smaller.load_state_dict(other.state_dict())


def test_threads_do_not_change_a_bit() -> None:
    params, generator = setup()
    gradient = torch.randn(params.shape, generator=generator)
    results = []
    before = numba.get_num_threads()
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        adam = RowAdam(params.clone())
        numba.set_num_threads(threads)
        try:
            adam.step(torch.arange(len(params)), gradient, *rates(), 300)
        finally:
            numba.set_num_threads(before)
        results.append(adam)
    assert torch.equal(results[0].params, results[1].params)
    for name, value in results[0].state_dict().items():
        assert torch.equal(value, results[1].state_dict()[name])


def test_bad_arguments_are_named() -> None:
    params, _ = setup(4)
    with pytest.raises(ValueError, match="betas"):
        RowAdam(params, (0.9, 1.0))
    with pytest.raises(ValueError, match=r"must be \[2, 29\]"):
        RowAdam(params).step(torch.arange(2), torch.zeros(3, 29), *rates(), 0)
