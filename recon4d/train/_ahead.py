"""What a round of steps needs, made ready before it: on an accelerator, nothing then crosses between host and device.

One survey of all the round's views tells how large tensors must be, one transfer fetches it, one brings the cameras.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from recon4d.model import Gaussians4D, view_vector
from recon4d.raster import Plan, make_plans, survey
from recon4d.types import Camera, Cameras

ROOM = 1.25
"""Sizes over those that the survey finds: Gaussians move and grow during a round."""
_SPARE_ROWS = 256


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One step's camera on the device, and the room it needs."""

    cameras: Cameras
    view: Tensor
    """The ``view_vector``."""
    background: Tensor
    """[3]."""
    kept: int = 0
    """How many rows of the model are alive and in view."""
    room: int | None = None
    """For how many there is room; None for as many as it takes."""
    plans: tuple[Plan, ...] | None = None


def on_device(cameras: Sequence[Camera], backgrounds: np.ndarray, device: torch.device) -> list[Prepared]:
    """Brings N cameras and background colours [N, 3] to the device in one transfer."""
    rows = [
        np.concatenate([view_vector(camera), camera.T_cam_world.ravel(), camera.K.ravel(), [camera.exposure], color])
        for camera, color in zip(cameras, backgrounds, strict=True)
    ]
    packed = torch.from_numpy(np.stack(rows).astype(np.float32)).to(device)
    views, poses, Ks, exposures, colors = packed.split([20, 16, 9, 1, 3], dim=1)
    return [
        Prepared(
            cameras=Cameras(
                viewmats=poses[i].reshape(1, 4, 4),
                Ks=Ks[i].reshape(1, 3, 3),
                width=camera.width,
                height=camera.height,
                exposures=exposures[i],
            ),
            view=views[i],
            background=colors[i],
        )
        for i, camera in enumerate(cameras)
    ]


@torch.no_grad()
def with_room(
    model: Gaussians4D, times_s: Sequence[float], prepared: Sequence[Prepared], room: float, backend: str
) -> list[Prepared]:
    """The same with room for what each view shows at its time, found by a survey.

    Args:
        room: factor on the sizes found.
        backend: the rasterizer.
    """
    kept, surveys = [], []
    for time_s, step in zip(times_s, prepared, strict=True):
        whole = model.slice(time_s, view=step.view, room=len(model))
        assert whole.kept is not None
        kept.append(whole.kept)
        found = survey(whole.splats, step.cameras, backend=backend)
        if found is not None:
            surveys.append(found[0])
    # The one wait of a round before its end.
    fetched = torch.cat([torch.stack(kept), *surveys]).cpu().numpy()
    rows, *counts = np.split(fetched, np.cumsum([len(kept), *map(len, surveys)])[:-1])
    plans = [(plan,) for plan in make_plans(counts, room, model.device)] if counts else [None] * len(rows)
    return [
        replace(step, kept=int(row), room=min(len(model), int((row + _SPARE_ROWS) * room)), plans=plan)
        for step, row, plan in zip(prepared, rows, plans, strict=True)
    ]
