"""The training loss with its gradient against the usual eager one: pytorch-msssim's SSIM and an L1, by autograd.

Run ``python tests/benchmarks/loss.py``; needs the extra ``bench``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from pytorch_msssim import ssim as peer_ssim

from recon4d.loss import LossTerms, image_loss

ROUNDS = 15


def rows() -> list[dict[str, str | float]]:
    """Milliseconds for 0.8 L1 + 0.2 (1 - SSIM), forward and backward, at 640x480; medians of interleaved runs."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, 256, (480, 640, 3), dtype=torch.uint8, generator=generator)
    rendered = torch.rand(480, 640, 3, generator=generator).requires_grad_()

    def ours() -> None:
        rendered.grad = None
        image_loss(rendered, target, terms=LossTerms(l1=0.8, ssim=0.2)).backward()

    def eager() -> None:
        rendered.grad = None
        real = target.float() / 255
        similarity = peer_ssim(
            rendered.permute(2, 0, 1)[None], real.permute(2, 0, 1)[None], data_range=1.0, size_average=True
        )
        (0.8 * (rendered - real).abs().mean() + 0.2 * (1 - similarity)).backward()

    taken: dict[Callable[[], None], list[float]] = {ours: [], eager: []}
    for run in (ours, eager) * 2:
        run()  # Compiles, and fills the caches.
    for _ in range(ROUNDS):
        for run, times in taken.items():
            start = time.perf_counter()
            run()
            times.append(1e3 * (time.perf_counter() - start))
    ours_ms, peer_ms = (statistics.median(times) for times in taken.values())
    return [
        {
            "name": "loss_fused_vs_eager",
            "ours_ms": round(ours_ms, 3),
            "peer": "pytorch-msssim + L1",
            "peer_ms": round(peer_ms, 3),
            "ratio": round(peer_ms / ours_ms, 2),
        }
    ]


if __name__ == "__main__":
    for row in rows():
        print(f"{row['name']}: {row['ours_ms']} ms, {row['peer']} {row['peer_ms']} ms, {row['ratio']}x")
