"""How CPU kernels are compiled: once per machine, cached on disk, and said aloud the first time.

Kernels and the intrinsics that they use live in one file, because the on-disk cache is stamped with the
source of the file that defines the jitted function; a kernel that takes code from others names them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from numba import njit, set_num_threads

_kernels: list[Any] = []  # Numba dispatchers have no public static type.


def kernel(
    *, parallel: bool = False, fastmath: bool | set[str] = True, uses: Sequence[ModuleType] = ()
) -> Callable[[Callable], Any]:
    """Decorates a CPU kernel: nogil, IEEE division, cached on disk, registered for ``cold``.

    Kernels are pure loops over NumPy arrays. A parallel kernel must write every output from exactly one
    iteration, so that results are bit-equal for any number of threads. ``uses`` are the modules, beside the kernel's
    own, whose jitted functions and intrinsics become part of it: it is compiled anew when one of their files changes.
    """

    def wrap(function: Callable) -> Any:
        # No public static type either.
        compiled: Any = njit(
            function, parallel=parallel, fastmath=fastmath, error_model="numpy", nogil=True, cache=True
        )
        if uses:
            file = compiled._cache._cache_file  # No public way either; checked by the same test.
            others = [os.stat(str(module.__file__)) for module in uses]
            file._source_stamp = (file._source_stamp, *((other.st_mtime, other.st_size) for other in others))
        _kernels.append(compiled)
        return compiled

    return wrap


def cold() -> list[str]:
    """Names of the registered kernels that have no compiled code in memory or in the on-disk cache."""
    return [k.py_func.__name__ for k in _kernels if not k.signatures and not _is_cached(k)]


def use_threads(count: int) -> None:
    """Sets the threads that CPU kernels and torch's CPU operations use in this process."""
    import torch
    from numba.np.ufunc.parallel import get_thread_count

    torch.set_num_threads(count)
    set_num_threads(min(count, get_thread_count()))


def _is_cached(dispatcher: Any) -> bool:
    cache = dispatcher._cache  # No public way to ask; checked by tests/contracts/test_jit.py.
    return os.path.exists(os.path.join(cache.cache_path, cache._cache_file._index_name))
