"""Which backend is the fastest on a device: found by trying, remembered in a file."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recon4d import __version__
from recon4d.errors import BackendError, OutputError
from recon4d.files import write_atomic
from recon4d.geometry import look_at
from recon4d.raster._api import rasterize
from recon4d.raster._registry import load
from recon4d.types import Camera, Cameras, Splats

_ALWAYS = ("torch", "host")
"""Candidates on any device."""
_COUNT, _WIDTH, _HEIGHT, _SEED = 20_000, 320, 240, 0
"""The scene of the trial: about a tabletop half way through its fit."""
_WARM_UP, _REPEATS, _ENOUGH_S = 2, 5, 2.0
"""Steps that are not timed, steps that are, and the seconds after which a slow backend is asked for no more."""
_FILE = "rasterizers.json"

_clock = time.perf_counter


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The backend for a device, and how it was found."""

    backend: str
    reason: str
    """A line for people."""
    milliseconds: dict[str, float]
    """Best time of one rendering with its gradients, by backend; those that could not be tried are left out."""
    skipped: dict[str, str]
    """Why a candidate was left out, by backend."""
    remembered: bool
    """Whether the figures are from an earlier trial."""


def choose(
    device: torch.device, *, preferred: Sequence[str], key: str, cache: Path | None = None, refresh: bool = False
) -> Choice:
    """Finds the fastest backend for a device, by drawing a scene of 20,000 splats at 320 x 240 with its gradients.

    Candidates are ``preferred``, then ``torch`` and ``host``; one that cannot be used here, or that fails on trial, is
    left out. What was found is remembered, so that later calls take no time; it is found anew when this package,
    PyTorch, or the candidates that can be used have changed. A file that is damaged or cannot be written is no error:
    the trial is then made again. On the CPU there is nothing to find, as ``cpu`` is made for it.

    A backend that compiles on first use does so here, which for ``gsplat`` can take minutes. The choice changes nothing
    by itself: see :func:`recon4d.raster.prefer`.

    Args:
        device: where splats and cameras will be.
        preferred: names of further backends to try, such as ("gsplat",); of equal ones the first is taken.
        key: what names the device among others, such as its model and driver: figures are remembered under it.
        cache: the folder to remember in; None is ``recon4d`` in the user's cache directory.
        refresh: try again whatever is remembered, as after a repair of something that had failed.

    Raises:
        BackendError: no candidate works on the device; says why for each.
    """
    if device.type == "cpu":
        reason = "cpu is compiled for CPU tensors; nothing was tried"
        return Choice(backend="cpu", reason=reason, milliseconds={}, skipped={}, remembered=False)
    known = None if refresh else remembered(device, preferred=preferred, key=key, cache=cache)
    if known is not None:
        return known
    case = _Case.of(device, preferred, key, cache)
    trial = _try(case.ready, device)
    if not trial.milliseconds:
        reasons = "; ".join(f"{candidate}: {reason}" for candidate, reason in (case.missing | trial.failed).items())
        raise BackendError(f"no rasterizer backend works on {device}. {reasons}. Move to the CPU, device='cpu'")
    _remember(case.path, case.name, trial)
    return _chosen(case, trial, remembered=False)


