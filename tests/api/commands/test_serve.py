"""The service as a process: how it starts, ends, and refuses to start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.api.service import running


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "recon4d", *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


def test_it_answers_logs_json_and_ends_cleanly(tmp_path: Path) -> None:
    with running(tmp_path / "data", worker=False) as service:
        with service.client() as client:
            assert client.get("/livez").json() == {"status": "alive"}
            assert client.get("/readyz").json() == {"status": "ready"}
        again = run("serve", "--data-dir", str(service.data_dir), "--port", "0", "--no-worker")
        assert again.returncode == 5
        assert "another service uses the data folder" in again.stderr
        assert service.stop() == 0
        lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    asked = {line["path"]: line["status"] for line in lines if line["message"] == "request"}
    assert asked == {"/livez": 200, "/readyz": 200}


def test_without_a_key_it_listens_to_this_machine_alone(tmp_path: Path) -> None:
    refused = run("serve", "--data-dir", str(tmp_path / "data"), "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "there is no API key" in refused.stderr


def test_a_setting_out_of_range_is_named(tmp_path: Path) -> None:
    refused = run("serve", "--data-dir", str(tmp_path), RECON4D_PORT="99999")
    assert refused.returncode == 2
    assert "port: Input should be less than or equal to 65535" in refused.stderr
