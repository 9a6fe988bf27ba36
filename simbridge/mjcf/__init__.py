"""MJCF geoms as surface splats.

Purpose: let one renderer draw reconstructed scenes, robots and objects alike, without OpenGL.
Input:   a compiled ``mujoco.MjModel``.
Output:  ``geom_splats``: flat discs on the surfaces of its visible geoms, per body and in the body's frame, with
         material, texture and a baked shade.
Owns:    how surfaces are covered (spacing, edges, silhouettes), and how MuJoCo's materials become colours.
Does not own: physics, poses (whoever draws moves the splats with the bodies), composition of models (``bundle``).

Height fields, signed distance fields, skins and flexible bodies have no splats: a visible one is an error, one that is
in no drawn group a warning.
"""

from simbridge.mjcf._geoms import geom_splats
from simbridge.mjcf._options import Density, Shade

__all__ = ["Density", "Shade", "geom_splats"]