def remembered(device: torch.device, *, preferred: Sequence[str], key: str, cache: Path | None = None) -> Choice | None:
    """What :func:`choose` would say without a trial; None when it would have to try."""
    case = _Case.of(device, preferred, key, cache)
    trial = _recall(case.path, case.name, case.ready)
    return None if trial is None else _chosen(case, trial, remembered=True)


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A device to choose for, and where the choice is remembered."""

    device: torch.device
    ready: list[str]
    missing: dict[str, str]
    path: Path
    name: str

    @classmethod
    def of(cls, device: torch.device, preferred: Sequence[str], key: str, cache: Path | None) -> _Case:
        ready, missing = _ready(tuple(dict.fromkeys([*preferred, *_ALWAYS])), device)
        path = (_cache_folder() if cache is None else cache) / _FILE
        name = json.dumps([key, device.type, torch.__version__, __version__, ready])
        return cls(device=device, ready=ready, missing=missing, path=path, name=name)


@dataclass(frozen=True)
class _Trial:
    """What is remembered: best times in ms in the order of the candidates, and why others failed."""

    milliseconds: dict[str, float]
    failed: dict[str, str]


def _chosen(case: _Case, trial: _Trial, *, remembered: bool) -> Choice:
    backend = min(trial.milliseconds, key=trial.milliseconds.__getitem__)
    return Choice(
        backend=backend,
        reason=_reason(backend, trial.milliseconds, case.device),
        milliseconds=trial.milliseconds,
        skipped=case.missing | trial.failed,
        remembered=remembered,
    )


def _reason(backend: str, milliseconds: dict[str, float], device: torch.device) -> str:
    others = ", ".join(f"{name} {ms:.1f} ms" for name, ms in milliseconds.items() if name != backend)
    best = f"{backend} takes {milliseconds[backend]:.1f} ms for a rendering with gradients on {device.type}"
    return f"{best}, {others}" if others else f"{best}; no other candidate works there"


def _ready(candidates: tuple[str, ...], device: torch.device) -> tuple[list[str], dict[str, str]]:
    """The candidates that say they can be used here, and why the others cannot."""
    ready, missing = [], {}
    for name in candidates:
        try:
            load(name, device)
            ready.append(name)
        except BackendError as error:
            missing[name] = str(error)
    return ready, missing


def _try(candidates: list[str], device: torch.device) -> _Trial:
    trial = _Trial({}, {})
    for name in candidates:
        try:
            trial.milliseconds[name] = _milliseconds(name, device)
        except Exception as error:  # noqa: BLE001 - drivers and foreign kernels raise what they like; it is kept.
            trial.failed[name] = f"failed on trial: {type(error).__name__}: {error}"
    return trial


def _milliseconds(name: str, device: torch.device) -> float:
    """Best time of one rendering with gradients."""
    splats, cameras = _scene(device)
    for _ in range(_WARM_UP):
        _step(name, splats, cameras)
    times: list[float] = []
    while len(times) < _REPEATS and sum(times) < _ENOUGH_S:
        before = _clock()
        _step(name, splats, cameras)
        times.append(_clock() - before)
    return 1000 * min(times)


def _step(name: str, splats: Splats, cameras: Cameras) -> None:
    """One rendering with gradients, of which numbers are read back: the device has finished when this returns."""
    with torch.inference_mode(False), torch.enable_grad():
        leaves = {
            attribute: getattr(splats, attribute).detach().requires_grad_()
            for attribute in ("means", "quats", "scales", "opacities", "sh")
        }
        rgb = rasterize(Splats(**leaves), cameras, backend=name, outputs=("rgb",)).rgb
        assert rgb is not None
        gradients = torch.autograd.grad(rgb.square().mean(), list(leaves.values()))
        total = float(torch.stack([rgb.detach().sum(), *(gradient.sum() for gradient in gradients)]).sum())
    if not math.isfinite(total):
        raise BackendError(f"backend '{name}' drew an image or gradients that are not finite")


def _scene(device: torch.device) -> tuple[Splats, Cameras]:
    """The same splats and camera on every device: a cloud of small splats in most of the image."""
    rng = np.random.default_rng(_SEED)

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32).to(device)

    with torch.inference_mode(False):
        splats = Splats(
            means=tensor(rng.uniform(-0.6, 0.6, (_COUNT, 3))),
            quats=tensor(rng.normal(size=(_COUNT, 4))),
            scales=tensor(0.01 * np.exp(rng.normal(0.0, 0.5, (_COUNT, 3)))),
            opacities=tensor(rng.uniform(0.1, 1.0, _COUNT)),
            sh=tensor(rng.normal(0.0, 0.3, (_COUNT, 4, 3))),
        )
        K = np.array([[0.9 * _WIDTH, 0.0, _WIDTH / 2], [0.0, 0.9 * _WIDTH, _HEIGHT / 2], [0.0, 0.0, 1.0]])
        pose = look_at(np.array([0.3, -1.7, 0.9]), np.zeros(3))
        camera = Camera(name="trial", width=_WIDTH, height=_HEIGHT, K=K, T_cam_world=pose)
        return splats, Cameras.of(camera, device=device)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "recon4d"


def _entries(path: Path) -> dict[str, Any]:
    """All that is remembered, by name; nothing where there is no such file or it is damaged."""
    try:
        entries = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _recall(path: Path, name: str, ready: list[str]) -> _Trial | None:
    """The trial remembered under the name; None where there is none, or none that makes sense."""
    entry = _entries(path).get(name, {})
    try:
        times = {str(k): float(v) for k, v in entry["milliseconds"].items()}
        failed = {str(k): str(v) for k, v in entry["failed"].items()}
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    whole = times and set(times) | set(failed) == set(ready) and all(0 <= t < math.inf for t in times.values())
    # In the order of the candidates, whatever that of the file.
    return _Trial({k: times[k] for k in ready if k in times}, failed) if whole else None


def _remember(path: Path, name: str, trial: _Trial) -> None:
    try:
        write_atomic(path, json.dumps({**_entries(path), name: asdict(trial)}, indent=1))
    except OutputError:
        return  # It is found again next time.
