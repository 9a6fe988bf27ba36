"""The parts of a run, in order."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import torch

from recon4d import __version__
from recon4d.accelerators import Device, resolve
from recon4d.errors import BackendError
from recon4d.events import Finished, OnEvent, Progress, Started, ignore
from recon4d.raster import Missing, backends
from recon4d.verify import _figures, _gradients, _operators, _training
from recon4d.verify._report import Finding, Operator, Report


def verify(
    device: Device | str,
    *,
    backend: str = "auto",
    seed: int = 0,
    quick: bool = False,
    on_event: OnEvent = ignore,
) -> Report:
    """Finds out whether a device computes right. On two CPU cores it takes about a minute.

    What fails on the device, or is raised there, becomes a finding that failed and never an exception.

    Args:
        device: of an accelerator, or what :func:`recon4d.accelerators.resolve` takes.
        backend: a rasterizer; "auto" is the first of the accelerator's that can be used here.
        seed: of all scenes.
        quick: a training of 20 steps and not of 120.
        on_event: hears of the stages operators, images, training and figures.

    Raises:
        AcceleratorError: there is no such device.
        BackendError: the backend does not exist, or cannot be used on the device.
    """
    begun = time.monotonic()
    device = resolve(device) if isinstance(device, str) else device
    place = torch.device(device.torch_device)
    backend, reason = _backend(device, backend)
    steps = _training.QUICK_STEPS if quick else _training.STEPS
    operators: list[Operator] = []
    findings: list[Finding] = []
    with _one_thread():
        with _stage("operators", on_event):
            operators += _operators.coverage(place, lists=backend == "torch")
            findings.append(_coverage(operators))
        with _stage("images", on_event):
            findings += _guarded("images", lambda: _gradients.images_and_gradients(place, backend, seed))
            findings += _guarded("first step", lambda: _gradients.first_step(place, backend, seed))
        with _stage("training", on_event, steps):
            _figures.start_memory(device)
            comparison, raised = _compare(place, backend, seed, steps, on_event)
            findings += [raised] if comparison is None else _guarded("training", lambda: _training.judge(comparison))
        with _stage("figures", on_event):
            findings += _told(device, backend, seed, steps, comparison)
    return Report(
        device=device.name,
        facts=_facts(device, time.monotonic() - begun),
        backend=backend,
        reason=reason,
        findings=tuple(findings),
        operators=tuple(operators),
        reproduce=f"recon4d accelerators verify {device.name} --backend {backend}" + (" --quick" if quick else ""),
    )


def _backend(device: Device, wanted: str) -> tuple[str, str]:
    """The backend's name, and why it.

    Raises:
        BackendError: it does not exist, or cannot be used on the device; for "auto", none can.
    """
    there, kind = backends(), torch.device(device.torch_device).type
    skipped = []
    for name in device.accelerator.rasterizers if wanted == "auto" else (wanted,):
        row = there.get(name)
        if row is None:
            why = f"there is no such backend, but {', '.join(sorted(there))}"
        elif isinstance(row.status, Missing):
            why = row.status.reason
        elif not {"*", kind} & set(row.devices):
            why = f"it takes tensors on {', '.join(row.devices)}, these are on {kind}"
        elif wanted == "auto":
            before = f"; {'; '.join(skipped)}" if skipped else ""
            return name, f"the first of the accelerator's rasterizers that can be used{before}"
        else:
            return name, "as asked for"
        skipped.append(f"not {name}: {why}")
    raise BackendError(f"no rasterizer can be used on {device.name}; {'; '.join(skipped)}")


def _coverage(operators: list[Operator]) -> Finding:
    """One finding on all operators."""
    lacking = [operator for operator in operators if operator.needed and operator.state in ("missing", "wrong")]
    fallen = [operator.name for operator in operators if operator.state == "falls back"]
    needed = sum(operator.needed for operator in operators)
    told = [f"{operator.state}: {operator.name} ({operator.detail})" for operator in lacking]
    told += [f"on the CPU: {', '.join(fallen)}"] if fallen else []
    value = f"{needed - len(lacking)} of {needed}"
    name = "operators that a step needs"
    return Finding(part="operators", name=name, passed=not lacking, value=value, detail="; ".join(told))


def _compare(
    place: torch.device, backend: str, seed: int, steps: int, on_event: OnEvent
) -> tuple[_training.Comparison | None, Finding]:
    """The trainings; None, and the finding that says so, where they did not come to an end."""

    def on_step(step: int) -> None:
        on_event(Progress(stage="training", step=step, total=steps))

    try:
        comparison = _training.compare(place, backend, seed=seed, steps=steps, on_step=on_step)
    except Exception as error:  # noqa: BLE001 - see _guarded.
        return None, _raised("training", error)
    return comparison, Finding(part="training", name="came to its end", passed=True, value="yes")


def _told(
    device: Device, backend: str, seed: int, steps: int, comparison: _training.Comparison | None
) -> list[Finding]:
    """Figures; one that cannot be had is told so, and fails nothing."""
    parts: list[Callable[[], Iterable[Finding]]] = [
        lambda: [_figures.peak_memory(device)],
        lambda: [_figures.waits(device, backend, seed)],
        lambda: [_figures.idle(device, backend, seed)],
    ]
    if comparison is not None:
        parts.insert(0, lambda: _figures.speeds(comparison, seed=seed, steps=steps))
    found: list[Finding] = []
    for part in parts:
        try:
            found += part()
        except Exception as error:  # noqa: BLE001 - see _guarded.
            words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            found.append(Finding(part="figures", name="a figure", passed=None, value=None, detail=words))
    return found


def _guarded(part: str, work: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """The part's findings; what it raises becomes the last of them."""
    found: list[Finding] = []
    try:
        found.extend(work())
    except Exception as error:  # noqa: BLE001 - drivers and foreign kernels raise what they like; the run must go on.
        found.append(_raised(part, error))
    return found


def _raised(part: str, error: Exception) -> Finding:
    words = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return Finding(part=part, name="came to its end", passed=False, value="no", detail=words)


@contextmanager
def _stage(name: str, on_event: OnEvent, total: int | None = None) -> Iterator[None]:
    begun = time.monotonic()
    on_event(Started(stage=name, total=total))
    yield
    on_event(Finished(stage=name, seconds=time.monotonic() - begun))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Tensors here are tiny: handing each operation to several threads costs more than it gains."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _facts(device: Device, seconds: float) -> dict[str, str]:
    """Names and versions."""
    runtime = [f"{kind.upper()} {value}" for kind in ("cuda", "hip") if (value := getattr(torch.version, kind, None))]
    plugins = [
        f"{name} {module.__version__}"
        for name, module in sorted(sys.modules.items())
        if name.startswith("torch_") and "." not in name and isinstance(getattr(module, "__version__", None), str)
    ]
    memory = device.memory
    facts = {
        "model": device.model,
        "vendor": device.accelerator.vendor,
        "device": f"{device.name}, torch's {device.torch_device}",
        "memory": "" if memory is None else f"{memory[1] / 2**30:.1f} GiB",
        "driver": device.driver or "",
        "torch": ", ".join([str(torch.__version__), *runtime, *plugins]),
        "recon4d": __version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": f"{seconds:.0f}",
    }
    return {name: value for name, value in facts.items() if value}
