"""From a config to a capture folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bench_generator._config import BenchConfig
from bench_generator._files import block_colour_mask, test_times, write_capture, write_truth
from bench_generator._motion import draw_motion
from bench_generator._render import Stage
from bench_generator._rig import HELDOUT, RigCamera, clock, draw_rig
from bench_generator._textures import to_8bit
from bench_generator._video import write_video
from bench_generator._world import build_world

MIN_BLOCK_PIXELS = 150
"""Of the block's colour in each held-out view at each test instant, at 320x240."""
MIN_SEEING_CAMERAS = 4
"""Training cameras that see at least that much of the block at each test instant."""
ATTEMPTS = 25


def generate(folder: Path, config: BenchConfig, *, report: Callable[[str], None] = lambda line: None) -> Path:
    """Draws one bench capture into a folder (made when absent) and returns its capture.json.

    Args:
        folder: where capture.json, the videos, the timestamp files and the truth go; existing ones are replaced.
        config: what to draw.
        report: receives a line of text as the work advances.

    Raises:
        NoGraphicsError: MuJoCo is absent or finds no OpenGL.
        RuntimeError: no drawn layout kept the block in sight; another seed helps.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for attempt in range(ATTEMPTS):
        motion = draw_motion(config.rng("motion", attempt), config.seconds)
        rig = draw_rig(config, attempt)
        with Stage(config, build_world(config, motion, rig, attempt), motion, rig) as stage:
            if not _block_in_sight(config, rig, stage):
                report(f"layout {attempt} hides the block; drawing another")
                continue
            for camera in rig:
                _write_clip(folder, config, camera, stage)
                report(f"{camera.name}: {len(camera.times_s)} frames")
            write_capture(folder, config, rig)
            write_truth(folder, config, motion, rig, stage)
        return folder / "capture.json"
    raise RuntimeError(f"seed {config.seed}: none of {ATTEMPTS} layouts keeps the block in sight; try another seed")


def _block_in_sight(config: BenchConfig, rig: tuple[RigCamera, ...], stage: Stage) -> bool:
    needed = MIN_BLOCK_PIXELS * config.width * config.height / (320 * 240)
    zero = clock(rig)[0]
    for t in test_times(rig):
        seen = {c.name: block_colour_mask(stage.colour(c, t + zero)).sum() >= needed for c in rig}
        if not all(seen[name] for name in HELDOUT) or sum(seen.values()) - len(HELDOUT) < MIN_SEEING_CAMERAS:
            return False
    return True


def _write_clip(folder: Path, config: BenchConfig, camera: RigCamera, stage: Stage) -> None:
    # Cameras with a timestamp file have a container that claims a constant rate, as most recorders write it.
    times = np.arange(len(camera.times_s)) / camera.fps if camera.has_timestamps else camera.times_s
    write_video(folder / f"{camera.name}.mp4", _frames(config, camera, stage), times, fps=camera.fps, crf=config.crf)


def _frames(config: BenchConfig, camera: RigCamera, stage: Stage) -> Iterator[np.ndarray]:
    """What the sensor delivers: exposure, noise and rounding over the drawn picture."""
    rng = config.rng(f"noise-{camera.name}")
    for t in camera.times_s:
        image = stage.colour(camera, t) * camera.gain
        yield to_8bit(image + rng.normal(0.0, config.noise_8bit / 255, image.shape))
