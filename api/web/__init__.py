"""Web: the service's own pages, for people with a browser.

In:   nothing; pages speak to the service's HTTP interface as any other client does.
Out:  ``/``, ``/scene/{id}`` and their files below ``/assets/``, added to an application by ``add_pages``.
Owns: the pages of the service: sending videos, calibration, checking, following a reconstruction, the list of scenes.
Does not own: the 3D player, which is ``recon4d.show``'s, and any state: what a page knows it has asked for.
"""

from api.web._pages import add_pages

__all__ = ["add_pages"]
