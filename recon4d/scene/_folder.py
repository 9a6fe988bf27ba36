"""Saving and loading a scene folder."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as decode
from safetensors.torch import save as encode
from torch import Tensor

from recon4d.errors import SceneError
from recon4d.files import write_atomic
from recon4d.scene import _manifest
from recon4d.types import DynamicPool, Scene4D, StaticPool

MANIFEST = "scene.json"
TENSOR_FILES = ("scene.safetensors", "scene.2.safetensors")
"""The tensors go to the one that the present manifest does not name. So the manifest's replacement is the single
moment at which a new scene takes the place of an old one, and a crash at any other moment leaves the old one whole."""

_VECTOR_WIDTHS = {"means": 3, "quats": 4, "scales": 3, "velocities": 3}
"""Columns of the pools' tensors that are matrices; ``sh`` is [N, K, 3] and all others are [N]."""


def save(scene: Scene4D, path: Path | str) -> Path:
    """Saves a scene to a folder, which is created; a scene that is there already is replaced.

    Args:
        scene: the scene; its tensors may live on any device.
        path: the folder.

    Returns:
        The folder.

    Raises:
        SceneError: a tensor is not finite, or the configuration has no JSON form.
        OutputError: the folder cannot be written; a scene that it held before is unchanged.
    """
    path = Path(path)
    tensors = {name: value.detach().to("cpu", torch.float32).contiguous() for name, value in _tensors(scene).items()}
    _check_finite(tensors, "the scene to save")
    data = encode(tensors)
    present = _present_tensor_file(path)
    name = next(file for file in TENSOR_FILES if file != present)
    manifest = _manifest.dump(_manifest.describe(scene, tensor_file=name, sha256=hashlib.sha256(data).hexdigest()))
    write_atomic(path / name, data)
    write_atomic(path / MANIFEST, manifest)
    if present in TENSOR_FILES:
        (path / present).unlink(missing_ok=True)
    return path


def load(path: Path | str) -> Scene4D:
    """Loads a scene that ``save`` wrote, of this or an older version. Tensors are float32 on the CPU.

    Raises:
        SceneError: the folder holds no scene, one of a newer version, or a damaged one; says what to do.
    """
    path = Path(path)
    manifest = _manifest.read(path / MANIFEST)
    tensors = _read_tensors(path, manifest)
    manifest, tensors = _manifest.migrate(manifest, tensors)
    _check_tensors(manifest, tensors, path)
    static = StaticPool(**{field.name: tensors[f"static.{field.name}"] for field in fields(StaticPool)})
    dynamic = DynamicPool(**{field.name: tensors[f"dynamic.{field.name}"] for field in fields(DynamicPool)})
    return _manifest.build(manifest, static, dynamic, path / MANIFEST)


def _tensors(scene: Scene4D) -> dict[str, Tensor]:
    pools = {"static": scene.static, "dynamic": scene.dynamic}
    return {f"{name}.{field.name}": getattr(pool, field.name) for name, pool in pools.items() for field in fields(pool)}


def _present_tensor_file(path: Path) -> str | None:
    """The tensor file that the folder's manifest names; None where there is no scene that could be loaded."""
    if not (path / MANIFEST).exists():
        return None
    try:
        return _manifest.read(path / MANIFEST)["tensors"]["file"]
    except (SceneError, KeyError, TypeError):
        return None  # Not a scene of ours to keep: it is being replaced on the caller's request.


def _read_tensors(path: Path, manifest: dict[str, Any]) -> dict[str, Tensor]:
    entry = manifest.get("tensors")
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("file"), str)
        or not isinstance(entry.get("sha256"), str)
    ):
        raise SceneError(f"{path / MANIFEST}: 'tensors' must name a file and its sha256; it is {entry!r}")
    if Path(entry["file"]).name != entry["file"]:
        raise SceneError(f"{path / MANIFEST}: the tensor file must lie beside it; it is {entry['file']!r}")
    file = path / entry["file"]
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SceneError(f"{file} cannot be read: {error.strerror}; copy the whole folder again") from error
    found = hashlib.sha256(data).hexdigest()
    if found != entry["sha256"]:
        raise SceneError(
            f"{file} is not the file that {MANIFEST} describes: its SHA-256 is {found[:12]}…, not"
            f" {entry['sha256'][:12]}…; it was cut short or exchanged, copy the whole folder again"
        )
    try:
        return decode(data)
    except SafetensorError as error:
        raise SceneError(f"{file} is no safetensors file: {error}; copy the whole folder again") from error


def _check_tensors(manifest: dict[str, Any], tensors: dict[str, Tensor], path: Path) -> None:
    """Names, shapes, types and values are those that the manifest's counts ask for."""
    try:
        counts = {"static": int(manifest["counts"]["static"]), "dynamic": int(manifest["counts"]["dynamic"])}
        coefficients = int(manifest["sh_coefficients"])
    except (KeyError, TypeError, ValueError) as error:
        raise SceneError(
            f"{path / MANIFEST}: 'counts' or 'sh_coefficients' is missing or no number: {error}"
        ) from error
    if coefficients not in (1, 4, 9, 16):
        raise SceneError(f"{path / MANIFEST}: 'sh_coefficients' must be 1, 4, 9 or 16; it is {coefficients}")
    expected: dict[str, tuple[int, ...]] = {}
    for pool, kind in (("static", StaticPool), ("dynamic", DynamicPool)):
        for field in fields(kind):
            tail = (coefficients, 3) if field.name == "sh" else (_VECTOR_WIDTHS.get(field.name, 0),)
            expected[f"{pool}.{field.name}"] = (counts[pool], *(width for width in tail if width))
    missing, unknown = sorted(expected.keys() - tensors.keys()), sorted(tensors.keys() - expected.keys())
    if missing or unknown:
        raise SceneError(f"{path}: tensors missing: {missing}; unknown: {unknown}; save the scene again")
    for name, shape in expected.items():
        tensor = tensors[name]
        if tuple(tensor.shape) != shape or tensor.dtype != torch.float32:
            raise SceneError(
                f"{path}: tensor '{name}' must be float32 {list(shape)}; it is {tensor.dtype} {list(tensor.shape)}"
            )
    _check_finite(tensors, str(path))


def _check_finite(tensors: dict[str, Tensor], where: str) -> None:
    for name, tensor in tensors.items():
        bad = int((~torch.isfinite(tensor)).sum())
        if bad:
            raise SceneError(f"{where}: tensor '{name}' holds {bad} values that are not finite; reconstruct again")
