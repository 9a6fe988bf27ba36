"""Gaussian splats to images, with gradients.

Input: :class:`~recon4d.types.Splats` (one instant) and :class:`~recon4d.types.Cameras` of one size.
Output: :class:`~recon4d.types.RenderOutput` with rgb, alpha and depth, differentiable in every splat attribute and in
the cameras' view matrices.
Many worlds that share splats and differ in the poses of rigid bodies are drawn by :func:`render_worlds`, forward only.
A device's best backend is found by :func:`choose`, and made the one that "auto" means by :func:`prefer`.

Owns: the image formation model (written down in ``_contract.py``), its backends, their registry and
the choice among them.
Does not own: time and motion (a model gives the splats of one instant), losses, the choice of cameras, colour spaces.

Add a backend: one module with ``DEVICES``, ``status()`` and ``render(request)``, and one line in ``_registry.py``; if
it can draw many worlds better than one by one, with ``render_worlds(request)`` too;
other packages name theirs under the entry-point group ``recon4d.raster``. The parity tests pick it up.
"""

from recon4d.raster._api import rasterize, survey, uncertain_pixels
from recon4d.raster._choice import Choice, choose, remembered
from recon4d.raster._plan import Plan, make_plans
from recon4d.raster._records import WorldCache, WorldCameras, WorldImages, WorldSplats
from recon4d.raster._registry import BackendStatus, Missing, Ready, backends, prefer
from recon4d.raster._worlds import render_worlds

__all__ = [
    "BackendStatus",
    "Choice",
    "Missing",
    "Plan",
    "Ready",
    "WorldCache",
    "WorldCameras",
    "WorldImages",
    "WorldSplats",
    "backends",
    "choose",
    "make_plans",
    "prefer",
    "rasterize",
    "remembered",
    "render_worlds",
    "survey",
    "uncertain_pixels",
]
