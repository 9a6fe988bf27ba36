"""Scenes in the formats of other programs.

Purpose: hand a scene on to viewers, editors and simulators.
Input:   a :class:`recon4d.types.Scene4D` and the name of a format.
Output:  a file or folder in that format; ``read_ply`` reads splats back.
Owns:    the formats, one file each. Outside packages add theirs by the entry-point group ``recon4d.export``, whose
         entries name a :class:`Format`.
Does not own: the scene's own folder, which loses nothing (``scene``).
"""

from recon4d.export._ply_reader import read_ply
from recon4d.export._registry import ExportOptions, Format, export, formats

__all__ = ["ExportOptions", "Format", "export", "formats", "read_ply"]
