"""Where Gaussians start: from images and calibration alone, no structure from motion.

In:   calibrated images (temporal medians for what stands still, frames and foreground masks for what moves).
Out:  ``StaticPool`` and ``DynamicPool`` with activated values, and the ``Foreground`` that tells both apart.
Owns: the depth search along pixel rays, life spans from stationarity, velocities from optical flow.
Does not own: the background images it compares with (the static fit draws them), nor any optimisation.
"""

from recon4d.points._dynamic import DynamicSeedConfig, dynamic_seeds
from recon4d.points._foreground import Foreground, ForegroundConfig
from recon4d.points._static import StaticView, static_seeds
from recon4d.points._workspace import Workspace

__all__ = [
    "DynamicSeedConfig",
    "Foreground",
    "ForegroundConfig",
    "StaticView",
    "Workspace",
    "dynamic_seeds",
    "static_seeds",
]
