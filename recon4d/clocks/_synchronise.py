"""The door: clocks of a capture's cameras."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from recon4d.capture import Source, read_sources
from recon4d.clocks._audio import synchronise_by_sound
from recon4d.clocks._config import SyncConfig
from recon4d.clocks._filmed import STAGE, film
from recon4d.clocks._geometric import synchronise_by_motion
from recon4d.clocks._table import Synchronised
from recon4d.errors import CaptureError, ConfigError
from recon4d.events import Finished, OnEvent, ShouldStop, Started, Warned, ignore, never


def synchronise(
    capture: Path | str,
    config: SyncConfig | None = None,
    *,
    on_event: OnEvent = ignore,
    should_stop: ShouldStop = never,
) -> Synchronised:
    """Finds offset and drift of every camera's clock against one of them.

    By motion: moving image points are followed in each video; two tracks of one point lie in one plane through both
    cameras' centres at every instant, and the clocks are those at which they do. It needs a calibrated rig, and things
    that move unevenly in views that overlap; what is seen of them may differ. By sound: phase correlation.

    Args:
        capture: a capture folder; only read. Times that it gives are where the search begins.
        config: how to look.
        on_event: gets ``Started``, ``Progress`` (in cameras), ``Warned`` and ``Finished`` of the stage "sync".
        should_stop: asked between frames.

    Returns:
        A row for every camera. One without a clock to be relied on is refused with its reason, and raises nothing here:
        see ``Synchronised.require``.

    Raises:
        ConfigError: there is no such reference camera.
        CaptureError: the capture cannot be read, or no two cameras can be tied: too little moves, say.
        Stopped: ``should_stop`` said so.
    """
    began, config = time.monotonic(), config or SyncConfig()
    sources = read_sources(capture)
    names = [source.name for source in sources]
    if config.reference is not None and config.reference not in names:
        raise ConfigError(f"there is no camera '{config.reference}' to refer to; there are {names}")
    on_event(Started(stage=STAGE, total=len(sources), detail=f"{len(sources)} cameras"))
    result = synchronise_by_sound(sources, config) if config.method == "audio" else None
    result = result or _by_motion(sources, config, on_event, should_stop)
    timed = {source.name for source in sources if source.timed}
    for clock in result.clocks:
        if config.method == "auto" and clock.status == "fitted" and clock.camera in timed:
            said = f"the times given are off by {1e3 * clock.moved_s:+.1f} ms and are replaced"
            on_event(Warned(stage=STAGE, message=f"camera '{clock.camera}': {said}"))
    on_event(Finished(stage=STAGE, seconds=time.monotonic() - began, detail=f"by {result.method}"))
    return result


def _by_motion(
    sources: Sequence[Source], config: SyncConfig, on_event: OnEvent, should_stop: ShouldStop
) -> Synchronised:
    """By motion; with the method "auto" by sound where motion leaves cameras unsettled and sound does better."""
    views = film(sources, on_event, should_stop)
    try:
        by_motion = synchronise_by_motion(sources, views, config)
    except CaptureError as unmoved:
        by_sound = _if_heard(sources, config)
        if by_sound is None:
            raise
        on_event(Warned(stage=STAGE, message=f"by sound, as {unmoved}"))
        return by_sound
    by_sound = _if_heard(sources, config) if by_motion.refused else None
    if by_sound is None or len(by_sound.refused) >= len(by_motion.refused):
        return by_motion
    unsettled = ", ".join(f"'{clock.camera}': {clock.reason}" for clock in by_motion.refused)
    on_event(Warned(stage=STAGE, message=f"by sound, as motion leaves {unsettled}"))
    return by_sound


def _if_heard(sources: Sequence[Source], config: SyncConfig) -> Synchronised | None:
    """By sound, where the method allows it and the videos have any."""
    if config.method != "auto":
        return None
    try:
        return synchronise_by_sound(sources, config)
    except CaptureError:
        return None  # What motion says of the capture is the better answer then.
