"""What holds for every test process."""

from __future__ import annotations

import os

import pytest

SIDE_BY_SIDE = "PYTEST_XDIST_WORKER" in os.environ
"""Whether other processes run tests beside this one: then each keeps to one core, and waits without spinning."""

if SIDE_BY_SIDE:  # Before anything starts threads; child processes inherit it.
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


def pytest_sessionstart(session: pytest.Session) -> None:
    if SIDE_BY_SIDE:
        from recon4d import jit

        jit.use_threads(1)
