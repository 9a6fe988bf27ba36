"""What the README says can be typed, imported and found: it is checked against the code, not against memory."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recon4d import loss, raster
from recon4d.capture import check
from recon4d.capture import formats as capture_formats
from recon4d.commands import _main
from recon4d.export import formats as export_formats
from recon4d.reconstruct import ReconstructConfig
from recon4d.scene import save
from recon4d.types import DynamicPool, Scene4D, StaticPool
from simbridge.commands import _main as sim_main
from tests import worlds

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PACKAGE, SIMBRIDGE, API = ROOT / "recon4d", ROOT / "simbridge", ROOT / "api"


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def command_lines() -> list[list[str]]:
    """Every shell line that calls ``recon4d``, as arguments after the program's name."""
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    split = (shlex.split(line, comments=True) for line in lines)
    return [words[1:] for words in split if words[:1] == ["recon4d"]]


def table(heading: str) -> list[list[str]]:
    """Cells of the rows of the table whose first column has this heading."""
    lines = README.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def code_names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def silent(command: Callable[..., int], called: list[dict[str, Any]]) -> Callable[..., int]:
    """The command's signature and help, without its work."""

    @wraps(command)
    def record(*args: Any, **kwargs: Any) -> int:
        called.append(inspect.signature(command).bind(*args, **kwargs).arguments)
        return 0

    return record


def sim_command_lines() -> list[list[str]]:
    """Every shell line that calls ``simbridge``, likewise."""
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    split = (shlex.split(line, comments=True) for line in lines)
    return [words[1:] for words in split if words[:1] == ["simbridge"]]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the commands were called with; none of them does its work."""
    calls: list[dict[str, Any]] = []
    real = {name: silent(command, calls) for name, command in _main.commands().items()}
    monkeypatch.setattr(_main, "commands", lambda: real)
    return calls


@pytest.mark.parametrize("arguments", command_lines(), ids=" ".join)
def test_every_command_line_is_accepted(arguments: list[str], called: list[dict[str, Any]]) -> None:
    assert _main.main(arguments) == 0
    (values,) = called
    for assignment in values.get("set", ()):
        ReconstructConfig().with_value(assignment)
    if arguments[0] == "export":
        assert values["format"] in export_formats()
    if arguments[0] == "import":
        assert values["format"] in ("auto", *capture_formats())


@pytest.mark.parametrize("arguments", sim_command_lines(), ids=" ".join)
def test_every_command_line_of_simbridge_is_accepted(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []
    real = {name: silent(command, calls) for name, command in sim_main.commands().items()}
    assert {line[0] for line in sim_command_lines()} <= set(real)
    monkeypatch.setattr(sim_main, "commands", lambda: real)
    assert sim_main.main(arguments) == 0
    assert len(calls) == 1


def test_a_wrong_flag_would_be_found(called: list[dict[str, Any]], capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit, match="2"):
        _main.main(["reconstruct", "CAPTURE", "--out", "SCENE", "--prest", "fast"])
    assert "--prest" in capsys.readouterr().err


def test_every_command_is_shown() -> None:
    houses = ("recon4d.", "api.")
    own = {name for name, command in _main.commands().items() if command.__module__.startswith(houses)}
    assert {arguments[0] for arguments in command_lines()} == own
    mentioned = set(re.findall(r"`recon4d ([a-z-]+)", README))
    assert mentioned <= own


def test_every_make_target_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    assert {"demo", "test"} <= shown <= targets


def test_python_blocks_name_what_exists_and_call_it_rightly() -> None:
    assert blocks("python")
    for block in blocks("python"):
        tree = ast.parse(block)
        names: dict[str, Any] = {}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(str(node.module))
                names |= {alias.asname or alias.name: getattr(module, alias.name) for alias in node.names}
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if (function := resolve(call.func, names)) is not None:
                keywords = {str(keyword.arg): None for keyword in call.keywords}
                inspect.signature(function).bind(*call.args, **keywords)


def resolve(node: ast.expr, names: dict[str, Any]) -> Any:  # Whatever the name stands for.
    """What a dotted name stands for; None where it starts at no imported name."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := resolve(node.value, names)) is not None:
        return getattr(owner, node.attr)
    return None


def test_the_block_that_looks_at_a_scene_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (block,) = (block for block in blocks("python") if 'load("build/demo")' in block)
    save(tiny_scene(), tmp_path / "build" / "demo")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == "torch.Size([1, 72, 96, 3]) torch.Size([1, 72, 96])"


