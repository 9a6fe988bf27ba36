"""The service as a process: how it starts, ends, and refuses to start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.api.service import command, running, wait_until


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


def test_a_worker_that_dies_is_replaced_and_none_outlives_the_service(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service:
        (first,) = wait_until(lambda: service.worker_pids, 60, "a worker")
        service.kill_worker()
        (second,) = wait_until(lambda: [pid for pid in service.worker_pids if pid != first], 60, "another worker")
        service.kill_web()
        wait_until(lambda: "api.jobs" not in command(second), 60, "the end of the orphan")
        service.start()
        (third,) = wait_until(lambda: service.worker_pids, 60, "a worker")
        assert service.stop() == 0
        assert "api.jobs" not in command(third)


def test_the_web_process_takes_no_tensor_library(tmp_path: Path) -> None:
    with running(tmp_path / "data", worker=False) as service:
        with service.client() as client:
            assert client.get("/v1/scenes").status_code == 200
        assert "libtorch" not in Path(f"/proc/{service.web_pid}/maps").read_text()


def test_without_a_key_it_listens_to_this_machine_alone(tmp_path: Path) -> None:
    refused = run("serve", "--data-dir", str(tmp_path / "data"), "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "there is no API key" in refused.stderr


def test_a_setting_out_of_range_is_named(tmp_path: Path) -> None:
    refused = run("serve", "--data-dir", str(tmp_path), RECON4D_PORT="99999")
    assert refused.returncode == 2
    assert "port: Input should be less than or equal to 65535" in refused.stderr


def test_a_database_that_is_none_is_said_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "recon4d.db").write_text("no database, but longer than its header: " + "x" * 200)
    refused = run("serve", "--data-dir", str(tmp_path), "--port", "0")
    assert refused.returncode == 5
    assert refused.stderr.startswith(
        f"error: the service's database '{tmp_path / 'recon4d.db'}' cannot be used: file is"
    )
    assert refused.stdout == ""
