"""What lies behind a thing that covers it most of the time."""

from __future__ import annotations

import numpy as np

from recon4d.capture import statistics
from recon4d.points import StaticView
from recon4d.train._backdrop import uncover
from recon4d.types import Clip
from tests import worlds

WALL, ARM = 90, 20
SETTLED_SPREAD = 0.04
FRAMES, HEIGHT, WIDTH = 40, 24, 32


def clip(covered: dict[int, float], noise: float = 1.0, wall: np.ndarray | None = None) -> Clip:
    """Frames of a wall of which columns are covered by an arm for a share of the time."""
    rng = np.random.default_rng(0)
    plain = np.full((HEIGHT, WIDTH, 3), WALL) if wall is None else wall
    frames = plain + rng.normal(0, noise, (FRAMES, HEIGHT, WIDTH, 3))
    for column, share in covered.items():
        frames[: round(share * FRAMES), :, column] = ARM
    (camera,) = worlds.ring(1, WIDTH, HEIGHT)
    return Clip(
        camera=camera,
        frames=frames.clip(0, 255).astype(np.uint8),
        times=np.arange(FRAMES) / 10,
        valid=np.ones((HEIGHT, WIDTH), bool),
    )


def view_of(taken: Clip) -> StaticView:
    found = statistics(taken)
    weight = np.maximum(1 / (1 + (found.spread / SETTLED_SPREAD) ** 2), 0.02)
    return StaticView(camera=taken.camera, image=found.median.astype(np.float32) / 255, weight=weight)


def test_a_wall_that_shows_in_a_few_frames_takes_the_place_of_what_covers_it() -> None:
    taken = clip({5: 0.7, 20: 0.3})
    view = view_of(taken)
    assert np.abs(view.image[:, 5] * 255 - ARM).max() < 3  # The median is the arm.
    found = uncover(taken, view, np.ones((HEIGHT, WIDTH), bool), SETTLED_SPREAD)
    assert np.abs(found.image * 255 - WALL).max() < 4
    assert found.weight[:, 5].min() > 0.8
    assert np.array_equal(found.image[:, 20], view.image[:, 20])  # There the median was the wall already.


def test_what_is_never_seen_has_no_weight() -> None:
    taken = clip({5: 0.98})
    beyond = np.ones((HEIGHT, WIDTH), bool)
    # Covered but for one frame of forty, which is less than a tenth.
    found = uncover(taken, view_of(taken), beyond, SETTLED_SPREAD)
    assert found.weight[:, 5].max() == 0
    assert found.weight[:, 6].min() > 0.9


def test_the_bench_is_left_as_it_is() -> None:
    taken = clip({5: 0.7, 25: 0.7})
    beyond = np.zeros((HEIGHT, WIDTH), bool)
    beyond[:, 16:] = True
    view = view_of(taken)
    found = uncover(taken, view, beyond, SETTLED_SPREAD)
    assert np.array_equal(found.image[:, :16], view.image[:, :16])
    assert np.array_equal(found.weight[:, :16], view.weight[:, :16])
    assert np.abs(found.image[:, 25] * 255 - WALL).max() < 4


def test_without_a_settled_backdrop_nothing_is_known() -> None:
    taken = clip(dict.fromkeys(range(WIDTH), 0.6))
    view = view_of(taken)
    assert uncover(taken, view, np.ones((HEIGHT, WIDTH), bool), SETTLED_SPREAD) is view
