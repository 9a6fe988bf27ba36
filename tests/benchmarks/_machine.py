"""What else the machine did while something was measured."""

from __future__ import annotations

import os
import time
from types import TracebackType

_BUSY = (0, 1, 2, 5, 6, 7)
"""Columns of the first line of /proc/stat that are work: user, nice, system, irq, softirq, steal."""
_WORTH_SAYING = 0.1
"""Cores. Less than this is what the system and its clocks' grain amount to."""


class Others:
    """While inside, counts what other processes used; this one and its ended children do not count."""

    cores: float | None = None
    """Mean number of cores; None before the end, and where there is no /proc/stat."""

    def __enter__(self) -> Others:
        self._began_s, self._used_s = time.monotonic(), _used_by_others_s()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now_s = _used_by_others_s()
        if now_s is not None and self._used_s is not None:
            wall_s = max(time.monotonic() - self._began_s, 1e-9)
            self.cores = round(max(now_s - self._used_s, 0.0) / wall_s, 2)


def note(cores: float | None) -> str:
    """A line on how far to trust the times."""
    if cores is None:
        return "what else ran on this machine is unknown: it has no /proc/stat"
    line = f"other processes used {cores:.2f} of {os.cpu_count()} cores meanwhile"
    return f"NOTE: {line}; on an idle machine times are shorter and ratios other" if cores > _WORTH_SAYING else line


def _used_by_others_s() -> float | None:
    """CPU seconds, from an arbitrary zero, of all processes but this one and its ended children."""
    try:
        with open("/proc/stat") as file:
            ticks = file.readline().split()[1:]
    except FileNotFoundError:
        return None
    own = os.times()
    own_s = own.user + own.system + own.children_user + own.children_system
    return sum(int(ticks[column]) for column in _BUSY) / os.sysconf("SC_CLK_TCK") - own_s
