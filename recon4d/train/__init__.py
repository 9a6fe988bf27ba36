"""From a capture to a 4D scene: static fit, dynamic seeds, joint fit.

In:   a ``Capture`` that holds training cameras and frames only, and a ``FitConfig``.
Out:  a ``Scene4D``, or the pools of each stage for those who keep stages apart; the losses of a rehearsal.
Owns: sampling of views, schedules, the descent and its guard against broken numbers, checkpoints.
Does not own: what is held out (capture), how Gaussians move (model), how they are drawn (raster) or compared
with images (loss).
"""

from recon4d.train._config import FitConfig, JointConfig, Preset, RateConfig, StaticConfig, preset
from recon4d.train._fit import fit
from recon4d.train._joint import find_foreground, fit_joint, seed_dynamic
from recon4d.train._optimize import View
from recon4d.train._rehearse import Rehearsal, rehearse
from recon4d.train._static import StaticFit, fit_static, render_backgrounds
from recon4d.train._views import background_color

__all__ = [
    "FitConfig",
    "JointConfig",
    "Preset",
    "RateConfig",
    "Rehearsal",
    "StaticConfig",
    "StaticFit",
    "View",
    "background_color",
    "find_foreground",
    "fit",
    "fit_joint",
    "fit_static",
    "preset",
    "rehearse",
    "render_backgrounds",
    "seed_dynamic",
]
