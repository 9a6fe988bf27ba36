"""Generator of a synthetic bench capture with known truth.

Purpose: a small multi-camera capture that ships and that tests can score against: an arm carries a red block in an arc
over a textured bench among other things, seen by eight unsynchronised cameras of which two are held out. Pictures are
drawn by MuJoCo's own OpenGL renderer, so no code of `recon4d` stands on both sides of a comparison.

Input: :class:`BenchConfig` (seed, size, length). The seed changes textures, colours (never the block's hue), layout,
path, cameras, clocks and exposures.
Output: :func:`generate` writes a capture folder: `capture.json`, one MP4 a camera, timestamp files, and the truth
(`truth.json`, `truth.npz`).
Owns: the world, the motion, the rig, the drawing and the encoding of this sample.
Does not own: the capture format (`recon4d.capture` reads it) and the scoring.
"""

from bench_generator._config import BenchConfig, NoGraphicsError
from bench_generator._generate import generate

__all__ = ["BenchConfig", "NoGraphicsError", "generate"]
