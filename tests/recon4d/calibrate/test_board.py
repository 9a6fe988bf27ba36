"""Boards in a word, on paper, and in pictures."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from recon4d.calibrate import Board
from recon4d.calibrate._detect import Detector, other_dictionary
from recon4d.errors import ConfigError

CHARUCO = Board.parse("charuco:6x5:60mm:dict=4X4_50")
TAGS = Board.parse("apriltag:4x3:88mm:gap=0.3:dict=36h11:first=5")


@pytest.mark.parametrize(
    "text",
    [
        "charuco:4x5:54mm:marker=0.75:dict=4X4_1000:inverted",
        "charuco:4x6:2cm:legacy",
        "apriltag:6x6:0.088m:gap=0.3:order=bottom",
        "apriltag:2x2:1in:dict=DICT_APRILTAG_25h9",
    ],
)
def test_a_board_is_read_from_the_word_that_it_writes(text: str) -> None:
    board = Board.parse(text)
    assert Board.parse(str(board)) == board


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("checker:4x5:54mm", "is no board"),
        ("charuco:4x5", "is no board"),
        ("charuco:4x5:54", "with its unit"),
        ("charuco:4by5:54mm", "columns x rows"),
        ("charuco:4x5:54mm:mark=1", "knows marker"),
        ("charuco:4x5:54mm:marker=much", "is no board"),
        ("charuco:4x5:54mm:marker=1.2", "between 0 and 1"),
        ("charuco:4x5:54mm:dict=4X4_51", "there is no dictionary"),
        ("charuco:2x5:54mm", "3 to 100 a side"),
        ("charuco:40x50:54mm:dict=4X4_50", "needs 1000 markers"),
        ("charuco:4x5:54m", "0.1 mm to 10 m"),
        ("charuco:4x5:5..4mm", "is no board"),
    ],
)
def test_what_is_no_board_is_refused_with_what_is(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Board.parse(text)


@pytest.mark.parametrize(
    "board",
    [
        CHARUCO,
        replace(CHARUCO, inverted=True),
        Board.parse("charuco:5x6:60mm:legacy"),
        TAGS,
        replace(TAGS, order="bottom"),
    ],
    ids=str,
)
def test_points_are_found_where_they_are_printed(board: Board) -> None:
    """The mapping from numbers to places is the print's."""
    px = 90
    grey = np.full((900, 1100), 0 if board.inverted else 255, np.uint8)
    picture = board.picture(px)
    grey[100 : 100 + picture.shape[0], 120 : 120 + picture.shape[1]] = picture
    grey = cv2.GaussianBlur(grey, (0, 0), 0.7)
    sight = Detector(board)(grey)
    assert sorted(sight.points) == list(range(len(board.points_m)))
    expected = board.points_m[sight.points, :2] / board.square_m * px + [120, 100]
    assert np.abs(sight.pixels - expected).max() < 0.1


def test_a_picture_of_something_else_shows_no_board() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (300, 400), np.uint8)
    for grey in (noise, np.zeros((300, 400), np.uint8), Board.parse("charuco:6x5:60mm:dict=5X5_50").picture(60)):
        assert len(Detector(CHARUCO)(grey).points) == 0


def test_another_dictionary_is_named() -> None:
    grey = cv2.copyMakeBorder(Board.parse("charuco:5x4:60mm:dict=6X6_100").picture(70), 50, 50, 50, 50, 0, value=255)
    assert other_dictionary([grey, grey]).startswith("6X6_")
    assert other_dictionary([np.full((200, 200), 255, np.uint8)]) == ""
