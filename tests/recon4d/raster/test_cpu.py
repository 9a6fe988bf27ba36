"""What the CPU backend promises beyond parity: the same bits for any number of threads, and memory that is reused."""

from __future__ import annotations

import gc

import numba
import numpy as np
import pytest
import torch

from recon4d.geometry import look_at
from recon4d.raster import rasterize
from recon4d.raster.cpu import _bins, _project, _tiles, _workspace
from recon4d.types import Camera, Cameras, Splats


def scene(count: int = 2000) -> tuple[Splats, Cameras]:
    rng = np.random.default_rng(0)
    tensor = lambda a: torch.tensor(np.asarray(a), dtype=torch.float32)  # noqa: E731
    splats = Splats(
        means=tensor(rng.uniform(-0.6, 0.6, (count, 3))),
        quats=tensor(rng.normal(size=(count, 4))),
        scales=tensor(0.02 * np.exp(rng.normal(0, 0.5, (count, 3)))),
        opacities=tensor(rng.uniform(0.1, 1.0, count)),
        sh=tensor(rng.normal(0, 0.3, (count, 4, 3))),
    )
    K = np.array([[120.0, 0.0, 75.0], [0.0, 120.0, 50.0], [0.0, 0.0, 1.0]])
    poses = [look_at(np.array(c), np.zeros(3)) for c in ((0.2, -2.0, 1.0), (1.5, 0.7, 0.9))]
    cameras = [Camera(name="c", width=150, height=100, K=K, T_cam_world=pose) for pose in poses]
    return splats, Cameras.of(cameras)


def step(outputs: tuple[str, ...]) -> list[torch.Tensor]:
    """Images and gradients of one step."""
    splats, cameras = scene()
    leaves = [splats.means, splats.quats, splats.scales, splats.opacities, splats.sh, cameras.viewmats]
    for leaf in leaves:
        leaf.requires_grad_()
    output = rasterize(splats, cameras, outputs=outputs, backend="cpu")
    images = [image for image in (output.rgb, output.alpha, output.depth) if image is not None]
    sum((image * torch.linspace(-1, 1, image.numel()).view_as(image)).sum() for image in images).backward()
    return [*(image.detach() for image in images), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("outputs", [("rgb",), ("rgb", "alpha", "depth")])
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
def test_same_bits_for_any_number_of_threads(outputs: tuple[str, ...]) -> None:
    before = numba.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            results.append(step(outputs))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


def test_renders_alive_at_once_do_not_share_memory() -> None:
    """Two forward passes before the first backward: each keeps what its own gradient needs."""
    splats, cameras = scene(500)
    splats.means.requires_grad_()
    alone = torch.autograd.grad(rasterize(splats, cameras).rgb.sum(), splats.means)[0]
    first = rasterize(splats, cameras).rgb.sum()
    other = Splats(**{**vars(splats), "means": splats.means.detach() + 0.3})
    rasterize(other, cameras)
    assert torch.equal(torch.autograd.grad(first, splats.means)[0], alone)


def test_gradients_can_be_taken_twice() -> None:
    splats, cameras = scene(300)
    splats.opacities.requires_grad_()
    loss = rasterize(splats, cameras).alpha.sum()
    once, twice = (torch.autograd.grad(loss, splats.opacities, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(once, twice)


def test_changed_input_is_noticed() -> None:
    splats, cameras = scene(50)
    splats.means.requires_grad_()
    loss = rasterize(splats, cameras).rgb.sum()
    with torch.no_grad():
        splats.means.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_workspaces_are_reused() -> None:
    splats, cameras = scene(100)
    gc.collect()
    rasterize(splats, cameras)
    idle = {id(workspace) for workspace in _workspace._idle}
    assert 0 < len(idle) <= _workspace._KEPT
    rasterize(splats, cameras)
    assert {id(workspace) for workspace in _workspace._idle} == idle


def test_workspace_arrays_are_aligned_and_grow() -> None:
    workspace = _workspace.Workspace()
    small = workspace.array("a", (3, 5), np.float32)
    assert small.shape == (3, 5)
    assert small.ctypes.data % 64 == 0
    assert workspace.array("a", (2, 5), np.float32).ctypes.data == small.ctypes.data
    large = workspace.array("a", (300, 5), np.float32)
    assert large.ctypes.data % 64 == 0
    assert large.flags.c_contiguous
    assert workspace.array("b", (0,), np.int32).size == 0


@pytest.mark.parametrize("spread", [0.0, 1e-6, 1.0, 1e6])
def test_depth_order(spread: float) -> None:
    """The radix sort, for key ranges of one, two and three passes, with ties and culled entries."""
    rng = np.random.default_rng(0)
    z = (1.0 + spread * rng.random(5000)).astype(np.float32)
    z[::7] = z[0]
    keys = z.view(np.uint32).copy()
    keys[rng.random(5000) < 0.3] = _bins.CULLED
    counts = rng.integers(1, 5, 5000).astype(np.int32)
    order, bases = np.empty(5000, np.int32), np.empty(5001, np.int64)
    visible = _bins.order_by_depth(keys, counts, order, np.empty((3, 5000), np.uint32), bases)
    drawn = np.flatnonzero(keys != _bins.CULLED)
    assert np.array_equal(order[:visible], drawn[np.argsort(z[drawn], kind="stable")])
    assert np.array_equal(bases, np.concatenate([[0], np.cumsum(np.where(keys != _bins.CULLED, counts, 0))]))


def test_tile_lists() -> None:
    """Against lists made one by one."""
    rng = np.random.default_rng(0)
    columns, lines, count = 7, 5, 300
    low = np.stack([rng.integers(0, columns, count), rng.integers(0, lines, count)], 1)
    high = np.minimum(low + rng.integers(0, 3, (count, 2)), [columns - 1, lines - 1])
    rects = np.concatenate([low, high], 1).astype(np.int16)
    order = rng.permutation(count).astype(np.int32)
    visible = 250
    lists = [[] for _ in range(columns * lines)]
    for g in order[:visible]:
        for y in range(rects[g, 1], rects[g, 3] + 1):
            for x in range(rects[g, 0], rects[g, 2] + 1):
                lists[y * columns + x].append(g)
    offsets = np.empty(columns * lines + 1, np.int64)
    entries = np.empty(sum(map(len, lists)), np.int32)
    counts = np.empty((_bins.CHUNKS, columns * lines), np.int32)
    _bins.fill_tiles(order, visible, rects, columns, counts, offsets, entries)
    assert np.array_equal(np.diff(offsets), [len(one) for one in lists])
    assert np.array_equal(entries, np.concatenate(lists))


def test_files_of_kernels_agree() -> None:
    """Kernel files are stamped one by one and share no constants, so these are written twice."""
    names = ("TILE", "MX", "MY", "A", "B", "C", "LOG2_OPACITY", "RED", "GREEN", "BLUE", "DEPTH", "KX", "KY")
    assert [getattr(_tiles, name) for name in names] == [getattr(_project, name) for name in names]
    assert _project._CULLED == _bins.CULLED
