"""A scene as a browser takes it: JSON that says what there is, and one file of arrays that go to the GPU as they are.

Rows are the static Gaussians, then the dynamic ones. Arrays are little-endian, each begins at a multiple of 16 bytes
and holds rows of whole RGBA texels, so that a page uploads them without looking into them:

    centres   float32  [N, 4]        mean x y z in metres (of dynamic rows at their centre time), opacity
    shapes    float16  [N, 8]        unit quaternion x y z w; deviations x y z in metres, 0
    colours   float16  [N, 4 T]      SH coefficients in their order, rgb each, then zeros; T = ceil(3 K / 4)
    lives     float32  [M, 8]        velocity x y z in m/s, centre time; radius and tail in seconds, 0, 0

Half precision changes a colour by less than 1/2000, which no screen shows; positions and times keep theirs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from recon4d.files import write_atomic
from recon4d.show._paths import focus
from recon4d.show._still import picture
from recon4d.types import DynamicPool, Scene4D, StaticPool

FORMAT, VERSION = "recon4d-view", 1
DESCRIPTION, ARRAYS, POSTER = "view.json", "splats.bin", "poster.jpg"
_ALIGNMENT = 16
_LARGEST_HALF = 65504.0


def write_view(scene: Scene4D, folder: Path | str) -> Path:
    """Writes what the scene page needs: ``view.json``, ``splats.bin`` and, of a scene with a rig, ``poster.jpg``.

    ``view.json`` is written last: a folder that has it is whole.

    Args:
        scene: the scene; its tensors may live on any device.
        folder: is created; files of these names in it are replaced.

    Returns:
        The folder.

    Raises:
        OutputError: a file cannot be written.
    """
    folder = Path(folder)
    arrays = _arrays(scene)
    description, data = _pack(arrays)
    write_atomic(folder / ARRAYS, data)
    if scene.cameras:
        picture(scene, folder / POSTER)
    text = json.dumps(_describe(scene) | {"splats": {"file": ARRAYS, "bytes": len(data), "arrays": description}})
    write_atomic(folder / DESCRIPTION, text + "\n")
    return folder


def _describe(scene: Scene4D) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "duration_s": float(scene.duration_s),
        "counts": {"static": len(scene.static), "dynamic": len(scene.dynamic)},
        "sh_degree": round(scene.static.sh.shape[1] ** 0.5) - 1,
        "background": [float(value) for value in scene.background],
        "antialiased": scene.antialiased,
        "plane": None if scene.plane is None else [float(value) for value in scene.plane],
        "focus": focus(scene.cameras, scene.plane).tolist() if scene.cameras else [0.0, 0.0, 0.0],
        "poster": POSTER if scene.cameras else None,
        "cameras": [camera.to_json() for camera in scene.cameras],
    }


def _arrays(scene: Scene4D) -> dict[str, np.ndarray]:
    pools = (scene.static, scene.dynamic)
    return {
        "centres": _host([torch.cat([pool.means, pool.opacities[:, None]], 1) for pool in pools], np.float32),
        "shapes": _host([_shapes(pool) for pool in pools], np.float16),
        "colours": _host([_colours(pool) for pool in pools], np.float16),
        "lives": _host([_lives(scene.dynamic)], np.float32),
    }


def _shapes(pool: StaticPool | DynamicPool) -> Tensor:
    xyzw = normalize(pool.quats, dim=1)[:, [1, 2, 3, 0]]
    return torch.cat([xyzw, pad(pool.scales, (0, 1))], 1)


def _colours(pool: StaticPool | DynamicPool) -> Tensor:
    values = pool.sh.flatten(1)
    return pad(values, (0, -values.shape[1] % 4))


def _lives(pool: DynamicPool) -> Tensor:
    times = torch.stack([pool.centers_s, pool.radii_s, pool.tails_s], 1)
    return pad(torch.cat([pool.velocities, times], 1), (0, 2))


def _host(parts: list[Tensor], dtype: type[np.floating]) -> np.ndarray:
    values = torch.cat([part.detach().to("cpu", torch.float32) for part in parts]).numpy()
    if dtype is np.float16:
        values = values.clip(-_LARGEST_HALF, _LARGEST_HALF)
    return values.astype(np.dtype(dtype).newbyteorder("<"))


def _pack(arrays: dict[str, np.ndarray]) -> tuple[dict[str, Any], bytes]:
    """Where each array lies, and all of them."""
    description, data = {}, bytearray()
    for name, values in arrays.items():
        data.extend(b"\0" * (-len(data) % _ALIGNMENT))
        description[name] = {"offset": len(data), "type": values.dtype.name, "shape": list(values.shape)}
        data.extend(values.tobytes())
    return description, bytes(data)
