"""What people look at.

Purpose: let a reader see at once how good a scene is and what is wrong with it.
Input:   a scene; for the report also the capture's division, the scores and the run's events.
Output:  pictures (``picture``), MP4 videos (``video``) and one self-contained HTML file (``report``).
Owns:    camera paths, encoding, plots, the page.
Does not own: the numbers (``score``) and the frames (``capture``).
"""

from recon4d.show._report import ReportInputs, report
from recon4d.show._still import picture
from recon4d.show._video import VideoConfig, VideoKind, video

__all__ = ["ReportInputs", "VideoConfig", "VideoKind", "picture", "report", "video"]
