"""Files are put on disk whole, and only where a file may be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recon4d.errors import OutputError
from recon4d.files import write_atomic


def test_a_device_a_pipe_and_a_folder_are_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    for name, kind in (("pipe", "a device or a pipe"), ("link", "a device or a pipe"), ("folder", "a folder")):
        with pytest.raises(OutputError, match=f"cannot write {tmp_path / name}: it is {kind}"):
            write_atomic(tmp_path / name, "text")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "pipe"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere/file")
    for text in ("first", "second"):
        write_atomic(tmp_path / "link", text)
        assert (tmp_path / "elsewhere" / "file").read_text() == text
    assert (tmp_path / "link").is_symlink()
