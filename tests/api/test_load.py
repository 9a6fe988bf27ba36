"""Many listeners and many pictures while a job trains."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.api.service import running
from tests.benchmarks.service import measure


@pytest.mark.slow
def test_nobody_misses_an_event_while_many_look_and_a_job_trains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path / "data") as server:
        load = measure(server, listeners=200, renders=50)
    with capsys.disabled():
        sys.stdout.write(f"\n{asdict(load)}\n")
    assert load.events > 100
    assert load.wrong == 0
    assert load.reconnections > 200
    assert load.faults == []
    assert load.pictures > 50
