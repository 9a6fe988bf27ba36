"""What ``deploy/`` says and holds, against the code."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from api.settings import Settings
from tests.api import tus
from tests.api.service import running

DEPLOY = Path(__file__).parents[3] / "deploy"
README = (DEPLOY / "README.md").read_text("utf-8")


def test_the_table_of_settings_is_whole() -> None:
    listed = re.findall(r"^\| `RECON4D_(\w+)` \| (.+?) \|", README, re.MULTILINE)
    assert {name.lower() for name, _ in listed} == set(Settings.model_fields)
    defaults = Settings().variables()
    for name, text in listed:
        value, unit = defaults[f"RECON4D_{name}"], re.fullmatch(r"(\d+) GiB", text)
        said = str(int(unit[1]) * 2**30) if unit else text.strip("`")
        assert value.removesuffix(".0") == said, name


def test_what_the_unit_and_the_container_run_is_there() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.read(DEPLOY / "recon4d.service")
    assert unit["Service"]["ExecStart"].endswith("/recon4d serve")
    container = (DEPLOY / "Containerfile").read_text("utf-8")
    for copied in re.findall(r"^COPY (.+) \S+$", container, re.MULTILINE):
        assert all((DEPLOY.parent / name).exists() for name in copied.split())


def test_a_backup_as_described_is_a_service_again(tmp_path: Path) -> None:
    (script,) = (block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "VACUUM" in block)
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    with running(tmp_path / "recon4d-data", worker=False) as service, service.client() as client:
        capture, times = tus.capture(client), b"[0.0, 0.1]"
        form = {"camera": "c0", "kind": "timestamps"}
        assert client.post(f"/v1/captures/{capture}/files", data=form, files={"file": times}).status_code == 201
        upload = tus.begin(client, capture, 10)
        tus.append(client, upload, 0, b"01234")
        for _ in range(2):  # The second time it is there already.
            subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, check=True)
        # What comes later is not in it.
        later, state = tus.capture(client), client.get(f"/v1/captures/{capture}").json()
    with running(tmp_path / "recon4d-backup", worker=False) as restored, restored.client() as client:
        assert client.get(f"/v1/captures/{capture}").json() == state
        assert client.get(f"/v1/captures/{later}").status_code == 404
        (file,) = (restored.data_dir / "captures" / capture).iterdir()
        assert file.read_bytes() == times
        assert tus.append(client, upload, tus.stands(client, upload), b"56789").status_code == 204
