"""Tables of results, as CSV: one row a rate, or one row a trial."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from simbridge.errors import EvaluationError
from simbridge.evaluate._episodes import EpisodeResult

COUNTS = ("successes", "trials")
TRIAL = "success"
_OUTCOMES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_LAYOUTS = (
    "policy, task (optional), condition (optional), and either successes and trials, or success of one trial a row"
)


@dataclass(frozen=True, kw_only=True)
class Count:
    """Trials of a policy in a task under a condition."""

    policy: str
    task: str
    condition: str
    successes: int
    trials: int


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """Results of one side. Every (policy, task, condition) is there once, in the order of the file."""

    source: str
    """Name to show: the file's, or what made it."""
    rows: tuple[Count, ...]
    unused: tuple[str, ...] = ()
    """Columns of the file that were not read."""

    @classmethod
    def of(cls, episodes: Sequence[EpisodeResult], source: str = "episodes") -> ResultTable:
        """The table of played episodes: tasks as they are, one condition."""
        if not episodes:
            raise EvaluationError(f"{source} holds no episode")
        trials = [(e.policy, e.task, "", e.success) for e in episodes]
        return cls(source=source, rows=_gathered(trials))


def read_table(path: Path | str) -> ResultTable:
    """Reads a CSV file with a header: ``policy, task?, condition?, successes, trials``, or ``success`` a trial.

    Names are compared without the blanks around them; other columns are left and named in ``unused``.

    Args:
        path: UTF-8, with commas.

    Raises:
        EvaluationError: the file cannot be read, a column is missing, or a line is wrong; names file and line.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _parsed(csv.reader(file, strict=True), str(path))
    except OSError as error:
        raise EvaluationError(f"cannot be read: {error.strerror or error}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise EvaluationError(f"is not UTF-8 ({error}); save it as CSV UTF-8", file=str(path)) from error


def _parsed(reader: Iterator[list[str]], file: str) -> ResultTable:
    lines = _lines(reader, file)
    number, header = next(lines, (1, []))
    columns = [name.strip().lower() for name in header]
    _check_header(columns, file, number)
    per_trial = TRIAL in columns
    seen: dict[tuple[str, str, str], int] = {}
    counts: list[Count] = []
    trials: list[tuple[str, str, str, bool]] = []
    for number, cells in lines:
        if len(cells) != len(columns):
            raise EvaluationError(
                f"{len(cells)} cells under {len(columns)} columns; put names with commas in quotation marks",
                file=file,
                line=number,
            )
        row = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
        key = _key(row, file, number)
        if per_trial:
            trials.append((*key, _outcome(row[TRIAL], file, number)))
            continue
        if key in seen:
            raise EvaluationError(
                f"policy '{key[0]}', task '{key[1]}', condition '{key[2]}' is already on line {seen[key]}; add the two"
                " together, or name their conditions",
                file=file,
                line=number,
            )
        seen[key] = number
        counts.append(_count(key, row, file, number))
    rows = _gathered(trials) if per_trial else tuple(counts)
    if not rows:
        raise EvaluationError("holds a header and no result", file=file)
    known = {"policy", "task", "condition", TRIAL, *COUNTS}
    return ResultTable(source=Path(file).name, rows=rows, unused=tuple(name for name in columns if name not in known))


def _lines(reader: Iterator[list[str]], file: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line on which they end; blank ones and comments are left out."""
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            line = int(getattr(reader, "line_num", 0))
            raise EvaluationError(f"is not CSV ({error})", file=file, line=line) from error
        if any(cell.strip() for cell in cells) and not cells[0].startswith("#"):
            yield int(getattr(reader, "line_num", 0)), cells


def _check_header(columns: list[str], file: str, line: int) -> None:
    if not columns:
        raise EvaluationError(f"is empty; its columns must be {_LAYOUTS}", file=file)
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise EvaluationError(f"the column '{twice[0]}' is there twice", file=file, line=line)
    has_counts = [name for name in COUNTS if name in columns]
    if TRIAL in columns and has_counts:
        raise EvaluationError(
            f"there is 'success' and '{has_counts[0]}'; a row is one trial or a count of them", file=file, line=line
        )
    needed = ["policy", *(() if TRIAL in columns else COUNTS)]
    missing = [name for name in needed if name not in columns]
    if missing:
        hint = "; it seems to be separated by ';' or tabs" if len(columns) == 1 and set(";\t") & set(columns[0]) else ""
        raise EvaluationError(
            f"no column '{missing[0]}' among {', '.join(columns)}{hint}. Columns are {_LAYOUTS}, separated by commas",
            file=file,
            line=line,
        )


def _key(row: dict[str, str], file: str, line: int) -> tuple[str, str, str]:
    if not row["policy"]:
        raise EvaluationError("the policy has no name", file=file, line=line)
    return row["policy"], row.get("task", ""), row.get("condition", "")


def _count(key: tuple[str, str, str], row: dict[str, str], file: str, line: int) -> Count:
    values = {}
    for name in COUNTS:
        try:
            values[name] = int(row[name])
        except ValueError:
            raise EvaluationError(
                f"{name} is '{row[name]}'; it must be a whole number, not a rate", file=file, line=line
            ) from None
    if values["trials"] < 1:
        raise EvaluationError(f"trials is {values['trials']}; leave out what was not tried", file=file, line=line)
    if not 0 <= values["successes"] <= values["trials"]:
        raise EvaluationError(
            f"successes is {values['successes']} of {values['trials']} trials; it must lie between 0 and the trials",
            file=file,
            line=line,
        )
    return Count(policy=key[0], task=key[1], condition=key[2], **values)


def _outcome(text: str, file: str, line: int) -> bool:
    try:
        return _OUTCOMES[text.lower()]
    except KeyError:
        raise EvaluationError(
            f"success is '{text}'; it must be 1 or 0, true or false, yes or no", file=file, line=line
        ) from None


def _gathered(trials: Sequence[tuple[str, str, str, bool]]) -> tuple[Count, ...]:
    found: dict[tuple[str, str, str], list[bool]] = {}
    for *key, success in trials:
        policy, task, condition = key
        found.setdefault((str(policy), str(task), str(condition)), []).append(bool(success))
    return tuple(
        Count(policy=policy, task=task, condition=condition, successes=sum(made), trials=len(made))
        for (policy, task, condition), made in found.items()
    )
