"""Seeds against a world of known geometry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recon4d.capture import statistics
from recon4d.errors import CalibrationError
from recon4d.geometry import SH_C0, look_at
from recon4d.points import DynamicSeedConfig, Foreground, StaticView, Workspace, dynamic_seeds, static_seeds
from recon4d.points._lifetimes import sample_runs
from recon4d.types import Camera, Capture
from tests import worlds


@pytest.fixture(scope="module")
def capture() -> Capture:
    return worlds.capture(seconds=1.6, rate_hz=20)


@pytest.fixture(scope="module")
def foreground(capture: Capture) -> Foreground:
    backgrounds = [worlds.image(clip.camera, None).astype(np.float32) / 255 for clip in capture.clips]
    return Foreground(capture.clips, [statistics(clip) for clip in capture.clips], backgrounds)


def _keys(capture: Capture) -> list[np.ndarray]:
    return [np.arange(0, len(clip), 2) for clip in capture.clips]


def test_workspace_is_where_the_axes_meet() -> None:
    workspace = Workspace.of(worlds.ring(), worlds.PLANE)
    assert np.linalg.norm(workspace.focus_w) < 1e-6
    assert workspace.distance_m == pytest.approx(np.median([np.linalg.norm(c.center_w) for c in worlds.ring()]))


def test_workspace_of_parallel_axes_lies_on_the_plane() -> None:
    K = np.array([[50.0, 0, 32], [0, 50, 24], [0, 0, 1]])
    cameras = [
        Camera(name=str(x), width=64, height=48, K=K, T_cam_world=look_at(np.array([x, 0, 1.0]), np.array([x, 0, 0.0])))
        for x in (-0.1, 0.1)
    ]
    assert Workspace.of(cameras, worlds.PLANE).focus_w == pytest.approx([0, 0, 0])
    assert Workspace.of(cameras, None).focus_w[2] < 1.0


def test_workspace_of_cameras_at_one_point_is_refused() -> None:
    camera = worlds.ring(1)[0]
    with pytest.raises(CalibrationError, match="one point"):
        Workspace.of([camera, camera], None)


def _settled_views(capture: Capture) -> list[StaticView]:
    """The world without the moving ball, from every camera."""
    return [
        StaticView(
            camera=clip.camera,
            image=worlds.image(clip.camera, None).astype(np.float32) / 255,
            weight=np.ones(clip.valid.shape, np.float32),
        )
        for clip in capture.clips
    ]


def test_static_seeds_lie_on_the_surfaces(capture: Capture) -> None:
    views = _settled_views(capture)
    rng = np.random.default_rng(0)
    workspace = Workspace.of(capture.cameras, worlds.PLANE)
    pool, _ = static_seeds(views, workspace, count=4000, sh_degree=1, rng=rng)
    assert len(pool) == 4000
    assert pool.sh.shape == (4000, 4, 3)
    height = pool.means[:, 2].numpy()
    near_bench = np.abs(height) < 0.01
    near_ball = (
        np.abs(np.linalg.norm(pool.means.numpy() - [0.1, -0.25, worlds.RADIUS_M], axis=1) - worlds.RADIUS_M) < 0.03
    )
    # Measured 0.864; the rest are rays at depths that match by chance, and bench beyond four distances.
    assert (near_bench | near_ball).mean() > 0.8
    # The ball covers about 2 % of the pixels; without a depth search nothing would lie above the bench.
    assert (near_ball & (height > 0.02)).sum() > 20


def test_what_hides_a_pixel_all_the_time_but_moves_is_not_still(capture: Capture) -> None:
    """A moving thing's middle looks settled in one view: surrounded by motion, and of no surface in the others."""
    views = _settled_views(capture)
    image, weight = views[0].image.copy(), views[0].weight.copy()
    image[20:34, 36:60] = [1.0, 0.0, 1.0]  # Magenta is nowhere else.
    weight[20:34, 36:60] = 0.01
    weight[26:28, 40:56] = 1.0
    views[0] = StaticView(camera=views[0].camera, image=image, weight=weight)
    workspace = Workspace.of(capture.cameras, worlds.PLANE)
    pool, _ = static_seeds(views, workspace, count=4000, sh_degree=0, rng=np.random.default_rng(0))
    color = pool.sh[:, 0].numpy() * SH_C0 + 0.5
    assert not ((color[:, 0] > 0.9) & (color[:, 1] < 0.1) & (color[:, 2] > 0.9)).any()


