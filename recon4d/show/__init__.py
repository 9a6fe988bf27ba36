"""What people look at.

Purpose: let a reader see at once how good a scene is and what is wrong with it.
Input:   a scene; for the report also the capture's division, the scores and the run's events.
Output:  pictures (``picture``), MP4 videos (``video``) and one self-contained HTML file (``report``);
         films of any pictures (``film``) and plots for pages of that kind (``inline_svg``);
         a scene's files for a browser (``write_view``) and a server for them and their page (``view_server``).
Owns:    camera paths, encoding, plots, the report's page.
Does not own: the numbers (``score``), the frames (``capture``) and the page in the browser (``page``).
"""

from recon4d.show._film import film
from recon4d.show._pages import view_server
from recon4d.show._report import ReportInputs, report
from recon4d.show._still import picture
from recon4d.show._svg import INK, PALETTE, inline_svg
from recon4d.show._video import VideoConfig, VideoKind, video
from recon4d.show._view import write_view

__all__ = [
    "INK",
    "PALETTE",
    "ReportInputs",
    "VideoConfig",
    "VideoKind",
    "film",
    "inline_svg",
    "picture",
    "report",
    "video",
    "view_server",
    "write_view",
]
