"""Reads splats from PLY files in the common layout, whoever wrote them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch

from recon4d.errors import SceneError
from recon4d.types import Splats

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "<i2", "int16": "<i2", "ushort": "<u2",
    "uint16": "<u2", "int": "<i4", "int32": "<i4", "uint": "<u4", "uint32": "<u4", "float": "<f4", "float32": "<f4",
    "double": "<f8", "float64": "<f8",
}  # fmt: skip


def read_ply(path: Path | str) -> Splats:
    """Reads a binary little-endian PLY file of splats. Properties may come in any order; normals may be missing.

    Returns:
        Splats with activated values, float32 on the CPU, in the file's own frame.

    Raises:
        SceneError: the file is missing, cut short, of another encoding, or lacks a property of splats.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror}") from error
    end = re.search(rb"^end_header\r?\n", data, re.MULTILINE)
    if not end or not re.match(rb"ply\r?\nformat binary_little_endian 1\.0\s", data):
        raise SceneError(f"{path} is no binary little-endian PLY file; convert it first")
    count, dtype = _layout(data[: end.start()].decode("ascii", "replace").replace("\r", ""), path)
    body = data[end.end() :]
    if len(body) < count * dtype.itemsize:
        raise SceneError(f"{path} is cut short: {count} splats need {count * dtype.itemsize} bytes, it has {len(body)}")
    return _activate(np.frombuffer(body, dtype, count), path)


def _layout(header: str, path: Path) -> tuple[int, np.dtype]:
    """Count and record of the ``vertex`` element, which must come first."""
    elements = re.findall(r"^element\s+(\S+)\s+(\d+)\s*$", header, re.MULTILINE)
    if not elements or elements[0][0] != "vertex":
        raise SceneError(f"{path}: the first element must be 'vertex'; there are {[name for name, _ in elements]}")
    section = re.split(r"^element\s.*$", header, flags=re.MULTILINE)[1]
    fields = [line.split()[1:] for line in section.splitlines() if line.startswith("property")]
    strange = [" ".join(field) for field in fields if len(field) != 2 or field[0] not in _TYPES]
    if strange:
        raise SceneError(f"{path}: splats have scalar properties only; it has {strange}")
    return int(elements[0][1]), np.dtype([(name, _TYPES[kind]) for kind, name in fields])


def _activate(rows: np.ndarray, path: Path) -> Splats:
    names = set(rows.dtype.names or ())
    rest = sum(name.startswith("f_rest_") for name in names)
    if rest not in (0, 9, 24, 45):
        raise SceneError(f"{path}: there must be 0, 9, 24 or 45 properties f_rest_*; there are {rest}")

    def columns(*wanted: str) -> torch.Tensor:
        missing = sorted(set(wanted) - names)
        if missing:
            raise SceneError(f"{path} is no PLY of splats: it lacks the properties {missing}")
        if not wanted:
            return torch.zeros(len(rows), 0)
        return torch.from_numpy(np.stack([rows[name].astype(np.float32) for name in wanted], axis=1))

    dc = columns("f_dc_0", "f_dc_1", "f_dc_2")
    others = columns(*(f"f_rest_{i}" for i in range(rest)))  # All red ones, then green, then blue.
    return Splats(
        means=columns("x", "y", "z"),
        quats=columns("rot_0", "rot_1", "rot_2", "rot_3"),
        scales=columns("scale_0", "scale_1", "scale_2").exp(),
        opacities=columns("opacity")[:, 0].sigmoid(),
        sh=torch.cat([dc[:, None], others.reshape(len(rows), 3, rest // 3).transpose(1, 2)], dim=1),
    )
