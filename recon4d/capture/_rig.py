"""What a calibration says: cameras with their lenses, and where the bench is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from recon4d.types import Camera


@dataclass(frozen=True, kw_only=True)
class Distortion:
    """A lens model in OpenCV's order of coefficients."""

    model: Literal["opencv", "fisheye"]
    coefficients: np.ndarray
    """[4, 5, 8, 12 or 14] float64 for "opencv" (k1, k2, p1, p2, k3, ...); [4] for "fisheye" (Kannala-Brandt)."""


@dataclass(frozen=True, kw_only=True)
class RigCamera:
    """One calibrated camera: its pinhole part and, where there is one, its lens."""

    camera: Camera
    """Size, K (pixel centres at 0.5) and pose of the pictures as they are filmed, before undistortion."""
    distortion: Distortion | None = None

    @property
    def name(self) -> str:
        return self.camera.name

    def to_manifest(self) -> dict[str, Any]:
        """This camera as ``capture.json`` writes it, without its files."""
        camera, lens = self.camera, self.distortion
        item: dict[str, Any] = {
            "name": camera.name,
            "width": camera.width,
            "height": camera.height,
            "K": camera.K.tolist(),
            "pose": {"convention": "T_cam_world", "axes": "opencv", "matrix": camera.T_cam_world.tolist()},
            "pixel_center": "half",
        }
        if lens is not None:
            item["distortion"] = {"model": lens.model, "coefficients": np.asarray(lens.coefficients).tolist()}
        return item


@dataclass(frozen=True, kw_only=True)
class Rig:
    """Cameras that share one world: what every calibration file comes down to."""

    cameras: tuple[RigCamera, ...]
    plane: np.ndarray | None = None
    """[4] float64 (a, b, c, d) of the bench, a x + b y + c z + d = 0 in the world, where it is known."""
    notes: str = ""

    def to_manifest(self) -> dict[str, Any]:
        """The fields of ``capture.json`` that a calibration gives; cameras lack ``video``."""
        manifest: dict[str, Any] = {"version": 1, "cameras": [camera.to_manifest() for camera in self.cameras]}
        if self.plane is not None:
            manifest["bench_plane"] = np.asarray(self.plane).tolist()
        if self.notes:
            manifest["notes"] = self.notes
        return manifest
