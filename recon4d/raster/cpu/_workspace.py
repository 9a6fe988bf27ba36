"""Scratch memory that is kept from one call to the next: fresh megabytes cost page faults at every step."""

from __future__ import annotations

import threading
from math import prod

import numpy as np

_KEPT = 4
"""Idle workspaces kept: a training step uses one a camera, a few renders may be alive at once."""
_ALIGNMENT = 64
_SLACK = 1.25
"""Growth beyond what is asked for, so that slowly growing scenes do not reallocate at each step."""


class Workspace:
    """Named arrays, reused and grown; contents are undefined when they are handed out."""

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        """A C-contiguous array aligned to a cache line, valid until the same name is asked for again."""
        size = prod(shape) * np.dtype(dtype).itemsize
        memory = self._memory.get(name)
        if memory is None or memory.nbytes < size + _ALIGNMENT:
            memory = self._memory[name] = np.empty(int(size * _SLACK) + _ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        return memory[start : start + size].view(dtype).reshape(shape)


class Lease:
    """A workspace lent to one render; it goes back when the last reference to the lease does."""

    def __init__(self) -> None:
        with _lock:
            self.workspace = _idle.pop() if _idle else Workspace()

    def __del__(self) -> None:
        with _lock:
            if len(_idle) < _KEPT:
                _idle.append(self.workspace)


_idle: list[Workspace] = []
# Reentrant: a garbage collection may end a lease while another one begins in the same thread.
_lock = threading.RLock()
