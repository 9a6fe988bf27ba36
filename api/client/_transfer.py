"""Several files at once, told as one stage."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from recon4d.errors import Stopped
from recon4d.events import Finished, OnEvent, Progress, Started

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 4
_PARTS = 200
"""Events a transfer, at most."""


class Meter:
    """Bytes of several files as the progress of one stage; may be told from several threads.

    Args:
        stage: ``upload`` or ``download``.
        total: bytes of all files.
        on_event: called by one thread at a time.
    """

    def __init__(self, stage: str, total: int, on_event: OnEvent) -> None:
        self._stage, self._total, self._on_event = stage, total, on_event
        self._lock = threading.Lock()
        self._stopped = False
        self._at: dict[str, int] = {}
        self._told = 0
        self._first = 0
        self._began = time.monotonic()

    def of(self, name: str) -> Callable[[int], None]:
        """What a file's transfer calls with its bytes so far."""

        def on_bytes(count: int) -> None:
            with self._lock:
                if self._stopped:
                    raise Stopped("the transfer was stopped; what has arrived is kept")
                if name not in self._at:
                    self._first += count  # Was there already: says nothing about the speed.
                self._at[name] = count
                self._tell()

        return on_bytes

    def stop(self) -> None:
        """From now on transfers end at their next bytes."""
        with self._lock:
            self._stopped = True

    def _tell(self) -> None:
        done = sum(self._at.values())
        if done < self._total and done - self._told < self._total / _PARTS:
            return
        self._told = done
        moved, seconds = done - self._first, time.monotonic() - self._began
        eta_s = seconds * (self._total - done) / moved if moved > 0 else None
        self._on_event(Progress(stage=self._stage, step=done, total=self._total, eta_s=eta_s))


def transfer(
    stage: str,
    items: Sequence[Item],
    work: Callable[[Item, Callable[[int], None]], Result],
    sizes: Sequence[int],
    on_event: OnEvent,
) -> list[Result]:
    """Does ``work`` on every item, several at once; the first error, or Ctrl-C, stops them all.

    Args:
        stage: ``upload`` or ``download``.
        items: what is moved.
        work: moves one of them, and calls its second argument with the bytes so far.
        sizes: bytes of each.
        on_event: told of all of them together.

    Returns:
        Results in the order of the items.
    """
    began = time.monotonic()
    total = sum(sizes)
    on_event(Started(stage=stage, total=total, detail=f"{len(items)} files, {total / 2**20:.1f} MiB"))
    meter = Meter(stage, total, on_event)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix=stage) as pool:
        moving = [pool.submit(work, item, meter.of(str(number))) for number, item in enumerate(items)]
        try:
            for one in as_completed(moving):
                one.result()
        except BaseException:
            meter.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    on_event(Finished(stage=stage, seconds=time.monotonic() - began))
    return [one.result() for one in moving]
