"""The report: parses, needs nothing from outside, says what it should, escapes what others wrote."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import cv2
import numpy as np
import pytest

from recon4d.errors import OutputError
from recon4d.score import score
from recon4d.show import ReportInputs, report
from recon4d.show._facts import findings
from recon4d.types import Scene4D
from tests.recon4d.show.world import NAMES, division, scene

VOID = {"meta", "img", "br", "link", "input"}


class _Page(HTMLParser):
    """Checks nesting, collects text, pictures and links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.sources: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "src":
                self.sources.append(value or "")
            elif name == "href":
                (self.references if (value or "").startswith("#") else self.links).append(value or "")
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


@pytest.fixture(scope="module")
def inputs() -> ReportInputs:
    parts, small = division(), scene()
    events = [
        {"event": "progress", "stage": stage, "step": step, "total": 30, "loss": 1 / step, "psnr": 20 + step / 10}
        for stage in ("static", "joint")
        for step in range(1, 31)
    ]
    events += [
        {"event": "warned", "stage": "ingest", "message": "the left camera is <dark>"},
        {"event": "finished", "stage": "joint", "seconds": 12.25},
    ]
    return ReportInputs(scene=small, division=parts, scores=score(small, parts), events=events, title=parts.train.name)


@pytest.fixture(scope="module")
def page(inputs: ReportInputs, tmp_path_factory: pytest.TempPathFactory) -> str:
    return report(inputs, tmp_path_factory.mktemp("report") / "report.html").read_text("utf-8")


def test_it_parses_and_asks_nobody_for_anything(page: str) -> None:
    parsed = _Page(page)
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert not re.search(r"https?://|<script|@import|url\((?!#)", page.replace("&lt;script", ""))
    assert all(source.startswith("data:image/jpeg;base64,") for source in parsed.sources)
    assert parsed.links == []
    assert len(parsed.ids) == len(set(parsed.ids))
    targets = [reference[1:] for reference in parsed.references] + re.findall(r"url\(#([^)]+)\)", page)
    assert targets
    assert set(targets) <= set(parsed.ids)


def test_what_others_wrote_is_escaped(page: str) -> None:
    text = _Page(page).text
    for name in NAMES:
        assert name in text
    assert "left <b>" not in page
    assert "tiny <i>" in text
    assert "the left camera is <dark>" in text
    assert "<script>alert(1)</script>" in text


def test_it_holds_numbers_pictures_and_plots(page: str, inputs: ReportInputs) -> None:
    parsed = _Page(page)
    assert inputs.scores is not None
    for which in ("heldout_cameras", "heldout_times"):
        assert f"{inputs.scores[which]['psnr']:.2f}" in parsed.text
        assert f"{inputs.scores[which]['psnr_moving']:.2f}" in parsed.text
    assert f"{inputs.scores['predictors']['neighbour_mean']['psnr']:.2f}" in parsed.text
    for words in ("worst of this camera", "Camera layout", "Fitting", "12.2", "20.00", "2 static and 1 dynamic"):
        assert words in parsed.text, words
    # Two held-out sets: 4 pictures of the held-out camera and one of each training camera, thrice; depth of three.
    triples = sum(
        min(4, len({r["time_s"] for r in inputs.scores["per_time"] if r["set"] == which and r["camera"] == name}))
        for which in ("heldout_cameras", "heldout_times")
        for name in NAMES
    )
    assert triples - 3 <= (len(parsed.sources) - 3) / 3 <= triples
    assert page.count("<svg") == 7


def test_the_worst_frame_is_shown_and_its_difference_is_four_times(page: str, inputs: ReportInputs) -> None:
    assert inputs.scores is not None
    rows = [r for r in inputs.scores["per_time"] if r["set"] == "heldout_cameras"]
    worst = min(rows, key=lambda r: r["psnr_moving"])
    caption = page.index(f"t = {worst['time_s']:.3f} s · PSNR {worst['psnr']:.2f} dB")
    figure = page[caption : page.index("</figure>", caption)]
    assert "worst of this camera" in figure
    truth, render, difference = (
        cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR).astype(int)
        for data in re.findall(r'src="data:image/jpeg;base64,([^"]+)"', figure)
    )
    expected = np.minimum(4 * np.abs(truth - render), 255)
    # JPEG's losses, of which those of truth and render count fourfold: measured 13 of 255 in the mean.
    assert np.abs(difference - expected).mean() < 20
    assert np.abs(truth - render).mean() > 20


