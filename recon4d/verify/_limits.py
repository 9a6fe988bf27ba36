"""How far a device may be off, and why so far."""

from __future__ import annotations

from dataclasses import dataclass

IMAGE_MEAN, IMAGE_P999 = 1e-5, 1e-4
"""Of the absolute error of colour and alpha (1) and of depth (metres): the limits that backends are tested with.
float32 stays ten times below."""
GRADIENT = 1e-4
"""Relative L2. float32 stays ten times below where thin pixels are left out."""
LOSS_FACTOR = 10.0
"""Median relative difference of the losses of the first steps, over that of CPU runs begun 1e-6 beside."""
LOSS_FLOOR = 2.0**-23
"""What a float32 loss resolves: a smaller difference of the controls is chance."""
PSNR_DB = 0.1
"""Difference after the training, or the spread of the controls where that is larger."""
OPERATOR = 1e-5
"""Relative L2 of an operator's result, and of its gradient, to the CPU's; sums may run in another order."""


@dataclass(frozen=True)
class Relaxed:
    """Limits of a backend that is known to differ."""

    image_mean: float = IMAGE_MEAN
    image_p999: float = IMAGE_P999
    gradient: float = GRADIENT
    reason: str = ""


def limits(backend: str, scene: str) -> Relaxed:
    """The limits of a backend on a scene; with a reason where they are not the usual ones."""
    return _RELAXED.get((backend, scene), Relaxed())


_RELAXED = {
    ("gsplat", "translucent"): Relaxed(
        gradient=5e-4, reason="gsplat takes fast exponentials, and determinants as differences of float32 products"
    ),
    ("gsplat", "opaque"): Relaxed(
        image_mean=5e-3, image_p999=2e-2, gradient=0.2, reason="gsplat 1.6 clamps alpha at 0.99, where 0.999 is meant"
    ),
}
