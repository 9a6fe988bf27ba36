"""Scenes on disk.

Purpose: keep a reconstructed scene in a folder that other programs can read without this package.
Input:   a :class:`recon4d.types.Scene4D`, or a folder that ``save`` wrote.
Output:  ``scene.json`` (a versioned manifest that says units, frame, time range, cameras, configuration) and one
         safetensors file of named tensors (``static.means`` …, activated values), bound to it by a SHA-256.
Owns:    the folder's layout, its version, migrations from older versions, and all checks on the way in.
Does not own: rendering (``model``, ``raster``) and other formats (``export``).
"""

from recon4d.scene._folder import load, save

__all__ = ["load", "save"]
