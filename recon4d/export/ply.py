"""``ply``: one instant as splats, in the layout of 3D Gaussian splatting (Kerbl et al. 2023), which most viewers read.

Binary little endian, one ``vertex`` element of float32: x y z, nx ny nz (zero), f_dc_0..2, f_rest_* (all red
coefficients, then green, then blue), opacity (logit), scale_0..2 (natural logarithm), rot_0..3 (wxyz). Frame and
units are the scene's: right-handed, +Z up, metres; comments in the header say so.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recon4d import __version__
from recon4d.errors import ConfigError
from recon4d.export._registry import ExportOptions, Format
from recon4d.files import replacing
from recon4d.model import Gaussians4D
from recon4d.types import Scene4D, Splats

_OPACITY_MARGIN = 1e-6
"""Opacities of exactly 0 and 1 have no finite logit; this is far below a display's step of 1/255."""
_SMALLEST_SCALE_M = 1e-12


def vertices(splats: Splats) -> np.ndarray:
    """[N] structured array: one row a splat, in the file's layout."""
    n, coefficients = len(splats), int(splats.sh.shape[1])
    sh = splats.sh.detach().cpu().numpy().astype(np.float32)
    opacity = np.clip(splats.opacities.detach().cpu().numpy().astype(np.float64), _OPACITY_MARGIN, 1 - _OPACITY_MARGIN)
    scales = splats.scales.detach().cpu().numpy()
    blocks = {
        "xyz": splats.means.detach().cpu().numpy(),
        "normal": np.zeros((n, 3), np.float32),
        "f_dc": sh[:, 0],
        "f_rest": sh[:, 1:].transpose(0, 2, 1).reshape(n, 3 * (coefficients - 1)),
        "opacity": np.log(opacity / (1 - opacity))[:, None],
        "scale": np.log(np.maximum(scales, _SMALLEST_SCALE_M)),
        "rot": splats.quats.detach().cpu().numpy(),
    }
    names = ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"]
    names += [f"f_rest_{i}" for i in range(blocks["f_rest"].shape[1])]
    names += ["opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]
    matrix = np.concatenate([block.astype("<f4") for block in blocks.values()], axis=1)
    return np.ascontiguousarray(matrix).view([(name, "<f4") for name in names])[:, 0]


def write_splats(path: Path, splats: Splats, comments: list[str]) -> Path:
    """Writes splats as a PLY file.

    Raises:
        OutputError: the file cannot be written.
    """
    rows = vertices(splats)
    assert rows.dtype.names is not None
    header = ["ply", "format binary_little_endian 1.0", *(f"comment {comment}" for comment in comments)]
    header += [f"element vertex {len(rows)}", *(f"property float {name}" for name in rows.dtype.names), "end_header"]
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(("\n".join(header) + "\n").encode("ascii"))
        file.write(rows.tobytes())
    return path


def comments(scene: Scene4D, time_s: float) -> list[str]:
    """What the header says about the scene. ``SplatRenderMode: mip`` tells viewers to compensate opacity."""
    lines = [f"recon4d {__version__}", "units metre, right-handed, +Z up", f"time_s {time_s:.6f}"]
    return [*lines, "SplatRenderMode: mip"] if scene.antialiased else lines


def _write(scene: Scene4D, path: Path, options: ExportOptions) -> Path:
    time_s = scene.duration_s / 2 if options.time_s is None else options.time_s
    if not 0 <= time_s <= scene.duration_s:
        raise ConfigError(
            f"a PLY file holds one instant: time_s must lie between 0 and {scene.duration_s:g}; it is {time_s}"
            " (for the whole clip use the format 'ply-sequence')"
        )
    return write_splats(path, Gaussians4D.from_scene(scene).at(time_s), comments(scene, time_s))


FORMAT = Format(name="ply", summary="splats of one instant (time_s) in the common layout of viewers", write=_write)