def test_the_accelerator_shown_counts_and_says_why_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (block,) = (block for block in blocks("python") if "(Accelerator)" in block)
    exec(compile(block, "README.md", "exec"), {"__name__": "acme"})
    assert capsys.readouterr().out == "Probe(count=0, reason=\"No module named 'torch_acme'\")\n"
    monkeypatch.setitem(sys.modules, "torch_acme", ModuleType("torch_acme"))
    monkeypatch.setattr(torch, "acme", SimpleNamespace(device_count=lambda: 2), raising=False)
    exec(compile(block, "README.md", "exec"), {"__name__": "acme"})
    assert capsys.readouterr().out == "Probe(count=2, reason='')\n"


def tiny_scene() -> Scene4D:
    """A few Gaussians on the bench, two of which are there at 0.4 s only."""

    def values(n: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(n)
        means = 0.2 * torch.rand(n, 3, generator=generator)
        quats = torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(n, 1)
        colours = torch.rand(n, 1, 3, generator=generator)
        sizes = {"scales": torch.full((n, 3), 0.02), "opacities": torch.full((n,), 0.8)}
        return {"means": means, "quats": quats, "sh": colours, **sizes}

    times = {"centers_s": torch.full((2,), 0.4), "radii_s": torch.full((2,), 0.1), "tails_s": torch.full((2,), 0.05)}
    return Scene4D(
        static=StaticPool(**values(5)),
        dynamic=DynamicPool(**values(2), velocities=torch.zeros(2, 3), **times),
        cameras=tuple(worlds.ring()),
        duration_s=1.0,
    )


def test_the_capture_shown_is_one_but_for_its_files(tmp_path: Path) -> None:
    (block,) = blocks("json")
    manifest = json.loads(block)
    (left,) = manifest["cameras"]
    matrix = np.array(left["pose"]["matrix"], float)
    matrix[0, 3] -= 0.4  # To the right of the first, looking the same way.
    pose = {**left["pose"], "matrix": matrix.tolist()}
    manifest["cameras"].append(
        {**left, "name": "right", "video": "right.mp4", "timestamps": "right.json", "pose": pose}
    )
    (tmp_path / "capture.json").write_text(json.dumps(manifest))
    findings = check(tmp_path)
    assert {finding.file for finding in findings} == {"left.json", "right.json"}, findings


@pytest.mark.parametrize(
    ("heading", "package"), [("room", PACKAGE), ("simbridge's room", SIMBRIDGE), ("the service's room", API)]
)
def test_the_table_of_rooms_is_the_house(heading: str, package: Path) -> None:
    rows = table(heading)
    rooms = {code_names(row[0])[0]: code_names(row[1]) for row in rows}
    assert set(rooms) == {f"{package.name}.{path.parent.name}" for path in package.glob("*/__init__.py")}
    for room, names in rooms.items():
        assert names or room == "simbridge.adapters", room
        assert set(names) <= set(importlib.import_module(room).__all__), room


def test_the_table_of_backends_is_whole() -> None:
    shown = {(code_names(row[1])[0], code_names(row[0])[0]) for row in table("backend")}
    own = {("raster", name) for name, row in raster.backends().items() if row.module.startswith("recon4d.")}
    assert shown == own | {("loss", name) for name in loss.backends()}


def entry_point_groups() -> Iterator[str]:
    """Every group that the packages ask for."""
    for path in [*PACKAGE.rglob("*.py"), *SIMBRIDGE.rglob("*.py")]:
        tree = ast.parse(path.read_text("utf-8"))
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if ast.unparse(call.func).split(".")[-1] == "entry_points":
                (group,) = (keyword.value for keyword in call.keywords if keyword.arg == "group")
                yield str(group.value if isinstance(group, ast.Constant) else constants[ast.unparse(group)])


def test_every_entry_point_group_is_told_and_exists() -> None:
    shown = re.findall(r'^\[project\.entry-points\."([^"]+)"\]$', "".join(blocks("toml")), re.MULTILINE)
    assert sorted(shown) == sorted(set(entry_point_groups()))


def test_every_file_named_exists() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]
    inline = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"`((?:recon4d|samples|tests)/[\w/.]+)`", inline)
    assert len(links) > 5
    assert len(named) > 3
    assert [name for name in [*links, *named] if not (ROOT / name).exists()] == []
