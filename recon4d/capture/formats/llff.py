"""LLFF's ``poses_bounds.npy``, as the Neural 3D Video data set has it.

A row of 17 numbers a camera: 3x5 row by row, camera to world with the axes (down, right, backwards), its last column
height, width and focal length; then the nearest and farthest depth. Cameras are in the order of the sorted videos, the
principal point is the picture's middle, and lengths have no scale.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recon4d.capture.calibrations import CalibrationFormat, Found, FoundCamera, Reading, Untrusted, Values, load_npy
from recon4d.errors import CaptureError

_NAME = "poses_bounds.npy"
_MAGIC = b"\x93NUMPY"


def _file(source: Untrusted) -> Path | None:
    path = source.path / _NAME if source.path.is_dir() else source.path
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return path if file.read(6) == _MAGIC else None


def _read(source: Untrusted) -> Found:
    path = _file(source)
    if path is None:
        raise CaptureError(f"there is no {_NAME}")
    array = load_npy(path)
    if array.ndim != 2 or array.shape[1] != 17 or len(array) == 0:
        raise CaptureError(
            f"must hold 17 numbers a camera; it holds {'x'.join(map(str, array.shape)) or 'one number'}", file=path.name
        )
    cameras = []
    for index, row in enumerate(array):
        values = Values(path.name, f"{index:02d}")
        if not np.isfinite(row).all():
            values.refuse(f"row {index} is not finite")
        block = row[:15].reshape(3, 5)
        height, width = values.side(block[0, 4].item(), "height"), values.side(block[1, 4].item(), "width")
        focal = block[2, 4].item()
        if focal <= 0:
            values.refuse(f"the focal length must be positive; it is {focal:g}: height, width, focal is the order")
        cameras.append(
            FoundCamera(
                name=f"{index:02d}",
                matrix=np.vstack([block[:, :4], [0.0, 0, 0, 1]]),
                K=np.array([[focal, 0.0, width / 2], [0.0, focal, height / 2], [0.0, 0.0, 1.0]]),
                width=width,
                height=height,
            )
        )
    return Found(
        cameras=tuple(cameras),
        documented=Reading("c2w", "llff"),
        units="arbitrary",
        ordered=True,
        axes=("llff", "opencv", "opengl"),
    )


FORMAT = CalibrationFormat(
    name="llff",
    title="poses_bounds.npy of LLFF; camera to world, axes down-right-backwards, order of the sorted videos, no scale",
    recognises=lambda source: _file(source) is not None,
    read=_read,
)
