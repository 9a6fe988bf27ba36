"""Hostile calibrations: whatever a file holds, a reader gives a rig or a refusal, soon and in little memory."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recon4d.capture import calibration_formats, read_calibration
from recon4d.errors import CaptureError
from tests.calibrations import KINDS, rig

HOSTILE_NUMBERS = [
    "nan",
    "NaN",
    ".nan",
    "inf",
    "-inf",
    "1e400",
    "-1",
    "0",
    "1e18",
    "9" * 40,
    "null",
    "true",
    '"x"',
    "[]",
    "{}",
]
MOST_BYTES = 64 * 2**20
"""Of memory, while a file of some kilobytes is read."""


def read(path: Path) -> None:
    """Reads by detection and by every format's name; only our own errors come out, and finite cameras."""
    for format in [None, *calibration_formats()]:
        try:
            got, report = read_calibration(path, format=format)
        except CaptureError:
            continue
        str(report)
        for camera in got.cameras:
            assert np.isfinite(camera.camera.K).all()
            assert np.isfinite(camera.camera.T_cam_world).all()


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one kind of damage."""

    def cut() -> bytes:
        return data[: chance.randrange(len(data))]

    def shuffle() -> bytes:
        start = chance.randrange(len(data))
        piece = bytearray(data[start : start + chance.choice([4, 16, 200])])
        chance.shuffle(piece)
        return data[:start] + bytes(piece) + data[start + len(piece) :]

    def flip() -> bytes:
        changed = bytearray(data)
        for _ in range(chance.choice([1, 3, 30])):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(changed)

    def big() -> bytes:
        start = chance.randrange(len(data))
        return (
            data[:start]
            + chance.choice([b"\xff" * 8, b"\x00" * 8, struct.pack("<d", float("nan"))])
            + data[start + 8 :]
        )

    def number() -> bytes:
        words = data.split(b" ")
        words[chance.randrange(len(words))] = chance.choice(HOSTILE_NUMBERS).encode()
        return b" ".join(words)

    def twice() -> bytes:
        start, end = sorted(chance.randrange(len(data)) for _ in range(2))
        return data[:end] + data[start:]

    return chance.choice([cut, shuffle, flip, big, number, twice])()


def spoiled_json(value: Any, chance: random.Random) -> Any:
    """A JSON value in which one thing is of another type, or gone."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: spoiled_json(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        index = chance.randrange(len(value))
        if chance.random() < 0.15:
            return value[:index] + value[index + 1 :]
        return [*value[:index], spoiled_json(value[index], chance), *value[index + 1 :]]
    return chance.choice(
        [None, True, -1, 0, 1e308, 10**30, "", "x" * 300, "\u0000", "\ud800", [], {}, [[[]]], float("nan"), "../x"]
    )


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    fuzz(name, tmp_path, rounds=8, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    fuzz(name, tmp_path, rounds=250, seed=2)


def fuzz(name: str, folder: Path, *, rounds: int, seed: int) -> None:
    kind = KINDS[name]
    source = kind.write(folder, rig(kind.lenses[-1]), kind.documented or "w2c-opencv", 1.0)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size > 0]
    whole = {path: path.read_bytes() for path in files}
    chance = random.Random(f"{seed} {name}")
    for _ in range(rounds):
        path = chance.choice(files)
        damage = whole[path]
        if path.suffix == ".json" and chance.random() < 0.6:
            damage = json.dumps(spoiled_json(json.loads(damage), chance)).encode()
        else:
            for _ in range(chance.choice([1, 1, 2, 4])):
                damage = spoiled(damage, chance) if damage else damage
        path.write_bytes(damage)
        read(source)
        path.write_bytes(whole[path])


DEEP = {
    "list.json": b"[" * 200_000,
    "object.json": b'{"a":' * 100_000,
    "matrix.json": b'{"cameras": {"a": {"K": ' + b"[" * 900 + b"]" * 900 + b', "extrinsics": []}}}',
    "flow.yml": b"%YAML:1.0\n---\na: " + b"[" * 50_000,
    "block.yml": b"".join(b" " * k + b"a:\n" for k in range(600)),
    "keys.toml": b"matrix" + b".a" * 20_000 + b" = 1\n",
    "list.toml": b"a = " + b"[" * 50_000,
    "tables.toml": b"".join(b"[a" + b".a" * (k % 50) + b".b%d]\n" % k for k in range(800)),
    "elements.xml": b"<opencv_storage>" + b"<a>" * 100_000,
    "aliases.yml": b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n",
    "entities.xml": b'<!DOCTYPE z [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><opencv_storage><K>&b;</K></opencv_storage>',
    "outside.xml": b'<!DOCTYPE z [<!ENTITY a SYSTEM "file:///etc/hostname">]><opencv_storage><K>&a;</K></opencv_storage>',
    "tag.yml": b"%YAML:1.0\n---\nK: !!python/object/apply:os.system ['touch owned']\n",
    "key.yml": b"? [a, b]\n: c\n",
    "digits.json": b'{"cameras": [{"pose": 1, "K": ' + b"9" * 100_000 + b"}]}",
    "digits.toml": b"[cam_0]\nmatrix = " + b"9" * 5000 + b"\nrotation = 1\ntranslation = 1\n",
    "latin.json": b'{"frames": "\xe9"}',
    "nothing.json": b"",
    "spaces.yml": b" " * 500_000,
    "commas.json": b'{"frames": [' + b"{}," * 10_000 + b"{}]}",
}


