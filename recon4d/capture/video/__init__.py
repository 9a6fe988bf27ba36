"""A video file, read as it is meant to be seen.

Input       a file; nothing of what it says of itself is trusted.
Output      every frame in order of presentation, upright, whole, of square or stored pixels, as display-referred sRGB,
            with its time; what the container announces; one stretch of a longer video as a file of its own.
Owns        which containers are let in, orientation, interlacing, colour matrices, high dynamic range, limits.
Does not    know of cameras, undistortion or clocks.
"""

from recon4d.capture.video._announced import announced_times, codec_of
from recon4d.capture.video._container import announced_frames
from recon4d.capture.video._part import Part, cut
from recon4d.capture.video._video import decode, frames

__all__ = ["Part", "announced_frames", "announced_times", "codec_of", "cut", "decode", "frames"]