def test_exposures_of_views_and_colours_without_them(capture: Capture) -> None:
    """Views of known brightness: their exposures are found, and seeds have the colours of a view of exposure 1."""
    views = _settled_views(capture)
    workspace = Workspace.of(capture.cameras, worlds.PLANE)
    plain, even = static_seeds(views, workspace, count=2000, sh_degree=0, rng=np.random.default_rng(0))
    given = np.array([1.06, 0.97, 0.9, 1.0])
    given /= np.exp(np.log(given).mean())
    lit = [replace(view, image=view.image * np.float32(gain)) for view, gain in zip(views, given, strict=True)]
    pool, found = static_seeds(lit, workspace, count=2000, sh_degree=0, rng=np.random.default_rng(0))
    # Measured within 0.004; the ball's sides differ in shade from view to view, the images have 64x48 pixels.
    assert found / even == pytest.approx(given, abs=0.01)
    assert even == pytest.approx(np.ones(4), abs=0.02)
    assert pool.sh[:, 0].mean(0).numpy() == pytest.approx(plain.sh[:, 0].mean(0).numpy(), abs=0.02)


def test_dynamic_seeds_lie_on_the_ball_and_move_with_it(capture: Capture, foreground: Foreground) -> None:
    config = DynamicSeedConfig(count=1500)
    workspace = Workspace.of(capture.cameras, worlds.PLANE)
    rng = np.random.default_rng(0)
    pool = dynamic_seeds(foreground, _keys(capture), workspace, config=config, sh_degree=0, rng=rng)
    assert 500 < len(pool) <= 1500
    times = pool.centers_s.numpy()
    centers = np.stack([worlds.ball_center(t) for t in times])
    short = pool.radii_s.numpy() <= config.radius_s + 1e-6
    color = pool.sh[:, 0].numpy() * SH_C0 + 0.5
    orange = (color[:, 0] > 0.6) & (color[:, 2] < 0.3) & short
    distance = np.abs(np.linalg.norm(pool.means.numpy() - centers, axis=1) - worlds.RADIUS_M)
    # Measured: median 9 mm, at 64x48 pixels of 14 mm each.
    assert np.median(distance[orange]) < 0.02
    velocity = np.median(pool.velocities.numpy()[orange], axis=0)
    assert velocity == pytest.approx([worlds.SPEED_M_S, 0, 0], abs=0.08)


def test_seeds_are_repeatable(capture: Capture, foreground: Foreground) -> None:
    def once() -> np.ndarray:
        rng = np.random.default_rng(7)
        workspace = Workspace.of(capture.cameras, worlds.PLANE)
        config = DynamicSeedConfig(count=300)
        return dynamic_seeds(foreground, _keys(capture), workspace, config=config, sh_degree=0, rng=rng).means.numpy()

    assert np.array_equal(once(), once())


def test_nothing_moving_gives_no_seeds() -> None:
    still = worlds.capture(seconds=0.5, moving=False)
    backgrounds = [worlds.image(clip.camera, None).astype(np.float32) / 255 for clip in still.clips]
    foreground = Foreground(still.clips, [statistics(clip) for clip in still.clips], backgrounds)
    workspace = Workspace.of(still.cameras, worlds.PLANE)
    rng = np.random.default_rng(0)
    pool = dynamic_seeds(foreground, _keys(still), workspace, config=DynamicSeedConfig(count=100), sh_degree=1, rng=rng)
    assert len(pool) == 0
    assert pool.sh.shape == (0, 4, 3)


def test_runs_are_maximal_and_sampled_by_their_share(capture: Capture, foreground: Foreground) -> None:
    """Every run is checked against a direct look at the frames."""
    keys = _keys(capture)[0]
    rng = np.random.default_rng(0)
    runs = sample_runs(foreground, 0, keys, threshold=0.08, count=10_000, rng=rng)
    frames = np.stack([foreground.clips[0].frames[int(k)] for k in keys]).astype(int)
    flat = frames.reshape(len(keys), -1, 3)
    assert len(runs.key) > 100
    for pixel, first, last, chosen in zip(runs.pixel, runs.first, runs.last, runs.chosen, strict=True):
        change = np.abs(np.diff(flat[:, pixel], axis=0)).max(-1) > 0.08 * 255
        assert not change[first:last].any()
        assert first == 0 or change[first - 1]
        assert last == len(keys) - 1 or change[last]
        assert first <= chosen <= last
        assert foreground.mask(0, int(keys[chosen])).ravel()[pixel]


def test_box_surrounds_the_ball(capture: Capture, foreground: Foreground) -> None:
    clip = capture.clips[1]
    box = foreground.box(1, 10)
    assert box is not None
    truth = np.abs(worlds.image(clip.camera, clip.times[10]).astype(int) - worlds.image(clip.camera, None)).max(-1) > 30
    rows, columns = np.nonzero(truth)
    assert box[0] <= columns.min()
    assert box[1] <= rows.min()
    assert box[2] > columns.max()
    assert box[3] > rows.max()
