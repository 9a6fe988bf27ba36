"""How far a calibration is from the cameras that filmed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recon4d.calibrate import Calibrated
from recon4d.capture import RigCamera


@dataclass(frozen=True)
class Off:
    """Of one camera, relative to the reference camera."""

    focal: float
    position_m: float
    angle_deg: float

    def __str__(self) -> str:
        return f"focal {self.focal:+.3%}, position {self.position_m * 1e3:.2f} mm, angle {self.angle_deg:.3f} degrees"


def off(result: Calibrated, truth: list[RigCamera]) -> list[Off]:
    names = [one.name for one in truth]
    assert [one.name for one in result.rig.cameras] == names
    reference = truth[names.index(result.reference)].camera
    found = []
    for index, (own, got) in enumerate(zip(truth, result.rig.cameras, strict=True)):
        expected = own.camera.T_cam_world @ reference.T_world_cam
        position = np.linalg.inv(expected)[:3, 3] - np.linalg.inv(result.relative[index])[:3, 3]
        found.append(
            Off(
                focal=float(got.camera.K[0, 0] / own.camera.K[0, 0] - 1),
                position_m=float(np.linalg.norm(position)),
                angle_deg=angle_deg(expected[:3, :3], result.relative[index, :3, :3]),
            )
        )
    return found


def angle_deg(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.degrees(np.arccos(np.clip((np.trace(a.T @ b) - 1) / 2, -1, 1))))
