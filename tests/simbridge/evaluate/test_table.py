"""Tables: both layouts, and every fault named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from simbridge.errors import EvaluationError
from simbridge.evaluate import Count, EpisodeResult, ResultTable, read_table


def read(folder: Path, text: str | bytes) -> ResultTable:
    path = folder / "results.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_table(path)


def test_counts(tmp_path: Path) -> None:
    table = read(
        tmp_path,
        "\ufeffPolicy, task ,condition,trials,successes,note\n"
        '\n# spring\r\nact,"push, far",dark,10, 3 ,x\nπ,stack,,20,0,\n',
    )
    assert table.source == "results.csv"
    assert table.unused == ("note",)
    assert table.rows == (
        Count(policy="act", task="push, far", condition="dark", successes=3, trials=10),
        Count(policy="π", task="stack", condition="", successes=0, trials=20),
    )


def test_trials_are_counted(tmp_path: Path) -> None:
    table = read(tmp_path, "policy,success,seed\na,1,0\na,TRUE,1\nb,no,0\na,0,2\n")
    assert table.unused == ("seed",)
    assert [(row.policy, row.task, row.successes, row.trials) for row in table.rows] == [
        ("a", "", 2, 3),
        ("b", "", 0, 1),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("policy,successes,trials\na,11,10\n", ("line 2", "11 of 10")),
        ("policy,successes,trials\na,1,10\nb,-1,10\n", ("line 3", "-1 of 10")),
        ("policy,successes,trials\na,0.9,10\n", ("line 2", "'0.9'", "not a rate")),
        ("policy,successes,trials\na,0,0\n", ("line 2", "trials is 0")),
        ("policy,successes,trials\na,nan,10\n", ("line 2", "'nan'")),
        ("policy,successes,trials\na,1,2\n\nb,1,2\na,1,2\n", ("line 5", "already on line 2", "conditions")),
        ("policy,successes,trials\na,1,2,3\n", ("line 2", "4 cells under 3")),
        ("policy,successes,trials\n ,1,2\n", ("line 2", "no name")),
        ("policy,success\na,1\na,maybe\n", ("line 3", "'maybe'", "yes or no")),
        ("policy,success,trials\na,1,2\n", ("line 1", "'success' and 'trials'")),
        ("policy,policy,success\na,a,1\n", ("line 1", "'policy' is there twice")),
        ("task,successes,trials\na,1,2\n", ("line 1", "no column 'policy'", "separated by commas")),
        ("policy,trials\na,2\n", ("no column 'successes'",)),
        ("policy;successes;trials\na;1;2\n", ("separated by ';'",)),
        ("policy,successes,trials\n", ("no result",)),
        ("", ("is empty",)),
        ('policy,success\n"a,1\n', ("is not CSV",)),
        (b"policy,success\n\xff,1\n", ("not UTF-8",)),
    ],
)
def test_faults_are_named(text: str | bytes, words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(EvaluationError) as caught:
        read(tmp_path, text)
    assert "results.csv" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(EvaluationError, match="cannot be read") as caught:
            read_table(path)
        assert caught.value.file == str(path)


def test_episodes_make_a_table() -> None:
    episodes = [
        EpisodeResult(policy="a", task="t", initial_state=0, seed=i, success=i > 1, reward=0.0, length=5)
        for i in range(5)
    ]
    (row,) = ResultTable.of(episodes).rows
    assert (row.successes, row.trials, row.task) == (3, 5, "t")
    with pytest.raises(EvaluationError, match="no episode"):
        ResultTable.of([])
