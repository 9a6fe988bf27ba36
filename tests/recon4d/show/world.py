"""A tiny scene with its capture, for the tests of this folder."""

from __future__ import annotations

import numpy as np
import torch

from recon4d.capture import Division, divide
from recon4d.geometry import look_at
from recon4d.types import Camera, Capture, Clip, DynamicPool, Scene4D, SplitRule, StaticPool

NAMES = ("left <b>&", "right $x_1", "held out 相机")


def cameras(width: int = 65, height: int = 48) -> tuple[Camera, ...]:
    K = np.array([[60.0, 0, width / 2], [0, 60, height / 2], [0, 0, 1]])
    return tuple(
        Camera(
            name=name,
            width=width,
            height=height,
            K=K,
            T_cam_world=look_at(np.array([np.cos(angle), np.sin(angle), 0.7]), np.zeros(3)),
        )
        for name, angle in zip(NAMES, (0.0, 1.2, 0.6), strict=True)
    )


def scene(duration_s: float = 1.0, **changes: object) -> Scene4D:
    """Two static Gaussians and a moving one."""

    def pool(means: list[list[float]], colour: float) -> dict[str, torch.Tensor]:
        n = len(means)
        return {
            "means": torch.tensor(means),
            "quats": torch.tensor([[1.0, 0, 0, 0]]).repeat(n, 1),
            "scales": torch.full((n, 3), 0.08),
            "opacities": torch.full((n,), 0.9),
            "sh": torch.full((n, 1, 3), colour),
        }

    fields = {
        "static": StaticPool(**pool([[0, 0.2, 0], [0.2, -0.2, 0]], 1.2)),
        "dynamic": DynamicPool(
            **pool([[0, 0, 0.1]], -1.0),
            velocities=torch.tensor([[0.0, 0.3, 0.0]]),
            centers_s=torch.tensor([0.5]),
            radii_s=torch.tensor([0.3]),
            tails_s=torch.tensor([0.1]),
        ),
        "cameras": cameras(),
        "duration_s": duration_s,
        "plane": np.array([0.0, 0, 1, 0]),
        "background": (0.3, 0.3, 0.3),
        "config": {"steps": 3, "note": "<script>alert(1)</script>"},
        "software": "0.1.0",
        "input_hash": "ab" * 32,
    }
    return Scene4D(**{**fields, **changes})


def division() -> Division:
    """Frames of random blocks of one second at 20 Hz; the first camera lacks two."""
    noise = np.random.default_rng(0)
    clips = []
    for camera in cameras():
        times = np.delete(np.arange(21) / 20, [8, 9]) if camera.name == NAMES[0] else np.arange(21) / 20
        blocks = noise.integers(
            60, 200, (len(times), 6, 9, 3), np.uint8
        )  # As large as JPEG's, which then loses little.
        frames = blocks.repeat(8, 1).repeat(8, 2)[:, : camera.height, : camera.width]
        clips.append(
            Clip(camera=camera, times=times, frames=frames, valid=np.ones((camera.height, camera.width), bool))
        )
    capture = Capture(
        name="tiny <i>",
        clips=tuple(clips),
        duration_s=1.0,
        clock_offset_s=0.25,
        split=SplitRule(heldout_cameras=(NAMES[2],)),
    )
    return divide(capture)