def test_findings_say_what_is_wrong(page: str) -> None:
    text = _Page(page).text
    assert re.search(r"Held-out times: the mean of the two neighbouring training frames beats the scene by \d", text)
    assert f"Gaps between frames: {NAMES[0]} (1, up to 150 ms)." in text


def test_findings_name_where_the_scene_falls_off() -> None:
    def entry(psnr: float, moving: float | None, **cameras: float) -> dict:
        return {"psnr": psnr, "psnr_moving": moving, "cameras": {name: {"psnr": p} for name, p in cameras.items()}}

    scores = {
        "heldout_cameras": entry(20.0, None, c=20.0),
        "heldout_times": entry(30.0, 22.0, a=33.0, b=27.0),
        "train": entry(31.0, 25.5, a=31.0, b=31.0),
        "predictors": {"previous_frame": {**entry(29.0, 23.0, a=29.0), "ssim": 1}},
    }
    assert findings(scores, [], [{"event": "warned", "message": "w"}, {"event": "warned", "message": "w"}]) == [
        "Held-out times: the previous training frame beats the scene by 1.0 dB over moving pixels.",
        "Held-out times: b is the weakest camera, 3.0 dB below the mean.",
        "Held-out times lie 3.5 dB below training frames over moving pixels: motion between frames is guessed.",
        "Held-out cameras lie 10.0 dB below held-out times: the geometry holds only for the cameras that were fitted.",
        "w",
    ]
    assert findings(None, [], []) == []


def test_two_runs_write_the_same_page(page: str, inputs: ReportInputs, tmp_path: Path) -> None:
    assert report(inputs, tmp_path / "again.html").read_text("utf-8") == page


def test_videos_are_linked_and_small_ones_embedded(tmp_path: Path) -> None:
    (tmp_path / "media").mkdir()
    small, large = tmp_path / "media" / "a b#.mp4", tmp_path / "media" / "large.mp4"
    small.write_bytes(b"small")
    large.write_bytes(bytes(3_999_996))  # Would fit alone.
    inputs = ReportInputs(scene=scene(), videos={"rig": small, "orbit": large})
    parsed = _Page(report(inputs, tmp_path / "out" / "r.html").read_text("utf-8"))
    assert parsed.links == ["../media/a%20b%23.mp4", "../media/large.mp4"]
    assert [s for s in parsed.sources if s.startswith("data:video")] == [
        "data:video/mp4;base64," + base64.b64encode(b"small").decode()
    ]
    with pytest.raises(OutputError, match="gone"):
        report(replace(inputs, videos={"rig": tmp_path / "gone.mp4"}), tmp_path / "r.html")


def test_a_scene_alone_makes_a_page_that_says_what_is_missing(tmp_path: Path) -> None:
    text = _Page(report(ReportInputs(scene=scene(config={}, plane=None)), tmp_path / "r.html").read_text("utf-8")).text
    for words in ("was not scored", "nothing to compare", "not at hand", "No timings"):
        assert words in text


def test_an_empty_scene_makes_a_page(tmp_path: Path) -> None:
    full = scene()
    empty: Scene4D = replace(
        full,
        static=type(full.static)(**{k: v[:0] for k, v in vars(full.static).items()}),
        dynamic=type(full.dynamic)(**{k: v[:0] for k, v in vars(full.dynamic).items()}),
        cameras=(),
    )
    assert "0 static and 0 dynamic" in _Page(
        report(ReportInputs(scene=empty), tmp_path / "r.html").read_text("utf-8")
    ).text  # fmt: skip
