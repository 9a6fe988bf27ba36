"""Progress over frames."""

from __future__ import annotations

import time

from recon4d.errors import Stopped
from recon4d.events import OnEvent, Progress, ShouldStop

_EVERY = 50
"""Frames between two events."""


class Ticker:
    """Counts decoded frames, says so now and then, and ends the work when asked to."""

    def __init__(self, stage: str, total: int, on_event: OnEvent, should_stop: ShouldStop) -> None:
        self._stage = stage
        self._total = total
        self._on_event = on_event
        self._should_stop = should_stop
        self._step = 0
        self._began = time.monotonic()

    def tick(self, *, last: bool = False) -> None:
        """One more frame, or the end of a video.

        Raises:
            Stopped: on request.
        """
        if self._should_stop():
            raise Stopped("stopped while decoding; nothing is kept, and the next run decodes again")
        self._step += not last
        if last or self._step % _EVERY == 0:
            total = max(self._total, self._step)
            eta_s = (time.monotonic() - self._began) / max(self._step, 1) * (total - self._step)
            self._on_event(Progress(stage=self._stage, step=self._step, total=total, eta_s=eta_s))
