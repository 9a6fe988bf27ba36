"""What is written: files that parse, need nothing beside them, and mean nothing by the names that others chose."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import cv2
import pytest

from recon4d.errors import OutputError
from simbridge.evaluate import Count, EpisodeResult, ResultTable, compare, summarise, write_comparison, write_summary

VOID = {"meta", "br"}
EVIL = '<script>alert("x")</script> & "策略"'


class Page(HTMLParser):
    """Checks nesting; collects text, links, ids and what refers to them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href") and not (value or "").startswith("#"):
                self.links.append(value or "")
            elif name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def results(scale: float) -> ResultTable:
    rows = [
        Count(policy=name, task=task, condition="", successes=round(scale * 10 * i), trials=50)
        for i, name in enumerate((EVIL, "act", "pi", "octo"), start=1)
        for task in ("push", "lift <b>")
    ]
    return ResultTable(source="results <1>.csv", rows=tuple(rows))


def test_a_comparison_is_four_files(tmp_path: Path) -> None:
    files = write_comparison(compare(sim=results(0.9), real=results(1), draws=200), tmp_path / "new" / "out")
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == sorted(p.name for p in files.values())
    page = Page(files["html"].read_text("utf-8"))
    assert page.links == []
    assert len(set(page.ids)) == len(page.ids)
    assert "script" not in page.tags
    assert page.tags.count("svg") == 3
    for word in (EVIL, "lift <b>", "results <1>.csv", "Pearson r", "MMRV", "separately trained policy", "too few"):
        assert word in page.text
    assert json.loads(files["json"].read_text("utf-8"))["overall"]["rows"][0]["policy"] == EVIL
    assert "<script>" not in files["markdown"].read_text("utf-8")
    picture = cv2.imread(str(files["picture"]))
    assert picture is not None
    assert picture.shape[0] > 400
    assert picture[0, 0].tolist() == [255, 255, 255]


def test_the_same_comparison_is_the_same_files(tmp_path: Path) -> None:
    found = compare(sim=results(0.9), real=results(1), draws=200)
    first, second = (write_comparison(found, tmp_path / name) for name in ("a", "b"))
    assert {kind: path.read_bytes() for kind, path in first.items()} == {k: p.read_bytes() for k, p in second.items()}


def test_a_summary_links_its_films(tmp_path: Path) -> None:
    played = [
        EpisodeResult(
            policy=policy,
            task="push",
            initial_state=f"pose {i % 3}",
            seed=i,
            success=i % 2 == 0,
            reward=float(i),
            length=10 + i,
            extra={"video": f"films/{i} ü.mp4"} if i < 2 else {},
        )
        for policy in (EVIL, "act")
        for i in range(6)
    ]
    files = write_summary(summarise(played), tmp_path, title="Push <b>")
    page = Page(files["html"].read_text("utf-8"))
    assert page.links == ["films/0%20%C3%BC.mp4", "films/1%20%C3%BC.mp4"] * 2
    assert "script" not in page.tags
    assert len(set(page.ids)) == len(page.ids)
    for word in (EVIL, "Push <b>", "pose 2", "episodes are few"):
        assert word in page.text
    assert len(json.loads(files["json"].read_text("utf-8"))["episodes"]) == 12


def test_a_summary_of_one_episode(tmp_path: Path) -> None:
    one = EpisodeResult(policy="a", task="t", initial_state=0, seed=0, success=False, reward=0.0, length=1)
    script = EpisodeResult(
        policy="b",
        task="t",
        initial_state=0,
        seed=0,
        success=False,
        reward=0,
        length=1,
        extra={"video": "javascript:1"},
    )
    page = Page(write_summary(summarise([one, script]), tmp_path)["html"].read_text("utf-8"))
    assert page.links == ["javascript%3A1"]
    assert "–" in page.text


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write_comparison(compare(sim=results(0.9), real=results(1), draws=200), tmp_path / "file")
