"""Adam by rows: only Gaussians that the step has seen move."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from recon4d.model import _kernels


class RowAdam:
    """Adam (Kingma and Ba 2015) with moments and a step count of its own for every row.

    A Gaussian that is not alive or not in view has no gradient. Plain Adam would go on moving it by its old
    momentum and would fade its moments; here it rests, and its bias correction counts its own steps only.

    Args:
        params: [N, D] float32, changed in place by ``step``.
        betas: decay of the first and second moments, each in [0, 1).
        eps: added to the root of the second moment.
        backend: "auto" takes the compiled kernel on the CPU, "torch" forces PyTorch.

    Raises:
        ValueError: a decay is out of range.
    """

    def __init__(
        self,
        params: Tensor,
        betas: tuple[float, float] = (0.9, 0.99),
        eps: float = 1e-15,
        *,
        backend: Literal["auto", "torch"] = "auto",
    ) -> None:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must lie in [0, 1); they are {betas}")
        self.params = params
        self.betas = betas
        self.eps = eps
        self.backend: Literal["auto", "torch"] = backend
        n, width = params.shape
        self.moments = params.new_zeros(n, 2, width)
        self.steps = torch.zeros(n, dtype=torch.int32, device=params.device)
        self._correction = _correction(betas).to(params.device)

    def step(self, rows: Tensor, gradient: Tensor, lr_static: Tensor, lr_dynamic: Tensor, n_static: int) -> None:
        """Moves the rows whose gradient is not all zero.

        Args:
            rows: [n] int64, each row at most once.
            gradient: [n, D] of the raw parameters.
            lr_static: [D] learning rates of rows below ``n_static``, by column (see ``Layout.vector``).
            lr_dynamic: [D] of the others.
            n_static: where dynamic rows begin.
        """
        if gradient.shape != (len(rows), self.params.shape[1]):
            raise ValueError(
                f"the gradient must be [{len(rows)}, {self.params.shape[1]}]; it is {list(gradient.shape)}"
            )
        if self.backend == "auto" and self.params.device.type == "cpu":
            self._step_compiled(rows, gradient, lr_static, lr_dynamic, n_static)
        else:
            self._step_eager(rows, gradient, lr_static, lr_dynamic, n_static)

    def state_dict(self) -> dict[str, Tensor]:
        """The per-row state by name, not copied."""
        return {"moments": self.moments, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Copies a state of the same shape.

        Raises:
            ValueError: a tensor is missing, or of another shape.
        """
        for name, own in self.state_dict().items():
            if name not in state or state[name].shape != own.shape:
                found = list(state[name].shape) if name in state else "absent"
                raise ValueError(f"optimizer state '{name}' must be {list(own.shape)}; it is {found}")
        for name, own in self.state_dict().items():
            own.copy_(state[name])

    def _step_compiled(
        self, rows: Tensor, gradient: Tensor, lr_static: Tensor, lr_dynamic: Tensor, n_static: int
    ) -> None:
        state: tuple[Any, ...] = tuple(tensor.numpy() for tensor in self.state_dict().values())
        beta1, beta2 = self.betas
        constants = np.array([beta1, 1 - beta1, beta2, 1 - beta2, self.eps], np.float32)
        settings = (n_static, constants, self._correction.numpy())
        rates = (lr_static.float().contiguous().numpy(), lr_dynamic.float().contiguous().numpy())
        params = self.params.detach().numpy()
        _kernels.adam(params, state, rows.numpy(), gradient.contiguous().numpy(), rates, settings)

    @torch.no_grad()
    def _step_eager(self, rows: Tensor, gradient: Tensor, lr_static: Tensor, lr_dynamic: Tensor, n_static: int) -> None:
        beta1, beta2 = self.betas
        # Masks, not selections: a shape that depends on the data would make the host wait for it.
        touched = (gradient != 0).any(1)
        moved = touched[:, None]
        steps = self.steps[rows] + touched
        correction = self._correction[(steps.long() - 1).clamp(0, len(self._correction) - 1)]
        params, moments = self.params[rows], self.moments[rows]
        first = torch.where(moved, beta1 * moments[:, 0] + (1 - beta1) * gradient, moments[:, 0])
        second = torch.where(moved, beta2 * moments[:, 1] + (1 - beta2) * gradient**2, moments[:, 1])
        rate = torch.where((rows < n_static)[:, None], lr_static.to(params), lr_dynamic.to(params))
        change = rate * first * correction[:, :1] / (second.sqrt() * correction[:, 1:] + self.eps)
        self.steps.index_copy_(0, rows, steps)
        self.moments.index_copy_(0, rows, torch.stack([first, second], 1))
        self.params.index_copy_(0, rows, torch.where(moved, params - change, params))


def _correction(betas: tuple[float, float]) -> Tensor:
    """[T, 2]: at step s, row s - 1 holds 1 / (1 - beta1^s) and 1 / sqrt(1 - beta2^s); later steps need none."""
    slowest = max(*betas, 0.5)
    steps = np.arange(1, math.ceil(math.log(2.0**-26) / math.log(slowest)) + 1)
    table = np.stack([1 / (1 - betas[0] ** steps), 1 / np.sqrt(1 - betas[1] ** steps)], 1)
    return torch.from_numpy(table.astype(np.float32))