@pytest.mark.parametrize("name", DEEP)
def test_content_that_is_made_to_hurt(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_bytes(DEEP[name])
    assert peak(lambda: read(path)) < MOST_BYTES
    assert not (tmp_path / "owned").exists()


def peak(work: Callable[[], None]) -> int:
    """Bytes of memory at most, while it works."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def npy(header: str, body: bytes = b"", version: int = 1) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + body


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple:
        return (open, ("owned", "w"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 17), }"), "promises 17000000000000"),
        (
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999999, 999999999999999999), }"),
            "promises",
        ),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 17), }", bytes(8)), "promises 34 numbers"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (2, 17), }", bytes(8)), "run code"),
        (npy("{'descr': [('x', '|O')], 'fortran_order': False, 'shape': (2,), }"), "run code"),
        (npy("__import__('os').system('touch owned')"), "header"),
        (npy("(" * 4000), "header"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 17), }"), "0x17"),
        (npy("{'descr': '<f3', 'fortran_order': False, 'shape': (1, 17), }", bytes(51)), "no number"),
        (b"\x93NUMPY\x01\x00\xff\xff{'descr'", "header"),
        (b"\x93NUMPY\x09\x00v\x00" + bytes(200), "no .npy file"),
        (pickle.dumps(Bomb()), "no calibration"),
    ],
)
def test_npy_files_that_are_made_to_hurt(
    content: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "poses_bounds.npy"
    path.write_bytes(content)

    def refused() -> None:
        with pytest.raises(CaptureError, match=words):
            read_calibration(path)

    refused()  # Modules are imported.
    assert peak(refused) < 2**20
    assert not (tmp_path / "owned").exists()


def test_pickled_poses_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], object), allow_pickle=True)
    (tmp_path / "poses_bounds.npy").write_bytes(buffer.getvalue())
    with pytest.raises(CaptureError, match="pickled Python objects"):
        read_calibration(tmp_path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("file", ["cameras.bin", "images.bin", "points3D.bin", "rigs.bin"])
@pytest.mark.parametrize("count", [2**20, 2**40, 2**64 - 1])
def test_counts_of_binary_models_are_not_believed(file: str, count: int, tmp_path: Path) -> None:
    source = KINDS["colmap-binary"].write(tmp_path, rig("none"), "w2c-opencv", 1.0)
    model = tmp_path / "sparse/0"
    images = (model / "images.bin").read_bytes()
    # One picture sees a point, so that points3D.bin is opened.
    (model / "images.bin").write_bytes(
        images.replace(struct.pack("<ddq", 1.0, 2.0, -1), struct.pack("<ddq", 1.0, 2.0, 7), 1)
    )
    (model / "rigs.bin").write_bytes(struct.pack("<QIIiI", 1, 1, 1, 0, 1))
    read_calibration(source)
    content = (model / file).read_bytes()
    (model / file).write_bytes(struct.pack("<Q", count) + content[8:])

    def refused() -> None:
        with pytest.raises(CaptureError, match=rf"{file}: is no file of a COLMAP model: it promises \d+ more bytes"):
            read_calibration(source)

    assert peak(refused) < 4 * 2**20


def test_counts_inside_records_are_not_believed(tmp_path: Path) -> None:
    source = KINDS["colmap-binary"].write(tmp_path, rig("none"), "w2c-opencv", 1.0)
    images = tmp_path / "sparse/0/images.bin"
    whole = images.read_bytes()
    images.write_bytes(whole.replace(struct.pack("<Qdd", 2, 1.0, 2.0), struct.pack("<Qdd", 2**50, 1.0, 2.0), 1))
    with pytest.raises(CaptureError, match=r"images\.bin.*promises"):
        read_calibration(source)
    images.write_bytes(whole.replace(b"cam_1.jpg\0", b"cam_1.jpg" + b"x" * 5000))
    with pytest.raises(CaptureError, match=r"images\.bin.*a name is longer"):
        read_calibration(source)


def test_files_that_are_too_large_are_refused_unread(tmp_path: Path) -> None:
    for suffix, mib in ((".yml", 2), (".toml", 2), (".xml", 17), (".json", 65)):
        path = tmp_path / f"large{suffix}"
        with path.open("wb") as file:
            file.write({".json": b"{", ".xml": b"<", ".yml": b"---", ".toml": b"a"}[suffix])
            file.truncate(mib * 2**20)
        with pytest.raises(CaptureError, match=r"larger than [\d.]+ MiB"):
            read_calibration(path)
        path.unlink()


def test_paths_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(
        '{"K": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "resolution": [9, 9], "timestamps": []}'
    )
    folder = tmp_path / "in"
    folder.mkdir()
    for path in ("../secret.json", str(tmp_path / "secret.json"), "a\0b", 7, None, ""):
        item = {"X_WC": np.eye(4).tolist(), "video_path": "a.mp4", "metadata_path": path}
        (folder / "cameras.json").write_text(json.dumps({"a": item, "b": item}))
        with pytest.raises(CaptureError, match=r"camera 'a', cameras\.json.*inside the folder"):
            read_calibration(folder)
