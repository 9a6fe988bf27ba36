"""How long a pixel keeps its colour: life spans of dynamic seeds, and which pixels to seed.

A *run* is a maximal stretch of key frames over which a pixel changes by less than a threshold from each to the
next. A resting object is one long run; a moving one is many short ones. Runs are sampled so that each counts
for its share of foreground frames, however long it lasts: a resting object costs few Gaussians.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recon4d.points._foreground import Foreground, largest_difference


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Sampled runs of one camera's pixels; n rows."""

    camera: np.ndarray
    """[n] int32."""
    pixel: np.ndarray
    """[n] int32, row * width + column."""
    first: np.ndarray
    """[n] int32, key-frame number where the run begins."""
    last: np.ndarray
    """[n] int32, key-frame number of its end, included."""
    chosen: np.ndarray
    """[n] int32, key-frame number, one of the run's foreground frames."""
    key: np.ndarray
    """[n] float64, sampling keys: the largest are the sample."""

    @classmethod
    def concatenate(cls, parts: list[Runs]) -> Runs:
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__})

    def top(self, count: int) -> Runs:
        """The ``count`` rows with the largest keys, in their present order."""
        if len(self.key) <= count:
            return self
        keep = np.sort(np.argpartition(-self.key, count)[:count])
        return Runs(**{name: getattr(self, name)[keep] for name in Runs.__annotations__})


def sample_runs(
    foreground: Foreground, camera: int, frames: np.ndarray, *, threshold: float, count: int, rng: np.random.Generator
) -> Runs:
    """A weighted sample of one camera's runs, in one pass over its key frames and in constant memory.

    Weighted sampling without replacement by exponential keys (Efraimidis & Spirakis 2006): a run's weight is
    the share of its frames that are foreground, and the sample is the ``count`` largest log(u) / weight.

    Args:
        frames: [F] indices of the camera's key frames.
        threshold: largest channel change in [0, 1] between key frames within a run.
        count: at most so many runs are kept.
    """
    clip = foreground.clips[camera]
    pixels = clip.camera.width * clip.camera.height
    first = np.zeros(pixels, np.int32)
    seen = np.zeros(pixels, np.int32)  # Foreground frames in the pixel's present run.
    chosen = np.zeros(pixels, np.int32)
    kept = _emit(camera, np.zeros(0, np.int64), first, seen, chosen, 0, rng)
    pending: list[Runs] = []
    previous: np.ndarray | None = None
    for number, frame in enumerate(frames):
        image = clip.frames[int(frame)]
        if previous is not None:
            changed = (largest_difference(image, previous) > threshold * 255).ravel()
            ended = np.flatnonzero(changed & (seen > 0))
            pending.append(_emit(camera, ended, first, seen, chosen, number - 1, rng))
            first[changed] = number
            seen[changed] = 0
            if sum(len(part.key) for part in pending) > 2 * count:
                kept, pending = Runs.concatenate([kept, *pending]).top(count), []
        moving = np.flatnonzero(foreground.mask(camera, int(frame)).ravel())
        seen[moving] += 1
        replaced = moving[rng.random(len(moving)) * seen[moving] < 1]  # Reservoir of one a run.
        chosen[replaced] = number
        previous = image
    open_ended = np.flatnonzero(seen > 0)
    pending.append(_emit(camera, open_ended, first, seen, chosen, len(frames) - 1, rng))
    return Runs.concatenate([kept, *pending]).top(count)


def _emit(
    camera: int,
    pixel: np.ndarray,
    first: np.ndarray,
    seen: np.ndarray,
    chosen: np.ndarray,
    last: int,
    rng: np.random.Generator,
) -> Runs:
    length = last - first[pixel] + 1
    weight = seen[pixel] / np.maximum(length, 1)
    return Runs(
        camera=np.full(len(pixel), camera, np.int32),
        pixel=pixel.astype(np.int32),
        first=first[pixel].copy(),
        last=np.full(len(pixel), last, np.int32),
        chosen=chosen[pixel].copy(),
        key=np.log(rng.random(len(pixel))) / np.maximum(weight, 1e-9),
    )
