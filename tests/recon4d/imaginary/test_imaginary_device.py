"""The package on a device it has never heard of: the checks beside this file, each in a process that has the device.

A device cannot be taken back once a process has registered it, so a process of its own runs each file of checks.
"""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
VENDOR = ROOT / "tests" / "fixtures" / "imaginary_vendor"
FILES = sorted(HERE.glob("*_checks.py"))


def environment(**more: str) -> dict[str, str]:
    """This process's, with the vendor's package importable."""
    path = os.pathsep.join([str(VENDOR), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}


def names(path: Path) -> list[str]:
    """The checks in a file."""
    tree = ast.parse(path.read_text("utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


@functools.cache
def outcomes(path: Path) -> dict[str, str]:
    """What failed or was skipped in each check of a file: empty where all went well."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(path)]
        result = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
        # 1 where checks failed; all else is no report, or an end that no check accounts for.
        if result.returncode not in (0, 1):
            pytest.fail(f"{path.name} ended with {result.returncode}:\n{result.stdout}\n{result.stderr}")
        cases = list(ElementTree.parse(report).iter("testcase"))
    found: dict[str, str] = {}
    for case in cases:
        name = str(case.get("name")).split("[")[0]
        found[name] = found.get(name, "") + "".join(f"{case.get('name')}: {part.text}\n" for part in case)
    return found


@pytest.mark.parametrize(
    ("path", "name"), [pytest.param(path, name, id=f"{path.stem}-{name[5:]}") for path in FILES for name in names(path)]
)
def test_on_the_device(path: Path, name: str) -> None:
    assert outcomes(path)[name] == ""


def run(script: str, **more: str) -> str:
    """The last line that a script prints in a process of its own."""
    command = [sys.executable, "-W", "error", "-c", script]
    result = subprocess.run(command, env=environment(**more), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip().splitlines()[-1]


def test_importing_registers_nothing() -> None:
    script = (
        "import torch, imaginary_accel; print(torch._C._get_privateuse1_backend_name(), hasattr(torch, 'imaginary'))"
    )
    assert run(script) == "privateuseone False"


def test_asking_for_the_module_installs_the_device_once() -> None:
    script = """
import torch, imaginary_accel
module = imaginary_accel.torch_module()
imaginary_accel.install()
print(module is torch.imaginary is imaginary_accel.torch_module(), torch.accelerator.current_accelerator())
"""
    assert run(script) == "True imaginary"


COUNT = """
import torch, imaginary_accel
imaginary_accel.install()
names = [torch.imaginary.get_device_name(i) for i in range(torch.imaginary.device_count())]
print(torch.accelerator.device_count(), torch.imaginary.is_available(), names)
"""


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("0,1", "2 True ['Imaginary One #0', 'Imaginary One #1']"),
        ("1", "1 True ['Imaginary One #1']"),
        ("1,0", "2 True ['Imaginary One #1', 'Imaginary One #0']"),
        ("0,7,1", "1 True ['Imaginary One #0']"),
        ("", "0 False []"),
    ],
)
def test_only_the_devices_named_are_shown_and_numbered_anew(shown: str, expected: str) -> None:
    assert run(COUNT, IMAGINARY_VISIBLE_DEVICES=shown) == expected


def test_an_isolated_process_computes_on_its_device_and_has_no_other() -> None:
    script = """
import torch, imaginary_accel
imaginary_accel.install()
leaf = torch.ones(3, device="imaginary:0", requires_grad=True)
(2 * leaf).sum().backward()
try:
    torch.ones(3, device="imaginary:1")
except RuntimeError as error:
    print(leaf.grad.device, leaf.grad.tolist(), str(error).split(";")[0])
"""
    shown = run(script, IMAGINARY_VISIBLE_DEVICES="1")
    assert shown == "imaginary:0 [2.0, 2.0, 2.0] invalid device ordinal: imaginary:1"


def test_the_environment_takes_operators_away() -> None:
    script = """
import torch, imaginary_accel
imaginary_accel.install()
values = torch.ones(3, device="imaginary")
values.cumsum(0)
try:
    values.argsort()
except NotImplementedError as error:
    print(error)
"""
    shown = run(script, IMAGINARY_WITHOUT="aten::sort,aten::bincount")
    assert shown == "Could not run 'aten::sort' on the 'imaginary' device: it has no such operator"


def test_a_device_that_comes_too_late_is_told() -> None:
    script = """
import torch, imaginary_accel
torch.ones(1, requires_grad=True).sum().backward()
try:
    imaginary_accel.install()
except RuntimeError as error:
    print(error)
"""
    assert "install imaginary before the process's first backward pass" in run(script)
