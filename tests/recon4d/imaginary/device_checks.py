"""The device itself keeps its promises. Run by ``test_imaginary_device.py``."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import imaginary_accel
import numpy as np
import pytest
import torch
from imaginary_accel import watch, without
from torch import Tensor

imaginary_accel.install()

DEVICES = ("imaginary:0", "imaginary:1")
on_both = pytest.mark.parametrize("device", DEVICES)


def values(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def index() -> Tensor:
    return torch.tensor([2, 0, 2, 5])


COMPUTATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "elementwise": lambda x: (x.exp() / (1 + x.square()) - x.abs().sqrt() * x.sigmoid()).clamp(-1, 2),
    "where": lambda x: torch.where(x > 0, x, x.neg() * 0.5).clamp_min(0.1).log(),
    "reductions": lambda x: x.sum(1) + x.amax(1) + x.mean(1) + x.norm(dim=1) + x.max(1).values,
    "scans": lambda x: x.cumsum(0) * x.cumprod(1),
    "sort": lambda x: x.sort(dim=1, stable=True).values @ x[:, x[0].argsort()].T,
    "topk": lambda x: x.topk(2, dim=1).values,
    "indexing": lambda x: x[index().to(x.device)] * x.index_select(0, index().to(x.device)),
    "gather": lambda x: x.gather(0, index().to(x.device)[:, None].expand(4, 5)),
    "index_put": lambda x: torch.zeros_like(x).index_put((index().to(x.device),), x[:4], accumulate=True),
    "index_add": lambda x: torch.zeros_like(x).index_add(0, index().to(x.device), x[:4]),
    "scatter_add": lambda x: x.new_zeros(6, 5).scatter_add(0, index().to(x.device)[:, None].expand(4, 5), x[:4]),
    "products": lambda x: torch.baddbmm(x[:2, None], x[None, :1].expand(2, 1, 5), x[1:].expand(2, 5, 5)),
    "addmm": lambda x: torch.addmm(x[0], x, x[:5]),
    "shapes": lambda x: torch.nn.functional.pad(torch.stack([x, x]).permute(2, 0, 1).reshape(5, -1), (1, 1)).flip(0),
    "repeat": lambda x: x.repeat_interleave(torch.arange(6, device=x.device), 0),
    "conv2d": lambda x: torch.nn.functional.conv2d(x.view(1, 1, 6, 5), x[:3, :3].reshape(1, 1, 3, 3), padding=1),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 2:]),
    "threshold": lambda x: torch.nn.functional.threshold(x, 0.1, 0.0),
    "slices": lambda x: torch.cat([x[:2], x[2:] * 2]).masked_fill(x > 1, 0.5),
    "vector and matrix": lambda x: x[:, 0] @ x + x[0] @ x[1],
    "in place": lambda x: x.clone().mul_(2).add_(x).clamp_(-1, 1),
}


@on_both
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_values_and_gradients_are_the_cpus(name: str, device: str) -> None:
    results = []
    for place in ("cpu", device):
        leaf = values(6, 5).to(place).requires_grad_()
        result = COMPUTATIONS[name](leaf)
        (result * torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(place)).sum().backward()
        assert leaf.grad is not None
        assert result.device == leaf.grad.device == torch.device(place)
        results.append((result.detach().cpu(), leaf.grad.cpu()))
    for host, other in zip(*results, strict=True):
        assert torch.equal(host, other)


@on_both
def test_integers_are_counted_and_searched_as_on_the_cpu(device: str) -> None:
    numbers = torch.tensor([3, 1, 1, 4])
    there = numbers.to(device)
    assert torch.equal(torch.bincount(there, minlength=7).cpu(), torch.bincount(numbers, minlength=7))
    edges = torch.arange(4, device=device)
    assert torch.searchsorted(edges, there, right=True).tolist() == [4, 2, 2, 4]
    assert (there == 1).nonzero().tolist() == [[1], [2]]


@on_both
def test_writing_through_a_view_is_seen_behind_it(device: str) -> None:
    whole = torch.zeros(4, 3, device=device)
    whole[1:3, 0] = 2.0
    whole[:, 2].add_(1)
    torch.mul(whole[0], 3, out=whole[3])
    assert whole.tolist() == [[0, 0, 1], [2, 0, 1], [2, 0, 1], [0, 0, 3]]


@on_both
def test_a_shape_changed_in_place_is_seen(device: str) -> None:
    x = torch.zeros(2, 1, 3, device=device)
    assert x.squeeze_(1).t_() is x
    assert (x.shape, x.stride()) == ((3, 2), (1, 3))
    assert (x + torch.ones(3, 2, device=device)).tolist() == [[1, 1]] * 3


@on_both
def test_random_numbers_are_the_cpus(device: str) -> None:
    torch.manual_seed(5)
    there = torch.randn(4, device=device)
    torch.manual_seed(5)
    assert torch.equal(there.cpu(), torch.randn(4))


def test_a_function_written_in_python_goes_back_on_either_device() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: object, *gradients: Tensor) -> Tensor:
            return 2 * gradients[0]

    for device in DEVICES:
        leaf = torch.ones(2, device=device, requires_grad=True)
        Double.apply(leaf).sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.tolist() == [2, 2]


def test_a_graph_may_cross_devices() -> None:
    leaf = torch.ones(2, device=DEVICES[0], requires_grad=True)
    (leaf.to(DEVICES[1]) * torch.full((2,), 3.0, device=DEVICES[1])).sum().cpu().backward()
    assert leaf.grad is not None
    assert leaf.grad.device == torch.device(DEVICES[0])
    assert leaf.grad.tolist() == [3, 3]


def test_inference_mode_shows_no_other_operators() -> None:
    with torch.inference_mode():
        x = torch.ones(2, 3, device=DEVICES[1])
        assert (x.reshape(3, 2) @ x)[0].tolist() == [2, 2, 2]


REFUSED: dict[str, tuple[type[Exception], str, Callable[[Tensor], object]]] = {
    "float64 made": (TypeError, "imaginary has no float64", lambda x: x.new_zeros(2, dtype=torch.float64)),
    "float64 from nothing": (
        TypeError,
        "imaginary has no float64",
        lambda x: torch.zeros(2, dtype=torch.float64, device=x.device),
    ),
    "float64 cast": (TypeError, "imaginary has no float64", lambda x: x.double()),
    "float64 uploaded": (TypeError, "imaginary has no float64", lambda x: torch.zeros(2).double().to(x.device)),
    "float64 from numpy": (TypeError, "imaginary has no float64", lambda x: torch.as_tensor(np.zeros(2)).to(x.device)),
    "float64 sum": (TypeError, "imaginary has no float64", lambda x: x.sum(dtype=torch.float64)),
    "complex": (TypeError, "imaginary has no complex64", lambda x: x.to(torch.complex64)),
    "solver": (NotImplementedError, "Could not run 'aten::linalg_inv_ex'", lambda x: torch.linalg.inv(x[:3, :3])),
    "sampler": (
        NotImplementedError,
        "Could not run 'aten::grid_sampler_2d'",
        lambda x: torch.nn.functional.grid_sample(x[None, None], x[None, None, :, :2], align_corners=False),
    ),
    "host and device": (RuntimeError, "two devices, imaginary:1 and cpu!", lambda x: x + torch.ones(3)),
    "two devices": (
        RuntimeError,
        "two devices, imaginary:1 and imaginary:0!",
        lambda x: x * torch.ones(3, device=DEVICES[0]),
    ),
    "no such device": (RuntimeError, "invalid device ordinal: imaginary:2", lambda x: x.to("imaginary:2")),
    "nothing there": (
        RuntimeError,
        "invalid device ordinal: imaginary:2",
        lambda x: torch.ones(1, device="imaginary:2"),
    ),
    "numpy": (TypeError, "can't convert imaginary:1 device type tensor to numpy", lambda x: x.numpy()),
    "array": (TypeError, "can't convert imaginary:1 device type tensor to numpy", lambda x: np.asarray(x)),
    "dlpack": (BufferError, "cannot be lent", lambda x: np.from_dlpack(x)),
    "growth": (
        NotImplementedError,
        "would make an existing imaginary tensor larger",
        lambda x: torch.mul(x, 2, out=x.new_empty(0)),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_device_has_not_is_refused(name: str) -> None:
    error, message, call = REFUSED[name]
    with pytest.raises(error, match=message.replace("(", r"\(")):
        call(torch.ones(3, 3, device=DEVICES[1]))


def test_numbers_of_the_host_pass() -> None:
    x = torch.ones(2, device=DEVICES[1])
    assert (x * torch.tensor(2.0, dtype=torch.float64)).tolist() == [2, 2]


def test_operators_can_be_taken_away_for_a_while() -> None:
    x = torch.tensor([2, 1], device=DEVICES[0])
    with watch() as log, without({"aten::sort", "aten::bincount"}):
        with pytest.raises(NotImplementedError, match="'aten::sort'"):
            x.argsort()
        with pytest.raises(RuntimeError, match="'aten::bincount'"):
            torch.bincount(x)
        assert x.cumsum(0).tolist() == [2, 3]
    assert [note.operator for note in log.refusals] == ["aten::sort", "aten::bincount"]
    assert x.argsort().tolist() == [1, 0]
    with pytest.raises(ValueError, match="aten::inverse"), without({"aten::inverse"}):
        pass


WAITS: dict[str, tuple[list[str], Callable[[Tensor], object]]] = {
    "item": (["item"], lambda x: x[0].item()),
    "bool": (["item"], lambda x: bool((x > 0).any())),
    "int": (["item"], lambda x: int(x[1])),
    "equal": (["item"], lambda x: torch.equal(x, x)),
    "allclose": (["item"], lambda x: torch.allclose(x, x)),
    "cpu": (["download"], lambda x: x.cpu()),
    "to": (["download"], lambda x: x.to("cpu", torch.float16)),
    "tolist": (["download"], lambda x: x.tolist()),
    "copy_": (["download"], lambda x: torch.empty(4).copy_(x)),
    "numpy": (["download"], lambda x: x.numpy(force=True)),
    "nonzero": (["nonzero"], lambda x: x.nonzero()),
    "where": (["nonzero"], lambda x: torch.where(x > 0)),
    "mask read": (["mask"], lambda x: x[x > 0]),
    "masks read": (["mask", "mask"], lambda x: (x[x > 0], x[x > 1])),
    "masked_select": (["mask"], lambda x: x.masked_select(x > 0)),
    "mask written": (["mask"], lambda x: x.clone().__setitem__(x > 0, 1.0)),
    "unique": (["unique"], lambda x: x.unique()),
    "unique_consecutive": (["unique"], lambda x: x.unique_consecutive()),
    "unique rows": (["unique"], lambda x: x[:, None].unique(dim=0)),
    "repeat_interleave": (["repeat_interleave"], lambda x: x.repeat_interleave(x.long())),
    "bincount": (["bincount"], lambda x: torch.bincount(x.long(), minlength=9)),
    # And none.
    "repeat_interleave of known size": ([], lambda x: x.repeat_interleave(x.long(), output_size=10)),
    "repeat_interleave by a number": ([], lambda x: x.repeat_interleave(2)),
    "arithmetic": ([], lambda x: (x * 2 + x.sum()).clamp_min(0.5).sort()),
    "index": ([], lambda x: x[x.long() - 1]),
    "masked_fill": ([], lambda x: x.masked_fill(x > 2, 0.0)),
    "nonzero_static": ([], lambda x: torch.nonzero_static(x, size=2)),
    "slice written": ([], lambda x: x.clone()[1:].fill_(1.0)),
    "other device": ([], lambda x: x.to(DEVICES[0])),
    "shape": ([], lambda x: (len(x), x.shape, x.is_floating_point())),
    "repr": ([], repr),
}


@pytest.mark.parametrize("name", WAITS)
def test_every_wait_is_counted_once_and_placed(name: str) -> None:
    expected, call = WAITS[name]
    x = torch.tensor([1.0, 2, 3, 4], device=DEVICES[1])
    with watch() as log:
        call(x)
    assert [note.kind for note in log.syncs] == expected
    assert log.uploads == []
    assert {Path(note.place.rpartition(":")[0]) for note in log.syncs} <= {Path(__file__)}


UPLOADS: dict[str, tuple[int, Callable[[str], object]]] = {
    "to": (1, lambda device: torch.ones(3).to(device)),
    "cast on the way": (1, lambda device: torch.ones(3).double().to(device, torch.float32)),
    "tensor": (1, lambda device: torch.tensor([1.0, 2.0], device=device)),
    "as_tensor": (1, lambda device: torch.as_tensor(np.zeros(2, np.float32), device=device)),
    "copy_": (1, lambda device: torch.empty(3, device=device).copy_(torch.ones(3))),
    "index": (1, lambda device: torch.empty(3, device=device)[torch.tensor([0, 1])]),
    "slice written": (1, lambda device: torch.empty(3, device=device)[1:].copy_(torch.ones(2))),
    "module": (2, lambda device: torch.nn.Linear(2, 2).to(device)),
    # And none.
    "made there": (0, lambda device: torch.ones(3, device=device) + torch.arange(3, device=device) * 2.5),
    "number written": (0, lambda device: torch.empty(3, device=device).__setitem__(0, 2.0)),
    "number": (0, lambda device: torch.ones(3, device=device) * torch.tensor(2.0)),
    "full": (0, lambda device: torch.full((3,), 0.5, device=device)),
    "other device": (0, lambda device: torch.ones(3, device=device).to(DEVICES[1])),
}


@pytest.mark.parametrize("name", UPLOADS)
def test_every_upload_is_counted_once_and_placed(name: str) -> None:
    expected, call = UPLOADS[name]
    with watch() as log:
        call(DEVICES[0])
    assert len(log.uploads) == expected
    assert log.syncs == []
    assert {Path(note.place.rpartition(":")[0]) for note in log.uploads} <= {Path(__file__)}


def test_the_line_is_named() -> None:
    x = torch.ones(2, device=DEVICES[0])
    with watch() as log:
        for _ in range(3):
            x[0].item()
    line = test_the_line_is_named.__code__.co_firstlineno + 4
    assert log.offenders() == {("item", f"{__file__}:{line}"): 3}


def test_operators_are_counted_while_watched() -> None:
    x = torch.ones(2, device=DEVICES[0])
    with watch() as outer:
        x.exp()
        with watch() as inner:
            x.exp().exp_()
    x.exp()
    assert outer.ops == {"aten::exp": 3}
    assert inner.ops == {"aten::exp": 2}


def test_waits_of_a_backward_pass_are_placed_in_the_function_that_waits() -> None:
    class Waits(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, *gradients: Tensor) -> Tensor:
            return gradients[0] * gradients[0][0].item()

    result = Waits.apply(torch.ones(2, device=DEVICES[1], requires_grad=True)).sum()
    with watch() as log:
        result.backward()
    assert [note.kind for note in log.syncs] == ["item"]
    assert log.syncs[0].place.startswith(__file__)


@on_both
def test_memory_is_that_of_living_tensors(device: str) -> None:
    gc.collect()
    module = imaginary_accel.torch_module()
    before = module.memory_allocated(device)
    module.reset_peak_memory_stats(device)
    x = torch.zeros(1000, device=device)
    assert module.memory_allocated(device) == before + 4000
    view = x[10:20].reshape(2, 5).T
    same = x.add_(1)
    assert module.memory_allocated(device) == before + 4000
    y = x * 2
    assert module.memory_allocated(device) == before + 8000
    del y
    assert module.memory_allocated(device) == before + 4000
    del x, same
    assert module.memory_allocated(device) == before + 4000, "the view holds it"
    del view
    assert module.memory_allocated(device) == before
    assert module.max_memory_allocated(device) == before + 8000
    assert module.mem_get_info(device) == ((8 << 30) - before, 8 << 30)


@on_both
def test_memory_kept_for_a_backward_pass_counts(device: str) -> None:
    module = imaginary_accel.torch_module()
    leaf = torch.ones(1000, device=device, requires_grad=True)
    before = module.memory_allocated(device)
    result = leaf.exp().exp()
    assert module.memory_allocated(device) == before + 8000
    result.sum().backward()
    del result
    assert module.memory_allocated(device) == before + 4000, "the gradient"


def test_devices_have_memory_of_their_own() -> None:
    module = imaginary_accel.torch_module()
    before = module.memory_allocated(0), module.memory_allocated(1)
    kept = torch.zeros(10, device=DEVICES[1])
    assert (module.memory_allocated(0), module.memory_allocated(1)) == (before[0], before[1] + 40)
    assert kept.device.index == 1


def test_a_device_without_number_is_the_current_one() -> None:
    module = imaginary_accel.torch_module()
    assert torch.ones(1, device="imaginary").device.index == 0
    with module.device(1):
        assert module.current_device() == torch.accelerator.current_device_index() == 1
        assert torch.ones(1, device="imaginary").device.index == 1
    assert module.current_device() == 0


def test_torch_accelerator_answers() -> None:
    kept = torch.zeros(10, device=DEVICES[0])
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("imaginary")
    assert torch.accelerator.device_count() == 2
    torch.accelerator.synchronize()
    assert torch.accelerator.memory_allocated(0) == imaginary_accel.torch_module().memory_allocated(0) >= kept.nbytes
    assert torch.accelerator.max_memory_allocated(0) >= torch.accelerator.memory_allocated(0)
    torch.accelerator.set_device_index(1)
    assert torch.accelerator.current_device_index() == 1
    torch.accelerator.set_device_index(0)


def test_what_torch_does_with_the_cpu_stays_as_it_was() -> None:
    assert not torch.cuda.is_available()
    pinned = torch.ones(2).pin_memory()
    assert pinned.tolist() == [1, 1]
    leaf = torch.ones(2, requires_grad=True)
    leaf.sum().backward()
    assert leaf.grad is not None
