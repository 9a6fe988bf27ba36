"""Scenes come to count whole or not at all, and go the same way."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from api.database import Database
from api.errors import Problem
from api.settings import Settings
from api.storage import (
    POSTER,
    add_scene,
    artifacts,
    delete_scene,
    find_artifact,
    find_scene,
    insert_scene,
    prepare_scene,
    scene_folder,
    sweep_finished,
)
from api.tables import Job
from recon4d.errors import SceneError
from recon4d.scene import load
from tests.api import scenes


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def database(settings: Settings) -> Database:
    return Database(settings.database)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return scenes.scene_folder(tmp_path / "out")


def folders(settings: Settings) -> list[str]:
    parent = settings.data_dir / "scenes"
    return sorted(entry.name for entry in parent.iterdir()) if parent.exists() else []


def test_a_scene_lies_there_with_all_its_files_described(database: Database, settings: Settings, made: Path) -> None:
    outside = made / "outside"
    outside.symlink_to("/etc/passwd")
    scene_id = add_scene(database, settings, made, name="bench")
    folder = scene_folder(settings, scene_id)
    assert folders(settings) == [scene_id]
    with database.reading() as session:
        row, files = find_scene(session, scene_id), artifacts(session, scene_id)
    on_disk = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert {file.name for file in files} == on_disk.keys()
    for file in files:
        data = on_disk[file.name].read_bytes()
        assert (file.size, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    types = {file.name: file.media_type for file in files}
    assert {"scene.json", "scores.json", "videos/rig.mp4", "view/view.json", POSTER} <= types.keys()
    assert types["videos/rig.mp4"] == "video/mp4"
    assert types["scene.safetensors"] == "application/octet-stream"
    assert not {name for name in types if name.startswith("work") or name in (".lock", "outside")}
    scene = load(folder)
    assert row.facts == {
        "cameras": [camera.name for camera in scene.cameras],
        "duration_s": scene.duration_s,
        "splats": scene.splats,
        "scores": {"train": {"psnr": 30.5}, "splats": 5},
    }


def test_what_is_no_scene_leaves_nothing(database: Database, settings: Settings, made: Path) -> None:
    tensors = made / "scene.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1])
    with pytest.raises(SceneError, match="copy the whole folder again"):
        add_scene(database, settings, made, name="cut short")
    assert folders(settings) == []


def test_a_job_has_one_scene(database: Database, settings: Settings, made: Path) -> None:
    first = add_scene(database, settings, made, name="bench", job_id="job_a")
    with pytest.raises(IntegrityError):
        add_scene(database, settings, made, name="bench", job_id="job_a")
    assert folders(settings) == [first]


def test_rows_stand_or_fall_with_the_callers_transaction(database: Database, settings: Settings, made: Path) -> None:
    prepared = prepare_scene(settings, made)

    def lose() -> None:
        with database.writing() as session:
            insert_scene(session, prepared, name="bench", job_id="job_a", preset="fast")
            raise RuntimeError("the lease was lost")

    with pytest.raises(RuntimeError):
        lose()
    with database.reading() as session, pytest.raises(Problem) as problem:
        find_scene(session, prepared.id)
    assert problem.value.status == 404
    with database.writing() as session:
        insert_scene(session, prepared, name="bench", job_id="job_a", preset="fast")
    with database.reading() as session:
        assert find_scene(session, prepared.id).facts["preset"] == "fast"


def test_deleting_takes_folder_and_rows_but_not_under_a_job(database: Database, settings: Settings, made: Path) -> None:
    scene_id = add_scene(database, settings, made, name="bench")
    with database.writing() as session:
        session.add(Job(id="job_b", kind="bundle", subject=scene_id, request={}, state="running"))
    with pytest.raises(Problem) as problem:
        delete_scene(database, settings, scene_id)
    assert (problem.value.status, problem.value.kind) == (409, "conflict")
    assert folders(settings) == [scene_id]
    with database.writing() as session:
        session.get_one(Job, "job_b").state = "failed"
    delete_scene(database, settings, scene_id)
    assert folders(settings) == []
    with database.reading() as session:
        assert artifacts(session, scene_id) == []
        with pytest.raises(Problem):
            find_artifact(session, scene_id, "scene.json")
    with pytest.raises(Problem):
        delete_scene(database, settings, scene_id)


def test_sweeping_removes_old_strangers_alone(database: Database, settings: Settings, made: Path) -> None:
    kept = add_scene(database, settings, made, name="bench")
    parent = settings.data_dir / "scenes"
    for name in ("scn_dead.tmp", "scn_lost", "scn_new"):
        shutil.copytree(made, parent / name)
    old = time.time() - 7200
    for name in (kept, "scn_dead.tmp", "scn_lost"):
        os.utime(parent / name, (old, old))
    assert sweep_finished(database, settings) == 2
    assert folders(settings) == sorted([kept, "scn_new"])
