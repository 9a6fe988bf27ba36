"""The rooms of the house import each other only along these edges, and only through their doors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "recon4d"
SIMBRIDGE = Path(__file__).parents[2] / "simbridge"
API = Path(__file__).parents[2] / "api"

CORRIDOR = {"errors", "events", "files", "geometry", "jit", "types"}
"""Modules that every room may import. Among themselves they form a DAG too: see the test."""
ROOT = ""
"""The package itself: only its version may be taken from it by those below."""

ALLOWED: dict[str, set[str]] = {
    "accelerators": set(),
    "capture": set(),
    "calibrate": {"capture"},
    "clocks": {"capture"},
    "points": set(),
    "model": set(),
    "raster": set(),
    "loss": set(),
    "scene": set(),
    "train": {"capture", "points", "model", "raster", "loss", "scene"},
    "score": {"capture", "model", "raster", "loss", "scene"},
    "show": {"capture", "model", "page", "raster", "loss", "scene", "score"},
    "page": set(),
    "export": {"model", "raster", "scene"},
    "verify": {"accelerators", "model", "raster", "loss", "train"},
    "reconstruct": {"capture", "points", "model", "raster", "loss", "scene", "train", "score", "show", "export"},
    "commands": {
        *(
            "accelerators",
            "calibrate",
            "capture",
            "clocks",
            "model",
            "raster",
            "loss",
            "scene",
            "train",
            "score",
            "show",
            "export",
        ),
        *("reconstruct", "verify"),
    },
    "__main__": {"commands"},
    ROOT: {"capture", "scene", "raster", "train", "score", "show", "export", "reconstruct"},
}
"""Room -> the rooms that it may import. Adding an edge here is a decision about the house, not a repair."""

SIM_CORRIDOR = {"errors", "types"}
"""The same for simbridge, whose rooms may also use recon4d's corridor and doors."""
SIM_ALLOWED: dict[str, set[str]] = {
    "mjcf": set(),
    "bundle": {"mjcf"},
    "core": {"mjcf"},
    "tasks": {"core"},
    "remote": set(),
    "evaluate": set(),
    "play": {"core", "evaluate"},
    "adapters": {"bundle", "core", "tasks"},
    "commands": {"bundle", "core", "evaluate", "mjcf", "play", "tasks"},
    "__main__": {"commands"},
    ROOT: {"adapters"},
}
SEVERAL_DOORS = {"adapters"}
"""Rooms whose modules are doors, one for each library that is met there."""
SIM_DOORS = {"accelerators", "capture", "commands", "export", "model", "raster", "scene", "show"}
"""Rooms of recon4d that simbridge may enter, by their doors."""

API_CORRIDOR = {"database", "deps", "errors", "ids", "logs", "settings", "tables", "wire"}
"""The same for api, whose rooms may also use recon4d's and simbridge's corridors and doors."""
API_ALLOWED: dict[str, set[str]] = {
    "edge": set(),
    "keys": set(),
    "storage": set(),
    "jobs": {"storage"},
    "sessions": {"storage"},
    "web": set(),
    "routes": {"jobs", "keys", "sessions", "storage"},
    "main": {"edge", "jobs", "keys", "routes", "sessions", "storage", "web"},
    "client": set(),
    "commands": {"client", "jobs", "keys", "main", "sessions", "storage"},
    ROOT: {"main"},
}
API_DOORS = {
    "recon4d": {
        "accelerators",
        "capture",
        "commands",
        "export",
        "raster",
        "model",
        "page",
        "reconstruct",
        "scene",
        "show",
    },
    "simbridge": {"adapters", "bundle", "core", "remote", "tasks"},
}
"""Rooms of the other houses that api may enter, by their doors."""
HOUSES = {
    "recon4d": (CORRIDOR, ALLOWED),
    "simbridge": (SIM_CORRIDOR, SIM_ALLOWED),
    "api": (API_CORRIDOR, API_ALLOWED),
}


def place(path: Path, package: Path) -> str:
    """The room (or corridor module, or root) that a file belongs to."""
    parts = path.relative_to(package).with_suffix("").parts
    return ROOT if parts == ("__init__",) else parts[0]


