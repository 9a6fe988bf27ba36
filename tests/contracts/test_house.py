"""Habits of the house that a tool can check: quiet cheap imports, docstrings at doors, files and functions of a
readable size, and a tree that speaks of itself alone."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "recon4d", ROOT / "simbridge", ROOT / "api")
MODULES = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]
TREES = {path: ast.parse(path.read_text("utf-8"), str(path)) for path in MODULES}

MODULE_LINES, FUNCTION_LINES, FUNCTION_LINES_HARD, PARAMETERS = 400, 60, 100, 8

RATCHET: dict[str, int] = {
    "recon4d/commands/_reconstruct.py::reconstruct()": 11,
    "recon4d/raster/_worlds.py::render_worlds()": 12,
    "recon4d/raster/cpu/_project.py": 425,
    "recon4d/raster/cpu/_project.py::project_gradient": 65,
    "recon4d/raster/cpu/_tiles.py": 516,
    "recon4d/train/_joint.py::fit_joint()": 10,
}
"""What passes the limits, and by its size: lines of "file" and "file::function", parameters of "file::function()".
An entry may only shrink, and goes when it is no longer needed. Compiled code may pass the hard limit of functions:
a kernel's helpers must lie in its own file, and what it inlines by hand it cannot call."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [ast.unparse(d).split("(")[0].split(".")[-1].lstrip("_") for d in function.decorator_list]
    return bool({"kernel", "intrinsic", "njit"} & set(names))


def oversized() -> dict[str, int]:
    found: dict[str, int] = {}
    for path, tree in TREES.items():
        lines = len(path.read_text("utf-8").splitlines())
        if lines > MODULE_LINES:
            found[name_of(path)] = lines
        for function in functions(tree):
            key = f"{name_of(path)}::{function.name}"
            length = (function.end_lineno or 0) - function.lineno + 1
            if length > FUNCTION_LINES:
                found[key] = length
            given = function.args
            parameters = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            count = len(parameters) - (parameters[:1] in (["self"], ["cls"]))
            # A kernel's arguments are flat arrays: there is no dataclass to gather them in.
            if count > PARAMETERS and not is_compiled(function):
                found[key + "()"] = count
    return found


def test_modules_and_functions_are_of_a_readable_size() -> None:
    found = oversized()
    grown = {key: size for key, size in found.items() if size > RATCHET.get(key, 0)}
    assert grown == {}, (
        f"larger than {MODULE_LINES} lines a module, {FUNCTION_LINES} a function, {PARAMETERS} parameters"
    )
    stale = sorted(RATCHET.keys() - found.keys())
    assert stale == [], "within the limits by now: take it out of the ratchet"


def test_only_compiled_functions_pass_the_hard_limit() -> None:
    for path, tree in TREES.items():
        for function in functions(tree):
            length = (function.end_lineno or 0) - function.lineno + 1
            assert length <= FUNCTION_LINES_HARD or is_compiled(function), f"{name_of(path)}::{function.name}"


def test_every_module_says_what_it_is_and_every_package_more() -> None:
    texts = {path: ast.get_docstring(tree) or "" for path, tree in TREES.items()}
    assert [name_of(path) for path, text in texts.items() if len(text) < 10] == []
    # A room's door states purpose, input, output, what it owns and what it does not.
    doors = [path for path in texts if path.name == "__init__.py" and path.parent.parent in PACKAGES]
    assert [name_of(path) for path in doors if len(texts[path]) < 150] == []


def test_every_door_lists_what_it_opens() -> None:
    for door in (door for package in PACKAGES for door in package.glob("*/__init__.py")):
        text = door.read_text("utf-8")
        assert "__all__" in text, f"{name_of(door)} has no __all__"


def test_nothing_reads_the_environment_when_imported() -> None:
    for path, tree in TREES.items():
        at_import = [n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        for statement in at_import:
            text = ast.unparse(statement)
            assert "os.environ" not in text, f"{name_of(path)}:{statement.lineno}"
            assert "getenv" not in text, f"{name_of(path)}:{statement.lineno}"


PROBE = """
import importlib, json, sys, threading
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    for name in sys.argv[1:]:
        importlib.import_module(name)
import torch
facts = {
    "compiled": [str(record[1].data) for record in compiled.buffer],
    "cuda": torch.cuda.is_initialized(),
    "threads": [t.name for t in threading.enumerate() if t is not threading.main_thread()],
    "heavy": sorted({"matplotlib.pyplot", "mujoco", "torchvision", "gsplat", "triton.runtime"} & set(sys.modules)),
}
print("facts", json.dumps(facts))
"""


@pytest.mark.parametrize(("package", "heavy"), [("recon4d", []), ("simbridge", ["mujoco"])])
def test_importing_all_rooms_is_quiet_and_starts_nothing(package: str, heavy: list[str]) -> None:
    """simbridge stands on MuJoCo, and on nothing else that takes long to import."""
    for name in heavy:
        pytest.importorskip(name)
    own = [path for path in MODULES if path.relative_to(ROOT).parts[0] == package and path.name != "__main__.py"]
    modules = [".".join(p.relative_to(ROOT).with_suffix("").parts) for p in own]
    modules = [m.removesuffix(".__init__") for m in modules]
    command = [sys.executable, "-W", f"error::DeprecationWarning:{package}", "-c", PROBE, *modules]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    (line,) = result.stdout.splitlines()
    assert json.loads(line.removeprefix("facts ")) == {"compiled": [], "cuda": False, "threads": [], "heavy": heavy}


def test_the_tree_speaks_of_itself_alone() -> None:
    """No path of a machine it was written on, in any tracked file. The checks' own start script may look beside it."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # Joined here, so that this file is not its own finding.
    words = ["/" + "work/", "/" + "tmp/bash_jobs", "shared" + "/research", "shared" + "/prototypes", "shared" + "/data"]
    found = []
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if name.startswith(".ci/") or path.suffix in {".mp4", ".npz", ".jpg", ".png", ".ply"} or not path.is_file():
            continue
        text = path.read_text("utf-8")
        found += [f"{name}: {word}" for word in words if word in text]
    assert found == []
