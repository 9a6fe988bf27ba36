"""A picture of a scene."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from recon4d.errors import ConfigError
from recon4d.files import write_atomic
from recon4d.show._painter import Painter
from recon4d.show._paths import instant, rig_camera
from recon4d.types import Scene4D

_SUFFIXES = (".png", ".jpg", ".jpeg")


def picture(
    scene: Scene4D,
    path: Path | str,
    *,
    camera: str | None = None,
    time_s: float | None = None,
    backend: str = "auto",
    device: str = "cpu",
) -> Path:
    """Draws what a camera of the rig sees at an instant.

    Args:
        scene: the scene.
        path: the file to write, PNG or JPEG by its suffix.
        camera: name of a rig camera; the first when None.
        time_s: seconds on the capture clock; the middle of the clip when None.
        backend: rasterizer.
        device: torch device that renders.

    Returns:
        The path.

    Raises:
        ConfigError: another suffix, an unknown camera, or an instant outside the clip.
        OutputError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise ConfigError(f"a picture is written as {', '.join(_SUFFIXES)}; the file is {path.name}")
    rgb = Painter(scene, backend=backend, device=device).rgb(rig_camera(scene, camera), instant(scene, time_s))
    done, data = cv2.imencode(path.suffix, np.ascontiguousarray(rgb[..., ::-1]))
    if not done:
        raise ValueError(f"an image of shape {rgb.shape} has no {path.suffix} form")
    return write_atomic(path, data.tobytes())
