"""The output folder: one run at a time, and nobody else's files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recon4d.errors import OutputError
from recon4d.events import Progress, Warned, ignore
from recon4d.reconstruct import ReconstructConfig, reconstruct
from recon4d.reconstruct._folder import RunFolder, digest, free_bytes


def test_a_folder_in_use_is_refused(capture: Path, config: ReconstructConfig, tmp_path: Path) -> None:
    with RunFolder(tmp_path, ignore), pytest.raises(OutputError, match=r"another run is using.*--out"):
        reconstruct(capture, tmp_path, config)
    with RunFolder(tmp_path, ignore) as folder:
        assert folder.has_run


HOLD = """
import sys, time
from pathlib import Path
from recon4d.events import ignore
from recon4d.reconstruct._folder import RunFolder
with RunFolder(Path(sys.argv[1]), ignore):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match="another run"), RunFolder(tmp_path, ignore):
            pass
        holder.kill()
    with RunFolder(tmp_path, ignore):
        pass


@pytest.mark.parametrize("name", ["mkdir", "write_text"])
def test_a_run_that_broke_off_while_it_began_can_be_gone_on_with(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = getattr(Path, name)

    def breaks(path: Path, *arguments: object, **options: object) -> object:
        if path == tmp_path:
            return make(path, *arguments, **options)
        raise OSError("no power")

    with monkeypatch.context() as patch:
        patch.setattr(Path, name, breaks)
        with pytest.raises(OutputError), RunFolder(tmp_path, ignore):
            pass
    with RunFolder(tmp_path, ignore) as folder:
        assert folder.has_run


def test_a_folder_of_other_files_is_refused_and_left_alone(
    capture: Path, config: ReconstructConfig, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match=r"thesis\.tex.*nothing was changed.*--out"):
        reconstruct(capture, tmp_path, config)
    assert [f.name for f in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_capture_itself_is_no_output_folder(capture: Path, config: ReconstructConfig, tmp_path: Path) -> None:
    own = Path(shutil.copytree(capture, tmp_path / "own"))
    before = sorted(f.name for f in own.iterdir())
    with pytest.raises(OutputError, match="holds other files"):
        reconstruct(own, own, config)
    assert sorted(f.name for f in own.iterdir()) == before


def test_a_file_in_the_way_is_named(capture: Path, config: ReconstructConfig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match=r"cannot write to the output folder .*file.*--out"):
            reconstruct(capture, out, config)


def test_a_read_only_folder_is_named(capture: Path, config: ReconstructConfig, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o500)
    if os.access(out, os.W_OK):
        out = Path("/proc/scene")  # For root no mode is read-only; here nobody can make a folder.
        if not Path("/proc/self").exists():
            pytest.skip("root, and no folder that root cannot write to")
    with pytest.raises(OutputError, match="cannot write to the output folder"):
        reconstruct(capture, out, config)


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"events\.jsonl: No space left"), RunFolder(tmp_path, ignore) as folder:
        folder.emit(Warned(stage="run", message="x"))


def test_a_line_that_a_crash_cut_short_is_left_out(tmp_path: Path) -> None:
    heard: list[Any] = []
    with RunFolder(tmp_path, heard.append) as folder:
        folder.emit(Progress(stage="joint", step=1, total=2))
        with (tmp_path / "events.jsonl").open("a") as file:
            file.write('{"event": "progr')
        (event,) = folder.events()
    assert (event["event"], event["step"]) == ("progress", 1)
    assert len(heard) == 1


def test_a_digest_depends_on_every_part_and_on_nothing_else() -> None:
    config = ReconstructConfig()
    assert digest("a", config.fit) == digest("a", ReconstructConfig().fit)
    assert digest("a", config.fit) != digest("a", config.with_value("fit.joint.rates.quats=1").fit)
    assert digest("a", "b") != digest("ab")


def test_memory_is_measured_in_its_unit() -> None:
    """In a process of its own: here, what earlier tests left may be given back in between."""
    script = (
        "import numpy as np; from recon4d.reconstruct._folder import anonymous_mib, peak_resident_mib\n"
        "before = anonymous_mib(); block = np.ones(64 * 2**20, np.uint8)\n"
        "print(anonymous_mib() - before, peak_resident_mib() >= anonymous_mib())"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    grown, peak_is_above = ran.stdout.split()
    # The block is 64 MiB; the allocator may have had a few to spare.
    assert float(grown) == pytest.approx(64, abs=8)
    assert peak_is_above == "True"


def test_free_space_is_measured_in_bytes(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.05)
