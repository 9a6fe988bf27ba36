"""Every kind of operation that a step of training needs, on the device beside the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from recon4d.verify._limits import OPERATOR
from recon4d.verify._report import Operator, State

Inputs = Mapping[str, Tensor]
_FALLBACK = ("fall back", "falls back", "fallback", "falling back")
"""What devices say in a warning when they hand an operator to the CPU: MPS and Ascend do."""
_MISSING = ("could not run", "not implemented", "no kernel", "has no such operator", "not supported", "unsupported")


@dataclass(frozen=True)
class Case:
    """An operation, and what only some backends need it for."""

    run: Callable[[Inputs], Tensor]
    """A function of the inputs, on their device; differentiable in ``x`` where its result is floating."""
    lists: bool = False
    """Whether only the ``torch`` rasterizer needs it."""


def inputs() -> dict[str, Tensor]:
    """Small tensors of every type that a step has, on the CPU. ``x`` is the one that gradients are taken of."""
    generator = torch.Generator().manual_seed(11)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    return {
        "x": normal(12, 8),
        "y": normal(12, 8),
        "batch": normal(3, 4, 5),
        "positive": normal(12, 8).exp(),
        "image": torch.rand(1, 1, 20, 24, generator=generator),
        "bytes": torch.randint(0, 256, (20, 24, 3), generator=generator, dtype=torch.uint8),
        "index": torch.tensor([3, 0, 3, 11, 7]),
        "order": torch.tensor([4, 2, 0, 3, 1]),
        "ints": torch.randint(0, 9, (40,), generator=generator),
        "edges": torch.cumsum(torch.randint(0, 4, (30,), generator=generator), 0),
    }


CASES: dict[str, Case] = {
    "add, sub, mul, div": Case(lambda i: (i["x"] + i["y"]) * i["x"] / i["positive"] - i["y"]),
    "exp": Case(lambda i: i["x"].exp()),
    "exp, far below": Case(lambda i: (i["x"] - 80.0).exp() * 1e30),
    "log": Case(lambda i: (i["x"].abs() + 0.1).log()),
    "sqrt": Case(lambda i: (i["x"].square() + 0.1).sqrt()),
    "sigmoid": Case(lambda i: i["x"].sigmoid()),
    "abs, sign": Case(lambda i: i["x"].abs() * i["y"].sign()),
    "clamp": Case(lambda i: i["x"].clamp(-0.5, 0.7).clamp_min(-0.2) + i["x"].clamp_max(0.1)),
    "ceil, floor": Case(lambda i: i["x"].ceil() + i["y"].floor()),
    "maximum, minimum": Case(lambda i: torch.maximum(i["x"], i["y"]) - torch.minimum(i["x"], i["positive"])),
    "addcmul": Case(lambda i: torch.addcmul(i["x"], i["y"], i["positive"]), lists=True),
    "where": Case(lambda i: torch.where(i["y"] > 0, i["x"], 0.5 * i["y"])),
    "threshold": Case(lambda i: torch.nn.functional.threshold(i["x"], 0.1, 0.0), lists=True),
    "comparisons, all, any": Case(lambda i: torch.stack([(i["x"] > -9).all(1), (i["x"] >= i["y"]).any(1)]).long()),
    "isfinite": Case(lambda i: torch.isfinite(1 / (i["x"].sign() + 1)).long()),
    "sum, mean": Case(lambda i: i["x"].sum(0) + i["x"].mean()),
    "amax, amin": Case(lambda i: i["x"].amax(1) - i["x"].amin(1)),
    "norm": Case(lambda i: torch.nn.functional.normalize(i["x"], dim=1)),
    "cumsum": Case(lambda i: i["x"].cumsum(1)),
    "cumsum of int64": Case(lambda i: i["ints"].cumsum(0), lists=True),
    "cumprod": Case(lambda i: torch.cumprod(i["x"].sigmoid().detach(), 1), lists=True),
    "linalg.cross": Case(lambda i: torch.linalg.cross(i["x"][:, :3], i["y"][:, :3]), lists=True),
    "matmul": Case(lambda i: i["x"] @ i["y"].T),
    "mv": Case(lambda i: i["x"] @ i["y"][0]),
    "mm into a given tensor": Case(lambda i: _mm_out(i["x"].detach(), i["y"]), lists=True),
    "bmm": Case(lambda i: torch.bmm(i["x"].reshape(3, 8, 4), i["batch"]), lists=True),
    "baddbmm": Case(lambda i: torch.baddbmm(i["batch"], i["x"][:, :4].reshape(3, 4, 4), i["batch"]), lists=True),
    "conv2d": Case(lambda i: torch.nn.functional.conv2d(i["image"], i["x"][:1, :7].view(1, 1, 1, 7), padding=(0, 3))),
    "conv2d of an image": Case(
        lambda i: torch.nn.functional.conv2d(i["x"].view(1, 1, 12, 8), i["image"][..., :5, :1], padding=(2, 0))
    ),
    "cat, stack": Case(lambda i: torch.cat([torch.stack([i["x"], i["y"]], -1).flatten(1), i["y"]], 1)),
    "unbind, split": Case(lambda i: i["x"].unbind(1)[2] + i["x"].split([3, 5], 1)[1][:, 4]),
    "permute, reshape, contiguous": Case(lambda i: i["x"].reshape(3, 4, 8).permute(2, 0, 1).contiguous().flatten(1)),
    "slices written": Case(lambda i: _write(i["x"])),
    "index": Case(lambda i: i["x"][i["index"]] * i["y"][i["index"], i["order"]][:, None]),
    "index_select": Case(lambda i: i["x"].index_select(0, i["index"])),
    "index_add": Case(lambda i: torch.zeros_like(i["x"]).index_add(0, i["index"], i["x"][:5]), lists=True),
    "index_add of int64": Case(lambda i: torch.zeros_like(i["ints"]).index_add(0, i["index"], i["order"]), lists=True),
    "index_copy": Case(lambda i: i["y"].clone().index_copy(0, i["order"], i["x"][:5])),
    "nonzero": Case(lambda i: (i["ints"] > 4).nonzero().squeeze(1)),
    "sort": Case(lambda i: torch.sort(i["x"], dim=0, stable=True).values),
    "sort of int64, stable": Case(lambda i: torch.sort(i["ints"], stable=True).indices),
    "sort, falling": Case(lambda i: torch.sort(i["ints"], descending=True, stable=True).indices, lists=True),
    "argsort": Case(lambda i: torch.argsort(i["order"]), lists=True),
    "searchsorted": Case(lambda i: torch.searchsorted(i["edges"], i["ints"], right=True), lists=True),
    "int64 arithmetic": Case(lambda i: (i["ints"] * 1_000_003 + 2**40) % 977 - i["ints"], lists=True),
    "int64 division": Case(lambda i: torch.div(i["edges"], 8, rounding_mode="floor") + i["edges"] % 8, lists=True),
    "float to int64": Case(lambda i: (i["positive"] * 10).floor().long(), lists=True),
    "uint8 to float": Case(lambda i: i["bytes"].to(i["x"].dtype) / 255),
    "arange, zeros, ones, full": Case(lambda i: _made(i["x"])),
}


def coverage(device: torch.device, *, lists: bool) -> list[Operator]:
    """Runs every case on the device and on the CPU.

    Args:
        lists: whether the backend needs what only the ``torch`` rasterizer needs.
    """
    return [_look(name, case, device, needed=lists or not case.lists) for name, case in CASES.items()]


def _look(name: str, case: Case, device: torch.device, needed: bool) -> Operator:
    wanted = _results(case, torch.device("cpu"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = [value.cpu() for value in _results(case, device)]
        except Exception as error:  # noqa: BLE001 - devices raise what they like for what they lack.
            words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            missing = isinstance(error, NotImplementedError) or any(word in words.lower() for word in _MISSING)
            return Operator(name=name, needed=needed, state="missing" if missing else "wrong", detail=words)
    state, detail = _compare(found, wanted)
    fallen = [str(w.message) for w in said if any(word in str(w.message).lower() for word in _FALLBACK)]
    if state == "right" and fallen:
        state, detail = "falls back", " ".join(fallen[0].split())[:200]
    return Operator(name=name, needed=needed, state=state, detail=detail)


def _results(case: Case, device: torch.device) -> list[Tensor]:
    """The result, and where it is a function of ``x`` the gradient of a weighted sum."""
    there = {name: value.to(device) for name, value in inputs().items()}
    there["x"] = there["x"].requires_grad_()
    result = case.run(there)
    if not result.requires_grad:
        return [result.detach()]
    weights = torch.linspace(-1.0, 1.0, result.numel()).reshape(result.shape).to(device)
    return [result.detach(), *torch.autograd.grad((result * weights).sum(), [there["x"]])]


def _compare(found: list[Tensor], wanted: list[Tensor]) -> tuple[State, str]:
    for what, mine, theirs in zip(("result", "gradient"), found, wanted, strict=False):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return "wrong", f"its {what} is {mine.dtype} {list(mine.shape)}, not {theirs.dtype} {list(theirs.shape)}"
        if not mine.is_floating_point():
            if not torch.equal(mine, theirs):
                return "wrong", f"{int((mine != theirs).sum())} of {theirs.numel()} integers of its {what} differ"
            continue
        error = float((mine.double() - theirs.double()).norm() / theirs.double().norm().clamp_min(1e-30))
        if not error <= OPERATOR:
            return "wrong", f"its {what} differs by {error:.2g} of the CPU's, at most {OPERATOR:g} is allowed"
    return "right", ""


def _mm_out(a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a, b.T, out=a.new_empty(len(a), len(b)))


def _write(x: Tensor) -> Tensor:
    whole = x.new_zeros(12, 10)
    whole[:, 1:9] = x
    whole[2:5, 0] = 2.0
    return whole


def _made(x: Tensor) -> Tensor:
    parts = [torch.arange(4, device=x.device).to(x.dtype), torch.ones_like(x[0]), x.new_zeros(2)]
    return torch.cat([*parts, torch.full((3,), 0.5, device=x.device)])
