"""A whole fit on the device, as short as one can be. Run by ``test_imaginary_device.py``."""

from __future__ import annotations

import imaginary_accel
import torch
from imaginary_accel import watch

from recon4d.capture import divide
from recon4d.points import DynamicSeedConfig
from recon4d.train import FitConfig, JointConfig, StaticConfig, fit
from recon4d.types import SplitRule
from tests import worlds

imaginary_accel.install()

DEVICE = "imaginary:1"
CONFIG = FitConfig(
    static=StaticConfig(count=300, steps=4), seeds=DynamicSeedConfig(count=200), joint=JointConfig(steps=4)
)


def test_a_fit_asks_for_nothing_that_the_device_has_not() -> None:
    capture = divide(worlds.capture(seconds=0.6, split=SplitRule(heldout_cameras=("c3",)))).train
    with watch() as log:
        scene = fit(capture, CONFIG, device=DEVICE)
    assert log.refusals == []
    assert log.ops["aten::convolution_backward"] > 0
    assert len(scene.static) == 300
    assert len(scene.dynamic) > 0
    assert scene.static.means.device == torch.device("cpu")
    assert bool(scene.static.means.isfinite().all())
    # All work was on the device asked for.
    module = imaginary_accel.torch_module()
    assert module.max_memory_allocated(DEVICE) > 1 << 20
    assert module.max_memory_allocated("imaginary:0") == 0
