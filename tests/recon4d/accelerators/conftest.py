"""Every test here runs on a machine that has nothing but what the test says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recon4d.accelerators.machine import Machine


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)
