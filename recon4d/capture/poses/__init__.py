"""Poses held against pictures, for machines and for people.

Input       a few undistorted pictures of each camera.
Output      how alike the cameras see what lies flat on the bench, under the declared poses and under the common
            misreadings; and what is drawn into a picture so that a person sees whether its pose is right.
Owns        the comparison on the bench plane, its findings, grid and axes.
Does not    decode, or decide what a finding leads to.
"""

from recon4d.capture.poses._marks import AXES, GRID, OTHERS, WHITE, Colour, World, write
from recon4d.capture.poses._poses import GROUND, PoseFit, check_poses, fitting_reading
from recon4d.capture.poses._views import Shrinker, View, moments

__all__ = [
    "AXES",
    "GRID",
    "GROUND",
    "OTHERS",
    "WHITE",
    "Colour",
    "PoseFit",
    "Shrinker",
    "View",
    "World",
    "check_poses",
    "fitting_reading",
    "moments",
    "write",
]
