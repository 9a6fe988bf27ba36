"""``recon4d keys``, and what a service does with the keys that it made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recon4d.commands import main
from tests.api.service import running


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["keys", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_key_is_made_used_shown_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    code, key, _ = run(capsys, "create", "robot", "--scopes", "read", *data)
    assert code == 0
    assert key.startswith("r4d_")
    with running(tmp_path / "data", worker=False, host="0.0.0.0") as service:
        url = service.url.replace("0.0.0.0", "127.0.0.1")
        with service.client() as client:
            client.headers["Authorization"] = f"Bearer {key.strip()}"
            assert client.get(f"{url}/v1/captures").status_code == 200
            assert client.post(f"{url}/v1/captures", json={"name": "a"}).status_code == 403
            _, shown, _ = run(capsys, "list", *data)
            id = shown.split()[0]
            assert "robot" in shown
            assert key.strip() not in shown
            assert run(capsys, "revoke", id, *data)[0] == 0
            assert client.get(f"{url}/v1/captures").status_code == 401
            assert client.get(f"{url}/livez").status_code == 200
    assert "revoked 2" in run(capsys, "list", *data)[1]


def test_what_cannot_be_done_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    code, _, err = run(capsys, "create", "robot", "--scopes", "fly", *data)
    assert (code, "got fly" in err) == (2, True)
    code, _, err = run(capsys, "revoke", "key_none", *data)
    assert (code, "there is no key 'key_none'" in err) == (2, True)


def test_a_folder_without_a_service_is_said_and_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in (("list",), ("revoke", "key_none")):
        code, _, err = run(capsys, *action, "--data-dir", str(tmp_path / "typo"))
        assert (code, "is no service's folder" in err) == (2, True)
    assert not (tmp_path / "typo").exists()


def test_a_database_that_is_none_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recon4d.db").write_text("no database, but longer than its header: " + "x" * 200)
    (tmp_path / "file").write_text("")
    for folder, word in ((tmp_path, "file is not a database"), (tmp_path / "file", "File exists")):
        code, _, err = run(capsys, "create", "robot", "--data-dir", str(folder))
        assert (code, word in err, "Traceback" in err) == (5, True, False)


WITHOUT_PACKAGES = """
import sys
for name in ("fastapi", "sqlalchemy", "pydantic_settings"):
    sys.modules[name] = None
from recon4d.commands import main
codes = [main(["keys", "list"]), main(["serve"])]
print(codes, "torch" in sys.modules)
"""


def test_missing_packages_are_named_with_their_extra_and_commands_load_fast(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ)
    assert done.stdout == "[6, 6] False\n"
    assert done.stderr.count("pip install 'recon4d[service]'") == 2
