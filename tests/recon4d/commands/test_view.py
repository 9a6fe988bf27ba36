"""``recon4d view`` as a process: it prints an address, answers there, and ends at Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from recon4d.commands import main
from recon4d.scene import save
from tests.recon4d.show.world import scene as tiny_scene


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_scene_is_served_until_ctrl_c(tmp_path: Path, end: signal.Signals) -> None:
    (tmp_path / "temporary").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    save(tiny_scene(), tmp_path / "scene")
    command = [sys.executable, "-m", "recon4d", "view", str(tmp_path / "scene")]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell's background jobs ignore Ctrl-C, and so would all that they start: also when these tests are one.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address) as page:
                assert b"player" in page.read()
            with urllib.request.urlopen(address + "view/view.json") as view:
                assert json.load(view)["counts"] == {"static": 2, "dynamic": 1}
            with pytest.raises(urllib.error.HTTPError, match="421"):  # A name that was made to lead here.
                urllib.request.urlopen(urllib.request.Request(address, headers={"Host": "elsewhere.example:80"}))
            with urllib.request.urlopen(address.replace("127.0.0.1", "localhost")) as page:
                assert page.status == 200
            process.send_signal(end)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert errors == ""
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_port_that_is_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    save(tiny_scene(), tmp_path / "scene")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["view", str(tmp_path / "scene"), "--port", port]) == 2
    assert f"port {port} cannot be used" in capsys.readouterr().err
