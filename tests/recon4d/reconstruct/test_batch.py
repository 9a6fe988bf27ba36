"""Several captures: one after the other, and past the ones that fail."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from recon4d.errors import CaptureError, ConfigError, OutputError, Stopped
from recon4d.reconstruct import ReconstructConfig, batch, read_manifest
from recon4d.scene import load


def test_a_batch_goes_on_after_a_failure(finished: Any, config: ReconstructConfig, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    out = tmp_path / "out"
    # An earlier result of the second, so that this takes no time.
    shutil.copytree(finished.out, out / finished.capture.name)
    items = list(batch([empty, finished.capture, tmp_path / "none"], out, config))
    assert [item.ok for item in items] == [False, True, False]
    assert [item.exit_code for item in items] == [CaptureError.exit_code, 0, CaptureError.exit_code]
    assert "capture.json" in (items[0].error or "")
    assert items[1].error is None
    assert items[1].scores is not None
    assert load(items[1].out).splats == items[1].scores["splats"]
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert lines == [json.loads(json.dumps(asdict(item))) for item in items]


def test_each_result_is_on_disk_before_the_next_begins(config: ReconstructConfig, tmp_path: Path) -> None:
    run = batch([tmp_path / "a", tmp_path / "b"], tmp_path / "out", config)
    next(run)
    assert len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 1
    next(run)
    assert len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 2


def test_equal_names_get_folders_of_their_own(config: ReconstructConfig, tmp_path: Path) -> None:
    captures = [tmp_path / "monday" / "take", tmp_path / "tuesday" / "take", tmp_path / "take"]
    items = list(batch(captures, tmp_path / "out", config))
    assert [Path(item.out).name for item in items] == ["take", "take-2", "take-3"]


def test_numbered_names_never_meet_a_name_that_is_taken(config: ReconstructConfig, tmp_path: Path) -> None:
    captures = [tmp_path / "a" / "take", tmp_path / "b" / "take", tmp_path / "c" / "take-2"]
    outs = [item.out for item in batch(captures, tmp_path / "out", config)]
    assert len(set(outs)) == 3


def test_a_stop_leaves_out_the_rest(capture: Path, config: ReconstructConfig, tmp_path: Path) -> None:
    items = list(batch([capture, capture], tmp_path, config, should_stop=lambda: True))
    assert [item.exit_code for item in items] == [Stopped.exit_code]


def test_a_batch_that_cannot_write_says_so_before_any_work(config: ReconstructConfig, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OutputError, match=r"cannot write .*results\.jsonl.*--out"):
        next(batch([tmp_path / "a"], tmp_path / "out", config))


def test_a_manifest_is_read_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("# two takes\none  # the first\n\nzwei/größer\n", "utf-8")
    assert read_manifest(tmp_path / "list.txt") == [tmp_path / "one", tmp_path / "zwei" / "größer"]
    (tmp_path / "list.json").write_text('["one", "/abs/two"]')
    assert read_manifest(tmp_path / "list.json") == [tmp_path / "one", Path("/abs/two")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("list.txt", b"# nothing\n\n", "names no capture"),
        ("list.json", b"[]", "names no capture"),
        ("list.json", b'["a",', "no JSON"),
        ("list.json", b'{"a": 1}', "must be a JSON list"),
        ("list.json", b"[1]", "must be a JSON list"),
        ("video.mp4", b"\x00\x00\x00 ftypisom\xff\xfe", "cannot be read as a manifest"),
    ],
)
def test_a_bad_manifest_says_what_one_is(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        read_manifest(tmp_path / name)
