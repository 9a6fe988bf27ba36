"""Quotas, sweeping, calibrations and capture folders, without HTTP."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.database import Database
from api.errors import Problem
from api.settings import Settings
from api.storage import (
    Label,
    Writer,
    add_file,
    calibration,
    commit_upload,
    create_capture,
    create_upload,
    delete_capture,
    find_capture,
    find_upload,
    materialise,
    prepare,
    set_calibration,
    sweep,
)
from api.tables import Answer, Job, Upload
from tests import calibrations, worlds


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", max_upload_bytes=10_000, max_capture_bytes=15_000, max_capture_files=3)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = Database(settings.database)
    prepare(database, settings)
    yield database
    database.close()


@pytest.fixture
def capture(database: Database) -> str:
    return create_capture(database, "tiny", "").row.id


def label(capture: str, camera: str = "c0", kind: str = "video") -> Label:
    return Label.of(capture, camera, kind, f"{camera}.mp4")


def refused(status: int, kind: str) -> pytest.RaisesExc[Problem]:
    return pytest.RaisesExc(Problem, check=lambda problem: (problem.status, problem.kind) == (status, kind))


def test_a_file_must_fit_beside_what_is_promised(database: Database, settings: Settings, capture: str) -> None:
    with refused(413, "too-large"):
        create_upload(database, settings, label(capture), 10_001)
    create_upload(database, settings, label(capture), 9_000)
    with refused(413, "too-large"):
        create_upload(database, settings, label(capture, "c1"), 6_001)
    create_upload(database, settings, label(capture, "c1"), 6_000)
    create_upload(database, settings, label(capture, "c2"), 0)
    with refused(409, "too-many-files"):
        create_upload(database, settings, label(capture, "c3"), 0)
    create_upload(database, settings, label(create_capture(database, "other", "").row.id), 9_000)


def test_what_has_expired_is_promised_to_nobody(database: Database, settings: Settings, capture: str) -> None:
    first = create_upload(database, settings, label(capture), 9_000)
    with database.writing() as session:
        session.get_one(Upload, first.id).expires_at = time.time() - 1
    create_upload(database, settings, label(capture), 9_000)


def test_uploads_leave_the_reserve_alone(database: Database, settings: Settings, capture: str) -> None:
    free = shutil.disk_usage(settings.data_dir).free
    # Other programs use this disk too: the margins are wide.
    tight = settings.model_copy(update={"max_upload_bytes": 2**62, "max_capture_bytes": 2**62})
    tight = tight.model_copy(update={"disk_reserve_bytes": free // 2})
    with refused(507, "disk-full"):
        create_upload(database, tight, label(capture), free * 3 // 4)
    first = create_upload(database, tight, label(capture), free // 4)
    with refused(507, "disk-full"):
        create_upload(database, tight, label(capture, "c1"), free * 3 // 8)
    full = tight.model_copy(update={"disk_reserve_bytes": free * 2})
    with refused(507, "disk-full"), Writer(database, full, first.id, 0):
        pass
    assert find_upload(database, first.id).offset == 0


def test_bytes_that_nobody_made_sure_of_are_sent_again(database: Database, settings: Settings, capture: str) -> None:
    upload = create_upload(database, settings, label(capture), 10)
    with Writer(database, settings, upload.id, 0) as writer:
        writer.write(b"01234")
    # A process that was killed has written more than it noted.
    part = settings.data_dir / "uploads" / f"{upload.id}.part"
    part.write_bytes(b"01234xxxxx")
    with Writer(database, settings, upload.id, 5) as writer:
        assert writer.left == 5
        writer.write(b"56789")
    assert part.read_bytes() == b"0123456789"


def test_a_capture_in_use_is_not_deleted(database: Database, settings: Settings, capture: str) -> None:
    with database.writing() as session:
        session.add(Job(id="job_1", kind="check", subject=capture, request={}))
    with refused(409, "conflict"):
        delete_capture(database, settings, capture)
    with database.writing() as session:
        session.get_one(Job, "job_1").state = "failed"
    delete_capture(database, settings, capture)
    with refused(404, "not-found"):
        find_capture(database, capture)


def test_sweeping_takes_what_expired_and_what_belongs_to_nobody(
    database: Database, settings: Settings, capture: str
) -> None:
    kept = create_upload(database, settings, label(capture), 10)
    gone = create_upload(database, settings, label(capture, "c1"), 10)
    for upload in (kept, gone):
        with Writer(database, settings, upload.id, 0) as writer:
            writer.write(b"01234")
    times = settings.data_dir / "uploads" / "times"
    times.write_text("[0.0, 0.1]")
    file = add_file(database, settings, label(capture, kind="timestamps"), times, None)
    folder = settings.data_dir / "captures" / capture
    (folder / "lost.mp4").write_bytes(b"x")
    with database.writing() as session:
        session.get_one(Upload, gone.id).expires_at = time.time() - 1
        session.add(Answer(principal="local", key="old", request_hash="", status=201, body={}, created_at=0.0))
    sweep(database, settings)
    assert (folder / "lost.mp4").exists()  # It may be on its way.
    long_ago = time.time() - 7200
    for path in (*folder.iterdir(), *(settings.data_dir / "uploads").iterdir()):
        os.utime(path, (long_ago, long_ago))
    sweep(database, settings)
    assert [path.name for path in folder.iterdir()] == [f"{file.id}.json"]
    assert [path.name for path in (settings.data_dir / "uploads").iterdir()] == [f"{kept.id}.part"]
    with database.reading() as session:
        assert session.get(Answer, ("local", "old")) is None


def test_a_capture_is_materialised_when_it_is_whole(
    database: Database, tmp_path: Path, settings: Settings, capture: str
) -> None:
    roomy = Settings(data_dir=settings.data_dir)
    folder = worlds.write_capture(worlds.capture(cameras=2, seconds=0.3), tmp_path / "tiny")
    set_calibration(database, roomy, capture, (folder / "capture.json").read_bytes())
    add_file(database, roomy, label(capture), folder / "c0.mp4", None)
    assert find_capture(database, capture).missing == ["camera 'c1' has no video"]
    with refused(409, "not-ready"):
        materialise(database, roomy, capture, tmp_path / "out")
    add_file(database, roomy, label(capture, "c1"), folder / "c1.mp4", None)
    add_file(database, roomy, label(capture, "stray"), folder / "c1.mp4", None)
    assert find_capture(database, capture).missing == ["camera 'stray' has a video, but is not in the calibration"]
    (stray,) = (file for file in find_capture(database, capture).files if file.camera == "stray")
    with database.writing() as session:
        session.delete(session.merge(stray))
    for _ in range(2):  # A second time it takes the first one's place.
        materialise(database, roomy, capture, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"capture.json", "c0.mp4", "c1.mp4"}
    manifest = json.loads((tmp_path / "out" / "capture.json").read_text())
    original = json.loads((folder / "capture.json").read_text())
    assert manifest["cameras"] == original["cameras"]
    assert manifest["bench_plane"] == original["bench_plane"]


def test_another_layout_brings_its_own_times(database: Database, settings: Settings, capture: str) -> None:
    K = [[300.0, 0, 160], [0, 300.0, 120], [0, 0, 1]]
    files = {}
    for serial, x in (("11", 0.0), ("22", 0.4)):
        X_WC = [[1, 0, 0, x], [0, 1, 0, 0], [0, 0, 1, 1.0], [0, 0, 0, 1]]
        files[f"meta/{serial}.json"] = {"K": K, "resolution": [320, 240], "timestamps": [0.0, 0.021, 0.04]}
        rig = files.setdefault("cameras.json", {})
        rig[serial] = {"X_WC": X_WC, "video_path": f"{serial}.mp4", "metadata_path": f"meta/{serial}.json"}
    found = set_calibration(database, settings, capture, json.dumps(files).encode())
    assert found.cameras == calibration(database, capture).cameras
    assert found.cameras["22"]["pose"]["matrix"] == [[1, 0, 0, -0.4], [0, -1, 0, 0], [0, 0, -1, 1], [0, 0, 0, 1]]
    state = find_capture(database, capture)
    assert [(file.camera, file.kind, file.facts["frames"]) for file in state.files] == [
        ("11", "timestamps", 3),
        ("22", "timestamps", 3),
    ]
    with refused(422, "bad-calibration"):
        set_calibration(database, settings, capture, json.dumps(files).encode(), "nerf")


@pytest.mark.parametrize("name", ["transforms", "by-hand", "opencv-json", "x-wc"])
@pytest.mark.parametrize("wrong", [False, True])
def test_forms_that_are_json_are_read(
    name: str, wrong: bool, database: Database, settings: Settings, capture: str, tmp_path: Path
) -> None:
    """Also those whose poses are written in another convention than the form's; that is told by a warning."""
    kind, truth = calibrations.KINDS[name], calibrations.rig("none")
    reading = "w2c-opengl" if wrong else kind.documented or "w2c-opencv"
    folder = tmp_path / "form"
    folder.mkdir()
    kind.write(folder, truth, reading, 1.0)
    files = {path.name: json.loads(path.read_text()) for path in sorted(folder.iterdir())}
    body = files["transforms.json"] if name == "transforms" else files
    found = set_calibration(database, settings, capture, json.dumps(body).encode())
    assert found.cameras == calibration(database, capture).cameras
    assert set(found.cameras) == {t.name for t in truth}
    for t in truth:
        assert found.cameras[t.name]["pose"]["convention"] == "T_cam_world"
        assert found.cameras[t.name]["pose"]["matrix"][2] == pytest.approx(t.T_cam_world[2])
    said = any("not what the format documents" in warning["message"] for warning in found.warnings)
    assert said == (wrong and kind.documented is not None)
    assert any("scale is arbitrary" in warning["message"] for warning in found.warnings) == (not kind.metric)


def test_a_form_that_is_unclear_is_refused(
    database: Database, settings: Settings, capture: str, tmp_path: Path
) -> None:
    calibrations.by_hand(tmp_path, calibrations.rig("none")[:2], "w2c-opencv", 1.0)
    body = json.dumps({"rig.json": json.loads((tmp_path / "rig.json").read_text())}).encode()
    with refused(422, "bad-calibration") as problem:
        set_calibration(database, settings, capture, body)
    assert "--reading" in str(problem.value.detail)
    assert "convert-calibration" in str(problem.value.hint)


def test_an_upload_whose_capture_went_is_gone(database: Database, settings: Settings, capture: str) -> None:
    upload = create_upload(database, settings, label(capture), 10)
    with Writer(database, settings, upload.id, 0) as writer:
        writer.write(b"0123456789")
    delete_capture(database, settings, capture)
    with refused(404, "not-found"):
        commit_upload(database, settings, upload.id, "0" * 64)
    assert list((settings.data_dir / "uploads").iterdir()) == []
