"""What the client does before and beside its requests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from api.client import Artifact, Client, Job, JobFailed, ServiceError
from api.client._download import place
from api.client._errors import refusal
from api.client._events import engine_event, parse
from api.client._folder import read_folder
from recon4d import events
from recon4d.errors import CaptureError

SAID = [
    events.Started(stage="joint", total=3, detail="slow"),
    events.Progress(stage="joint", step=1, total=3, eta_s=2.0, loss=0.5, psnr=20.0, splats=9, active=4),
    events.Progress(stage="joint", step=2, total=3),
    events.Refined(stage="joint", step=2, moved=1, splats=10),
    events.Scored(stage="score", scores={"train": {"psnr": 20.0}}),
    events.Saved(stage="report", path="report.html"),
    events.Warned(stage="ingest", message="dark"),
    events.Finished(stage="joint", seconds=1.5, reused=True),
]


@pytest.mark.parametrize("event", SAID, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_from_its_line(event: events.Event) -> None:
    assert events.from_json(json.loads(json.dumps(events.to_json(event)))) == event


def test_every_kind_of_event_comes_back() -> None:
    assert {type(event) for event in SAID} == set(events.Event.__subclasses__())
    assert events.from_json({"event": "of another version"}) is None


def sent(*told: tuple[int, dict]) -> list[str]:
    lines: list[str] = []
    for seq, data in told:
        lines += [f"id: {seq}", f"data: {json.dumps({'seq': seq, 'at': '2026-01-01T00:00:00Z', 'data': data})}", ""]
    return lines


def test_a_stream_is_read_to_its_last_whole_event() -> None:
    queued, running, done = ({"event": "state", "state": state} for state in ("queued", "running", "succeeded"))
    lines = [": ping", "", *sent((1, queued), (2, running)), ": ping", "", *sent((3, done))]
    assert [(event.seq, event.data) for event in parse(lines)] == [(1, queued), (2, running), (3, done)]
    assert [event.last for event in parse(lines)] == [False, False, True]
    assert [event.seq for event in parse(lines[:-1])] == [1, 2]  # The blank line that ends the third never came.


def test_waiting_for_a_slot_looks_like_a_stage() -> None:
    told = list(parse(sent((1, {"event": "state", "state": "queued"}), (2, {"event": "state", "state": "failed"}))))
    started = engine_event(told[0])
    assert isinstance(started, events.Started)
    assert started.stage == "queue"
    assert engine_event(told[1]) is None


def test_a_refusal_says_what_the_problem_says() -> None:
    problem = {
        "type": "urn:recon4d:problem:invalid",
        "detail": "two fields are wrong.",
        "errors": [{"pointer": "/preset", "detail": "is 'slow'"}, {"pointer": "/name", "detail": "is empty"}],
        "hint": "See /v1/options.",
    }
    error = refusal(422, json.dumps(problem).encode())
    assert str(error) == "two fields are wrong; /preset: is 'slow'; /name: is empty. See /v1/options."
    assert (error.status, error.kind, error.exit_code) == (422, "invalid", 9)


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"[1]", b'{"other": 1}', b"\xff\xfe"])
def test_a_refusal_that_is_no_problem_is_told_too(body: bytes) -> None:
    error = refusal(502, body)
    assert "502" in str(error)
    assert error.kind == ""


@pytest.mark.parametrize(
    ("kind", "code"), [("capture", 3), ("calibration", 3), ("configuration", 2), ("diverged", 7), ("internal", 9)]
)
def test_a_failed_job_ends_as_the_same_fault_does_here(kind: str, code: int) -> None:
    assert JobFailed("failed", {"type": f"urn:recon4d:problem:{kind}", "status": 422}).exit_code == code


def test_records_leave_out_what_they_do_not_know() -> None:
    job = Job.of({"id": "job_1", "kind": "check", "state": "cancelled", "weather": "fine"})
    assert job.over
    assert not Job.of({"id": "job_2", "kind": "check"}).over


@pytest.mark.parametrize("name", ["../scene.json", "/etc/passwd", "a/../../b", "", "..", "a\\..\\b"])
def test_a_file_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    artifact = Artifact(name=name, size=1, sha256="", media_type="", url="")
    with pytest.raises(ServiceError, match="no place within"):
        place(artifact, tmp_path)


def test_a_folder_names_its_files(tmp_path: Path) -> None:
    cameras = [{"name": "a", "video": "a.mp4", "timestamps": "t/a.json"}, {"name": "b", "video": "b.mp4"}]
    (tmp_path / "capture.json").write_text(json.dumps({"cameras": cameras}))
    (tmp_path / "t").mkdir()
    for name in ("a.mp4", "t/a.json", "b.mp4"):
        (tmp_path / name).write_bytes(b"x")
    _, sources = read_folder(tmp_path)
    found = [(s.camera, s.kind, s.path.relative_to(tmp_path).as_posix()) for s in sources]
    assert found == [("a", "video", "a.mp4"), ("a", "timestamps", "t/a.json"), ("b", "video", "b.mp4")]
    (tmp_path / "b.mp4").unlink()
    with pytest.raises(CaptureError, match=r"camera 'b', .*b\.mp4: there is no such file"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("{", "is no JSON"),
        ("[]", "names no cameras"),
        ('{"cameras": []}', "names no cameras"),
        ('{"cameras": [{"name": "a"}]}', "a 'name' and a 'video'"),
        ('{"cameras": [3]}', "a 'name' and a 'video'"),
    ],
)
def test_a_folder_that_is_no_capture_is_refused(text: str | None, words: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "capture.json").write_text(text)
    with pytest.raises(CaptureError, match=words):
        read_folder(tmp_path)


@pytest.mark.parametrize("url", ["nowhere", "ftp://127.0.0.1", "http://127.0.0.1:1", "http://[::1"])
def test_no_service_is_told_with_its_address(url: str) -> None:
    with pytest.raises(ServiceError) as error, Client(url, patience_s=0) as client:
        client.info()
    assert url in str(error.value)
    assert error.value.status is None


ALONE = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"fastapi", "starlette", "uvicorn", "sqlalchemy", "pydantic", "pydantic_settings"}:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Missing())
import api.client, api.commands
from recon4d.commands import main
main(["remote", "list", "--server", "http://127.0.0.1:1", "--help"])
"""


def test_the_client_needs_none_of_the_services_packages() -> None:
    result = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "usage: recon4d remote list" in result.stdout
