"""From a work's events to one number."""

from __future__ import annotations

from recon4d import events
from recon4d.events import Event


class Progress:
    """How much of a job is done, as far as its events tell.

    Args:
        stages: share of the time by stage, in order; they add up to one.
    """

    def __init__(self, stages: dict[str, float]) -> None:
        self._stages = stages
        self.stage = ""
        self.fraction = 0.0
        self.eta_s: float | None = None

    def hear(self, event: Event) -> None:
        """Takes the next event. Stages that the kind does not know change nothing."""
        if event.stage not in self._stages:
            return
        names = list(self._stages)
        before = sum(self._stages[name] for name in names[: names.index(event.stage)])
        share = self._share(event)
        self.stage = event.stage
        self.fraction = max(self.fraction, min(1.0, before + share * self._stages[event.stage]))
        self.eta_s = event.eta_s if isinstance(event, events.Progress) else None

    @staticmethod
    def _share(event: Event) -> float:
        if isinstance(event, events.Progress):
            return event.step / max(event.total, 1)
        return 1.0 if isinstance(event, events.Finished) else 0.0
