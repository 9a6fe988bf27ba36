"""Pictures of fixed cameras, told apart by their paths: one camera for each folder, or for each picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import numpy as np

from recon4d.errors import CalibrationError

_STILL = 1e-4


def cameras_of(pictures: Sequence[str]) -> dict[str, list[int]]:
    """By camera name: the indices of its pictures.

    Pictures in several folders are of one camera a folder, named after it; pictures in one folder are of one camera
    each, named after the picture.
    """
    paths = [PurePosixPath(picture.replace("\\", "/")) for picture in pictures]
    if len({path.parent for path in paths}) == 1:
        names = [path.stem if path.suffix else path.name for path in paths]
    else:
        names = _distinct([path.parent.parts for path in paths])
    found: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        found.setdefault(name, []).append(index)
    return found


def still_pose(name: str, indices: Sequence[int], matrices: Mapping[int, np.ndarray], pictures: Sequence[str]) -> int:
    """The index of the picture whose pose is the camera's.

    Raises:
        CalibrationError: the pictures' poses [4, 4] differ: the camera moves.
    """
    first = matrices[indices[0]]
    size = max(1.0, float(np.abs(first[:3, 3]).max()))
    for index in indices[1:]:
        off = np.abs(matrices[index] - first)
        if off[:3, :3].max() > _STILL or off[:3, 3].max() > _STILL * size:
            raise CalibrationError(
                f"its pictures '{pictures[indices[0]]}' and '{pictures[index]}' have different poses; a rig is of"
                " cameras that stand still: keep one pose a camera",
                camera=name,
            )
    return indices[0]


def _distinct(folders: Sequence[tuple[str, ...]]) -> list[str]:
    """Of each folder, the parts that are not the same in all, joined by "_": rgb/cam0 and rgb/cam1 are cam0, cam1."""
    longest = max(len(parts) for parts in folders)
    padded = [parts + ("",) * (longest - len(parts)) for parts in folders]
    telling = [k for k in range(longest) if len({parts[k] for parts in padded}) > 1]
    return ["_".join(parts[k] for k in telling if parts[k]) or "root" for parts in padded]
