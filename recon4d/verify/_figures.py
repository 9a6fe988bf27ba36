"""What is told and not judged: speed, idle time, memory, waits."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch

from recon4d.accelerators import Device
from recon4d.loss import LossTerms, image_loss
from recon4d.model import Gaussians4D, RowAdam, Slice, view_vector
from recon4d.raster import make_plans, rasterize, survey
from recon4d.types import Cameras
from recon4d.verify import _scenes, _training
from recon4d.verify._report import Finding

_TRIALS = 7
_BURST_SIZES = (512, 1024, 2048, 4096, 8192)
_BURST_S = 2e-3
"""What one product of the burst should take: much longer than it takes to ask for it."""
_TINY = "a small scene, where launches count for more than arithmetic: no measure of speed on large ones"


def speeds(comparison: _training.Comparison, *, seed: int, steps: int) -> Iterator[Finding]:
    """Steps a second of the training on the device, and of the same on the CPU by its own backend."""
    device = comparison.device.steps_per_s
    cpu = _training.speed(torch.device("cpu"), "cpu", seed=seed, steps=steps)
    yield _told("steps a second", device, _TINY)
    yield _told("steps a second on this CPU", cpu, f"backend cpu, {torch.get_num_threads()} thread of PyTorch")
    yield _told("speed over this CPU's", device / cpu, "ratio of the two")


def start_memory(device: Device) -> None:
    """From here on the peak of memory is counted, where the device can."""
    module = _module(device)
    if module is not None and hasattr(module, "reset_peak_memory_stats"):
        module.reset_peak_memory_stats(torch.device(device.torch_device))


def peak_memory(device: Device) -> Finding:
    """Peak of memory since ``start_memory``, MiB."""
    module, name = _module(device), "peak memory of the training, MiB"
    if module is None or not hasattr(module, "max_memory_allocated"):
        return _told(name, None, "torch's module of the device does not count it")
    return _told(name, module.max_memory_allocated(torch.device(device.torch_device)) / 2**20, "")


def waits(device: Device, backend: str, seed: int) -> Finding:
    """How often the host waits for the device in a step whose sizes are known."""
    name, module = "waits for the device in a step", _module(device)
    if module is None or not hasattr(module, "set_sync_debug_mode"):
        return _told(name, None, "torch's module of the device has no set_sync_debug_mode")
    step = _planned_step(torch.device(device.torch_device), backend, seed)
    step()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        module.set_sync_debug_mode("warn")
        try:
            step()
        finally:
            module.set_sync_debug_mode("default")
    return _told(name, float(sum("synchroniz" in str(warning.message) for warning in said)), "")


def idle(device: Device, backend: str, seed: int) -> Finding:
    """Share of a step in which the device has nothing to do, estimated.

    A step is timed as it is, and again behind a burst of matrix products that keeps the device busy while the host asks
    for all of the step: behind it the step takes only what the device computes.
    """
    name, place = "idle share of the device in a step", torch.device(device.torch_device)
    if place.type == "cpu":
        return _told(name, None, "the CPU has done what it was given when a call returns")
    sync = lambda: device.accelerator.synchronize(device.index)  # noqa: E731
    burst, reason = _burst(place, sync)
    if burst is None:
        return _told(name, None, reason)
    fill, step = burst, _planned_step(place, backend, seed)
    step()
    alone = median(_timed(step, sync) for _ in range(_TRIALS))
    products = math.ceil(1.5 * alone / _BURST_S) + 1
    busy = median(_timed(lambda: fill(products), sync) for _ in range(_TRIALS))

    def behind() -> None:
        fill(products)
        step()

    work = max(0.0, median(_timed(behind, sync) for _ in range(_TRIALS)) - busy)
    detail = f"estimate: {1e3 * alone:.2f} ms a step, {1e3 * work:.2f} ms of it behind a queue kept full"
    return _told(name, min(1.0, max(0.0, 1 - work / alone)), detail)


def _burst(place: torch.device, sync: Callable[[], None]) -> tuple[Callable[[int], None] | None, str]:
    """Something long to ask for; None, and why, where asking takes as long as doing."""
    product = total = asked = None
    for size in _BURST_SIZES:
        a = torch.full((size, size), 1e-3, device=place)
        out = torch.empty_like(a)
        product = lambda a=a, out=out: torch.mm(a, a, out=out)  # noqa: E731
        _timed(product, sync)
        begun = time.perf_counter()
        product()
        asked = time.perf_counter() - begun
        sync()
        total = time.perf_counter() - begun
        if total >= _BURST_S:
            break
    assert product is not None
    assert total is not None
    assert asked is not None
    if asked > 0.5 * total:
        return None, "an operation returns when it is done: there is no queue that could run empty"
    chosen = product

    def burst(count: int) -> None:
        for _ in range(count):
            chosen()

    return burst, ""


def _timed(work: Callable[[], object], sync: Callable[[], None]) -> float:
    sync()
    begun = time.perf_counter()
    work()
    sync()
    return time.perf_counter() - begun


def _planned_step(device: torch.device, backend: str, seed: int) -> Callable[[], None]:
    """A step of training on one view, with all sizes fixed ahead as in a round."""
    model: Gaussians4D = _scenes.cloud(seed).to(device)
    camera, t = _scenes.off_centre(), _scenes.INSTANT_S
    cameras, view = Cameras.of(camera, device=device), torch.from_numpy(view_vector(camera)).float().to(device)
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 256, (camera.height, camera.width, 3), generator=generator, dtype=torch.uint8).to(device)
    rates = model.layout.vector(mean=1e-6, sh_dc=1e-6).to(device)
    optimizer, background, room = RowAdam(model.params), torch.zeros(3, device=device), len(model)
    planned = device.type != "cpu"

    def look() -> Slice:
        return model.slice(t, view=view, room=room) if planned else model.slice(t, camera)

    with torch.no_grad():
        counts = survey(look().splats, cameras, backend=backend)
    plans = None if counts is None or not planned else make_plans(list(counts.cpu().numpy()), 1.25, device)

    def step() -> None:
        part = look()
        drawn = rasterize(part.splats, cameras, background=background, backend=backend, outputs=("rgb",), plans=plans)
        assert drawn.rgb is not None
        image_loss(drawn.rgb[0], target, terms=LossTerms(l1=0.8, ssim=0.2, l2=10.0)).backward()
        optimizer.step(part.rows, part.gradient(), rates, rates, model.n_static)

    return step


def _module(device: Device) -> Any:  # Vendors' modules share names, not a type.
    try:
        return device.accelerator.torch_module()
    except ImportError:
        return None


def _told(name: str, value: float | None, detail: str) -> Finding:
    return Finding(part="figures", name=name, passed=None, value=value, detail=detail)
