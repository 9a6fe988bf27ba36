"""What lies in a job's folder: the capture by links, the engine's work, and how one job's work becomes another's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from api.jobs._kinds import Task
from api.storage import materialise


def capture_of(task: Task) -> Path:
    """The job's capture as a folder that the engine reads. It stays what it was when the job first began.

    Raises:
        Problem: the capture lacks something, or is gone.
    """
    folder = task.folder / "capture"
    return folder if folder.exists() else materialise(task.database, task.settings, task.job.subject, folder)


def output_of(task: Task) -> Path:
    """Where the engine works. At a job's first attempt it holds what the job that it goes on from has left."""
    out = task.folder / "out"
    if not out.exists() and task.job.continues is not None:
        before = task.folder.with_name(task.job.continues) / "out"
        if before.is_dir():
            partial = fresh_folder(task.folder / "out.tmp")
            _inherit(before, partial)
            os.replace(partial, out)
    return out


def fresh_folder(path: Path) -> Path:
    """An empty folder, whatever was there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def _inherit(before: Path, after: Path) -> None:
    """Copies an engine's folder. Results of stages are replaced and never changed, so they are shared by links."""

    def take(source: str, target: str) -> str:
        if Path(source).suffix == ".safetensors":
            os.link(source, target)
            return target
        return shutil.copy2(source, target)

    shutil.copytree(
        before, after, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "frames"), copy_function=take
    )


def preview(folder: Path) -> Path:
    """Where the engine leaves the latest picture of a fit under way."""
    return folder / "out" / "work" / "preview.jpg"