def imported(path: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything that a file imports from the package, wherever in the file."""
    prefix = package.name
    here = [prefix, *path.relative_to(package).parent.parts]
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == prefix:
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (start, node.module) if part)
            if module.split(".")[0] == prefix:
                for alias in node.names:
                    yield node.lineno, f"{module}.{alias.name}"


def is_module(parts: list[str], package: Path) -> bool:
    path = package.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


def fault(source: str, name: str, package: Path) -> str | None:
    """What is wrong with the file's place ``source`` importing ``name``; None when nothing is."""
    corridor, allowed = HOUSES[package.name]
    parts = name.split(".")[1:]
    target = parts[0] if parts and is_module(parts[:1], package) else ROOT
    if target == source or target in corridor or (target == ROOT and parts in ([], ["__version__"])):
        if source in corridor and target not in corridor:
            return "the corridor imports the corridor alone"
        return None
    if source in corridor:
        return "the corridor imports the corridor alone"
    if target not in allowed.get(source, set()):
        return f"'{source or package.name}' may import {sorted(allowed.get(source, set()))} and the corridor"
    if len(parts) > 1 and is_module(parts[:2], package) and target not in SEVERAL_DOORS:
        return f"'{target}' is reached through its door, '{package.name}.{target}'"
    if any(part.startswith("_") for part in parts):
        return "that name is private"
    return None


def faults(package: Path) -> list[str]:
    found = []
    for path in sorted(package.rglob("*.py")):
        for line, name in imported(path, package):
            message = fault(place(path, package), name, package)
            if message:
                found.append(f"{path.relative_to(package.parent)}:{line} imports {name}: {message}")
    return found


@pytest.mark.parametrize("package", [PACKAGE, SIMBRIDGE, API], ids=lambda path: path.name)
def test_rooms_import_only_along_the_allowed_edges(package: Path) -> None:
    assert faults(package) == []


@pytest.mark.parametrize("package", [PACKAGE, SIMBRIDGE, API], ids=lambda path: path.name)
def test_the_list_of_rooms_is_the_house_as_it_stands(package: Path) -> None:
    corridor, allowed = HOUSES[package.name]
    rooms = {p.name for p in package.iterdir() if (p / "__init__.py").is_file()}
    modules = {p.stem for p in package.glob("*.py")} - {"__init__", "__main__"}
    assert rooms == set(allowed) - {ROOT, "__main__"} - modules
    assert modules == corridor | (modules & set(allowed))


@pytest.mark.parametrize("package", [PACKAGE, SIMBRIDGE, API], ids=lambda path: path.name)
def test_the_allowed_edges_and_the_corridor_have_no_cycle(package: Path) -> None:
    corridor, allowed = HOUSES[package.name]
    edges = {room: set(targets) for room, targets in allowed.items()}
    for module in corridor:
        names = (name.split(".")[1] for _, name in imported(package / f"{module}.py", package))
        edges[module] = {name for name in names if name in corridor}
    while edges:
        leaves = [room for room, targets in edges.items() if not targets & edges.keys()]
        assert leaves, f"these import each other in a circle: {sorted(edges)}"
        for leaf in leaves:
            del edges[leaf]


@pytest.mark.parametrize(
    ("guest", "host", "doors"),
    [
        (SIMBRIDGE, PACKAGE, SIM_DOORS | {"__version__"}),
        (API, PACKAGE, API_DOORS["recon4d"] | {"__version__"}),
        (API, SIMBRIDGE, API_DOORS["simbridge"] | {"make"}),
    ],
    ids=["simbridge-recon4d", "api-recon4d", "api-simbridge"],
)
def test_one_house_enters_another_by_its_doors(guest: Path, host: Path, doors: set[str]) -> None:
    corridor = HOUSES[host.name][0]
    for path in sorted(guest.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [f"{node.module}.{a.name}" for a in node.names] if isinstance(node, ast.ImportFrom) else []
            for parts in (name.split(".")[1:] for name in names if name.split(".")[0] == host.name):
                where = f"{path.name}:{node.lineno} imports {'.'.join(parts)}"
                assert not parts or parts[0] in corridor | doors, where
                assert not any(part.startswith("_") for part in parts if part != "__version__"), where
                several = not parts or parts[0] in corridor | SEVERAL_DOORS
                assert several or len(parts) < 2 or not is_module(parts[:2], host), where


@pytest.mark.parametrize(
    ("package", "above"),
    [(PACKAGE, {"tests", "samples", "simbridge", "api"}), (SIMBRIDGE, {"tests", "samples", "api"}), (API, {"tests"})],
    ids=lambda value: getattr(value, "name", ""),
)
def test_nothing_is_imported_from_what_stands_above_the_package(package: Path, above: set[str]) -> None:
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] not in above, f"{path}:{node.lineno}"


@pytest.mark.parametrize(
    ("room", "line", "word"),
    [
        ("model", "from recon4d.raster import rasterize", "may import"),
        ("model", "import recon4d.raster", "may import"),
        ("raster", "from recon4d import model", "may import"),
        ("raster", "def f():\n    from ..model import x", "may import"),
        ("train", "from recon4d.model._private import x", "through its door"),
        ("train", "from recon4d.model import _private", "through its door"),
        ("train", "from recon4d.model import _name", "private"),
        ("train", "from recon4d.model.motion import x", "through its door"),
        ("model", "from recon4d import Gaussians4D", "may import"),
        ("errors", "from recon4d.model import x", "corridor"),
    ],
)
def test_the_check_finds_each_kind_of_fault(room: str, line: str, word: str, tmp_path: Path) -> None:
    package = tmp_path / "recon4d"
    for name in ("model", "raster", "train", "model/motion"):
        (package / name).mkdir(parents=True, exist_ok=True)
        (package / name / "__init__.py").write_text("from recon4d.errors import Error\n")
    (package / "__init__.py").write_text("")
    (package / "errors.py").write_text("")
    (package / "model" / "_private.py").write_text("from recon4d import __version__\n")
    assert faults(package) == []
    with (package / ("errors.py" if room == "errors" else f"{room}/__init__.py")).open("a") as file:
        file.write(line + "\n")
    (message,) = faults(package)
    assert word in message
