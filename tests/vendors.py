"""A package of somebody else's, really installed, and fresh processes that see it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGINARY = Path(__file__).parent / "fixtures" / "imaginary_vendor"


def install(folder: Path) -> Path:
    """A folder under ``folder`` into which pip installed the imaginary vendor's package; without the network."""
    source, site = folder / "source", folder / "site"
    shutil.copytree(IMAGINARY, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(site), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return site


def environment(site: Path | None, **variables: str) -> dict[str, str]:
    """This process's, with this tree importable, and the vendor's package where ``site`` is given, and nowhere else."""
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and Path(path) != IMAGINARY]
    paths = [str(site)] if site else []
    return os.environ | {"PYTHONPATH": os.pathsep.join([*paths, str(ROOT), *others])} | variables


def python(site: Path | None, *arguments: str, code: int = 0, **variables: str) -> tuple[str, str]:
    """What a fresh process prints on stdout and stderr; it must end with ``code``."""
    command = [sys.executable, "-W", "error", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment(site, **variables), check=False)
    assert ran.returncode == code, f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout, ran.stderr
