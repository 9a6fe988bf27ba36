"""Bundles: a reconstructed scene that can be simulated and seen.

Purpose: make an environment out of a scene, a robot and objects, and say what is wrong with it before anybody trains.
Input:   a scene (folder or ``Scene4D``) and a :class:`BundleConfig`; or a folder that ``build`` or ``save`` wrote.
Output:  a folder with ``bundle.json``, ``scene.xml`` (MJCF), ``splats/`` (one file a body), ``cameras.json``,
         ``colour.json``, ``initial_conditions.json``, ``envelope.json``, ``assets/`` and ``pictures/``; findings.
Owns:    the folder's layout and version, composition of models, cutting, gravity alignment, the colour fit, the view
         envelope and all checks.
Does not own: stepping physics and drawing batches (``core``), tasks, reconstruction.
"""

from simbridge.bundle._build import build
from simbridge.bundle._check import check
from simbridge.bundle._config import (
    BoxConfig,
    BundleConfig,
    CameraConfig,
    CutConfig,
    EnvelopeConfig,
    ObjectConfig,
    RobotConfig,
    read_config,
)
from simbridge.bundle._findings import Finding
from simbridge.bundle._folder import load, save
from simbridge.bundle._transform import moved

__all__ = [
    "BoxConfig",
    "BundleConfig",
    "CameraConfig",
    "CutConfig",
    "EnvelopeConfig",
    "Finding",
    "ObjectConfig",
    "RobotConfig",
    "build",
    "check",
    "load",
    "moved",
    "read_config",
    "save",
]
