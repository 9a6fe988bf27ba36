"""A short training on the device, beside the same on the CPU and beside CPU runs that begin a little elsewhere.

Two sound devices never agree to the last bit, and training makes more of it. How much more is seen on the CPU itself:
runs whose parameters begin a millionth beside show what rounding may do, and the device is held to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.train import FitConfig, JointConfig, View, rehearse
from recon4d.types import Cameras
from recon4d.verify import _limits, _scenes
from recon4d.verify._report import Finding

STEPS, QUICK_STEPS = 120, 20
_FIRST = 20
"""Steps whose losses are compared: later the runs go their own ways."""
_NUDGE = 1e-6
"""Relative change of the controls' first parameters."""
_CONTROLS = 3
_WARM_UP = 2
"""Steps before time is taken: kernels are compiled, memory is found."""
OnStep = Callable[[int], None]


@dataclass(frozen=True)
class Trained:
    """What a training came to."""

    losses: np.ndarray
    """[steps]."""
    psnr: float
    """Decibel over all pictures, drawn on the CPU, where scenes are kept."""
    moving_psnr: float
    """The same, of pixels that change over time."""
    rollbacks: int
    steps_per_s: float


@dataclass(frozen=True)
class Comparison:
    """The device's run and what it is held to."""

    device: Trained
    cpu: Trained
    controls: tuple[tuple[Trained, Trained], ...]
    """Runs on the CPU that begin a little elsewhere, each with the one that does not."""
    family: str
    """The backend of the CPU's run."""


def compare(device: torch.device, backend: str, *, seed: int, steps: int, on_step: OnStep) -> Comparison:
    """Trains on the device, and eight times on the CPU; those are kept for the next device of this process."""
    # Another program than the one that is judged, or a run on the CPU would be held to itself.
    family = "cpu" if device.type == "cpu" and backend == "torch" else "torch"
    mine = _train(device, backend, seed, steps, None, on_step)
    cpu = _trained("cpu", family, seed, steps, None)
    # Of both programs: one alone may by chance meet no threshold, where the smallest difference decides what is drawn.
    controls = tuple(
        (_trained("cpu", program, seed, steps, number), _trained("cpu", program, seed, steps, None))
        for program in ("torch", "cpu")
        for number in range(_CONTROLS)
    )
    return Comparison(mine, cpu, controls, family)


def judge(comparison: Comparison) -> Iterator[Finding]:
    """The verdict on a comparison."""
    mine, cpu, controls = comparison.device, comparison.cpu, comparison.controls
    first = min(_FIRST, len(cpu.losses))
    spread = max(_median_difference(*pair, first) for pair in controls)
    value = _median_difference(mine, cpu, first)
    limit = _limits.LOSS_FACTOR * max(spread, _limits.LOSS_FLOOR)
    told = f"to {comparison.family} on the CPU; CPU runs begun {_NUDGE:g} beside: {spread:.2g}"
    name = f"loss of the first {first} steps, median relative difference"
    yield Finding(part="training", name=name, passed=value <= limit, value=value, limit=limit, detail=told)
    for what, key in (("all", "psnr"), ("moving", "moving_psnr")):
        theirs = [getattr(control, key) for control, _ in controls]
        there, here = getattr(mine, key), getattr(cpu, key)
        limit, value = max(_limits.PSNR_DB, max(theirs) - min(theirs)), abs(there - here)
        told = f"device {there:.2f} dB, CPU {here:.2f} dB"
        name = f"PSNR of {what} pixels after {len(cpu.losses)} steps, difference in dB"
        yield Finding(part="training", name=name, passed=value <= limit, value=value, limit=limit, detail=told)
    name, told = "rounds made again", "numbers that were not finite"
    yield Finding(
        part="training", name=name, passed=mine.rollbacks == 0, value=float(mine.rollbacks), limit=0.0, detail=told
    )
    told = "not judged: curves look alike whatever is wrong"
    r = pearson(mine.losses, cpu.losses)
    yield Finding(part="training", name="Pearson r of the loss curves", passed=None, value=r, detail=told)


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation of two loss curves."""
    return float(np.corrcoef(a.astype(np.float64), b.astype(np.float64))[0, 1])


def views(lesson: _scenes.Lesson, device: torch.device) -> list[View]:
    """The pictures in the order in which they are looked at, on a device; one transfer brings them."""
    targets = lesson.targets.to(device)
    return [
        View(
            camera=lesson.cameras[i],
            time_s=lesson.times_s[i],
            target=targets[i],
            weight=None,
            pixels=_scenes.WIDTH * _scenes.HEIGHT,
        )
        for i in lesson.order
    ]


def speed(device: torch.device, backend: str, *, seed: int, steps: int) -> float:
    """Steps a second of the training, after a warm-up."""
    return _trained(str(device), backend, seed, steps, None).steps_per_s


@cache
def _trained(device: str, backend: str, seed: int, steps: int, control: int | None) -> Trained:
    return _train(torch.device(device), backend, seed, steps, control, lambda step: None)


@cache
def _lesson(seed: int) -> _scenes.Lesson:
    return _scenes.lesson(seed)


def _train(device: torch.device, backend: str, seed: int, steps: int, control: int | None, on_step: OnStep) -> Trained:
    """Trains the lesson; a control begins a little elsewhere."""
    lesson = _lesson(seed)
    params = lesson.start.params.clone()
    if control is not None:
        generator = torch.Generator().manual_seed(1000 * seed + control)
        params *= 1 + _NUDGE * torch.randn(params.shape, generator=generator)
    config = FitConfig(sh_degree=_scenes.DEGREE, backend=backend, joint=JointConfig(steps=steps))
    warm_up = FitConfig(sh_degree=_scenes.DEGREE, backend=backend, joint=JointConfig(steps=_WARM_UP))
    looked_at = views(lesson, device)
    rehearse(_model(params, lesson, device), looked_at, warm_up, distance_m=1.0)
    model = _model(params, lesson, device)
    done = rehearse(model, looked_at, config, distance_m=1.0, on_round=on_step)
    psnr, moving = _psnr(model.to("cpu"), lesson)
    return Trained(done.losses, psnr, moving, done.rollbacks, steps / done.seconds)


def _model(params: Tensor, lesson: _scenes.Lesson, device: torch.device) -> Gaussians4D:
    return Gaussians4D(params.clone().to(device), lesson.start.n_static, lesson.start.sh_degree)


def _psnr(model: Gaussians4D, lesson: _scenes.Lesson) -> tuple[float, float]:
    errors, pixels = np.zeros(2), np.zeros(2)
    with torch.no_grad():
        for i, camera in enumerate(lesson.cameras):
            splats = model.at(lesson.times_s[i])
            rgb = rasterize(splats, Cameras.of(camera), backend="cpu", outputs=("rgb",)).rgb
            assert rgb is not None
            squared = (rgb[0].clamp(0, 1) - lesson.targets[i].float() / 255).square().mean(-1)
            for k, part in enumerate((squared, squared[lesson.moving[i]])):
                errors[k], pixels[k] = errors[k] + float(part.sum()), pixels[k] + part.numel()
    whole, moving = (-10 * np.log10(errors / pixels + 1e-12)).tolist()
    return whole, moving


def _median_difference(a: Trained, b: Trained, first: int) -> float:
    mine, theirs = a.losses[:first].astype(np.float64), b.losses[:first].astype(np.float64)
    return float(np.median(np.abs(mine - theirs) / np.abs(theirs)))
