"""A round of training waits for the device at its ends and nowhere else. Run by ``test_imaginary_device.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import imaginary_accel
import numpy as np
import pytest
import torch
from imaginary_accel import watch

from recon4d.geometry import look_at
from recon4d.model import Gaussians4D, Layout
from recon4d.train import FitConfig, JointConfig, View, rehearse
from recon4d.train._optimize import ROUND, Descent
from recon4d.types import Camera

imaginary_accel.install()

DEVICE = "imaginary:1"


def view() -> View:
    """A picture of a few pixels: what is counted does not depend on how many there are."""
    K = np.array([[12.0, 0, 8], [0, 12.0, 8], [0, 0, 1]])
    pose = look_at(np.array([0.9, 0.1, 0.5]), np.zeros(3))
    camera = Camera(name="c", width=16, height=16, K=K, T_cam_world=pose)
    target = torch.randint(0, 256, (16, 16, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return View(camera=camera, time_s=0.5, target=target.to(DEVICE), weight=None, pixels=256)


def model() -> Gaussians4D:
    layout, generator = Layout(1), torch.Generator().manual_seed(1)
    params = 0.2 * torch.randn(40, layout.width, generator=generator)
    params[:, layout.columns["log_scale"]] -= 2.5
    params[:, layout.columns["quat"]] += 1.0
    params[:20, layout.temporal] = 0.0
    return Gaussians4D(params.to(DEVICE), 20, 1)


def test_no_step_of_a_round_waits_and_only_the_first_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    logs: list[imaginary_accel.Log] = []
    step = Descent._step

    def watched(self: Descent, *arguments: Any) -> int:
        with watch() as log:
            taken = step(self, *arguments)
        logs.append(log)
        return taken

    monkeypatch.setattr(Descent, "_step", watched)
    config = replace(FitConfig(), joint=JointConfig(steps=ROUND))
    with watch() as whole:
        done = rehearse(model(), [view()], config, distance_m=1.0)
    assert len(done.losses) == len(logs) == ROUND == 100
    assert done.rollbacks == 0
    assert all(log.ops for log in logs)
    # The window of SSIM is brought there once.
    assert [note for log in logs for note in log.syncs] == []
    (upload,) = (note for log in logs for note in log.uploads)
    assert "loss" in upload.place
    # Around the steps: one survey, one look at the losses and the parameters; cameras and room on the way there.
    assert len(whole.syncs) <= 6
    assert len(whole.uploads) <= 8
