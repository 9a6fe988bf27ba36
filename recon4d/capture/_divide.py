"""What is trained on, and what is kept to be scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from recon4d.errors import ConfigError
from recon4d.types import Capture, SplitRule


@dataclass(frozen=True, kw_only=True)
class Division:
    """A capture cut in two by a rule."""

    train: Capture
    """Only training cameras, and of each only the frames outside every guard: all that training may read."""
    heldout: Capture
    """All cameras with all frames, to score against."""
    test_times: np.ndarray
    """[T] float64, the held-out instants, seconds on the capture clock."""

    def exposed(self, exposures: Mapping[str, float]) -> Division:
        """The same division with the named cameras' exposures set."""
        return replace(self, train=self.train.exposed(exposures), heldout=self.heldout.exposed(exposures))


def divide(capture: Capture, rule: SplitRule | None = None) -> Division:
    """Cuts a capture by a rule; the capture's own when None.

    A training frame has |t_frame - t_test| >= guard_s for every held-out instant.

    Raises:
        ConfigError: the rule names unknown cameras, has values out of range, or leaves nothing to train on.
    """
    rule = capture.split if rule is None else rule
    names = [camera.name for camera in capture.cameras]
    unknown = [name for name in rule.heldout_cameras if name not in names]
    if unknown:
        raise ConfigError(f"held-out cameras {unknown} do not exist; there are {names}")
    if not rule.grid_s > 0 or rule.every < 0 or rule.first < 0 or not rule.guard_s >= 0:
        raise ConfigError(f"a split rule needs grid_s > 0, and every, first and guard_s of at least 0; it is {rule}")
    kept = [clip for clip in capture.clips if clip.camera.name not in rule.heldout_cameras]
    if not kept:
        raise ConfigError(f"all cameras are held out: {names}; leave at least one to train on")
    test_times = rule.test_times(capture.duration_s)
    clips = []
    for clip in kept:
        index = _outside(clip.times, test_times, rule.guard_s)
        if not len(index):
            raise ConfigError(
                f"a guard of {rule.guard_s:g} s around {len(test_times)} held-out instants leaves no frame of camera"
                f" '{clip.camera.name}' to train on; lower guard_s, or raise every"
            )
        clips.append(clip.select(index))
    return Division(
        train=replace(capture, clips=tuple(clips), split=rule),
        heldout=replace(capture, split=rule),
        test_times=test_times,
    )


def _outside(times: np.ndarray, test_times: np.ndarray, guard_s: float) -> np.ndarray:
    """Indices of the times at least ``guard_s`` from every held-out instant."""
    outside = np.ones(len(times), bool)
    for test_time in test_times:
        outside &= np.abs(times - test_time) >= guard_s
    return np.flatnonzero(outside)
