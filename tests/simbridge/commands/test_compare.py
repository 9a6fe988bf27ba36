"""``simbridge compare``: what it prints, what it leaves, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recon4d import __version__
from simbridge.commands import main


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    """Reality and simulation, whose MMRV depends on which is which."""
    for name, successes in (("real", (10, 20, 60, 30)), ("sim", (12, 40, 20, 44))):
        rows = [f"p{i},{k},100" for i, k in enumerate(successes)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["policy,successes,trials", *rows]) + "\n")
    return str(tmp_path / "real.csv"), str(tmp_path / "sim.csv")


def test_it_writes_and_prints(tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["compare", *tables, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out.rstrip() == (out / "comparison.md").read_text("utf-8").rstrip()
    assert "Simulation: sim.csv · reality: real.csv" in printed.out
    assert "comparison.html" in printed.err


def test_json_is_the_file(tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["compare", *tables, "--out", str(out), "--json", "--confidence", "0.9", "--seed", "3"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content == json.loads((out / "comparison.json").read_text("utf-8"))
    assert (content["confidence"], content["seed"]) == (0.9, 3)
    assert [row["real"]["successes"] for row in content["overall"]["rows"]] == [10, 20, 60, 30]


@pytest.mark.parametrize(
    ("fault", "code", "word"),
    [("policy,successes,trials\na,3,2\n", 8, "line 2"), ("policy,successes,trials\nz,1,2\n", 8, "in common")],
)
def test_errors_are_one_line(
    tables: tuple[str, str], fault: str, code: int, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(tables[1]).write_text(fault)
    assert main(["compare", *tables, "--out", str(tmp_path / "out")]) == code
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert word in printed.err
    assert not (tmp_path / "out").exists()


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"simbridge {__version__}\n"
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert [
        option for option in ("--out", "--json", "--seed", "--confidence", "REAL.CSV SIM.CSV") if option not in text
    ] == []
