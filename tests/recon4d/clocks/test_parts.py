"""What the clocks are made of."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from recon4d.capture import Distortion, RigCamera
from recon4d.clocks import _kernels as k
from recon4d.clocks._clock import Clock, late_by
from recon4d.clocks._pencil import Pencil
from recon4d.clocks._tracks import Follower, rays
from recon4d.geometry import look_at, project
from recon4d.types import Camera

RNG = np.random.default_rng(5)


def camera(name: str, center: tuple[float, float, float]) -> Camera:
    K = np.array([[300.0, 0, 161.0], [0, 310.0, 118.0], [0, 0, 1]])
    return Camera(name=name, width=320, height=240, K=K, T_cam_world=look_at(np.array(center), np.zeros(3)))


def test_clocks_compose() -> None:
    a, b = Clock(scale=1.01, offset_s=3.0), Clock(scale=0.99, offset_s=-1.0)
    times = np.array([0.0, 2.5, 10.0])
    assert a.after(b)(times) == pytest.approx(a(b(times)))
    assert a.inverse()(a(times)) == pytest.approx(times)
    late = late_by(0.2, 0.005, 4.0)
    assert late(times + 0.2 + 0.005 * (times - 4.0)) == pytest.approx(times)


@pytest.mark.parametrize(
    "centres", [((1, 0.2, 0.6), (-0.3, 1, 0.5)), ((1, 0, 0.5), (-1, 0, 0.5))], ids=["side", "face"]
)
def test_one_point_has_one_angle_in_both_pictures(centres: tuple) -> None:
    a, b = (camera(str(index), centre) for index, centre in enumerate(centres))
    pencil = Pencil(a, b)
    points_w = RNG.uniform(-0.2, 0.2, (50, 3))
    angles = []
    for view in (a, b):
        pixels, _ = project(points_w, view.K, view.T_cam_world)
        angles.append(pencil.angles(rays(RigCamera(camera=view), pixels))[0])
    assert np.isfinite(angles[0]).sum() > 30
    both = np.isfinite(angles[0]) & np.isfinite(angles[1])
    assert angles[0][both] == pytest.approx(angles[1][both], abs=1e-9)


@pytest.mark.parametrize("model", ["opencv", "fisheye"])
def test_rays_undo_the_lens(model: str) -> None:
    view = camera("a", (1, 0, 0.5))
    numbers = np.array([0.05, -0.02, 0.001, -0.001] if model == "opencv" else [0.02, -0.005, 0.001, 0.0])
    points_cam = np.column_stack([RNG.uniform(-0.3, 0.3, (40, 2)), np.ones(40)])
    distort = cv2.fisheye.projectPoints if model == "fisheye" else cv2.projectPoints
    pixels = distort(points_cam[:, None], np.zeros(3), np.zeros(3), view.K, numbers)[0][:, 0]
    lens = Distortion(model="fisheye" if model == "fisheye" else "opencv", coefficients=numbers)
    found = rays(RigCamera(camera=view, distortion=lens), pixels)
    expected = points_cam @ view.T_cam_world[:3, :3]
    assert found == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True), abs=1e-4)


def test_moments_are_those_of_the_definition() -> None:
    time_a, time_b = np.sort(RNG.uniform(0, 2, 40)), np.sort(RNG.uniform(0.3, 2.2, 50))
    angle_a, angle_b = np.sin(time_a), np.sin(time_b) + 0.01 * RNG.normal(size=50)
    start_a, start_b = np.array([0, 15, 40]), np.array([0, 20, 50])
    pairs = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    out = np.empty((4, k.MOMENTS))
    lag = 0.13
    k.compare(pairs, angle_a, time_a, start_a, angle_b, time_b, start_b, lag, out)
    for (i, j), row in zip(pairs, out, strict=True):
        a, b = slice(start_a[i], start_a[i + 1]), slice(start_b[j], start_b[j + 1])
        t = time_a[a][(time_a[a] + lag >= time_b[b][0]) & (time_a[a] + lag <= time_b[b][-1])]
        at = np.interp(t, time_a[a], angle_a[a])
        r = at - np.interp(t + lag, time_b[b], angle_b[b])
        step = np.clip(np.searchsorted(time_b[b], t + lag) - 1, 0, None)
        v = (np.diff(angle_b[b]) / np.diff(time_b[b]))[step]
        expected = [r**0, r, r * r, v, v * v, t, v * t, v * v * t, at, at * at]
        assert row == pytest.approx([float(x.sum()) for x in expected])


def test_a_thing_that_moves_is_followed_to_a_tenth_of_a_pixel_and_the_rest_is_not() -> None:
    texture = cv2.GaussianBlur(RNG.uniform(0, 255, (400, 500)).astype(np.float32), (0, 0), 6) * 3 - 250
    thing = cv2.GaussianBlur(RNG.uniform(0, 255, (90, 90)).astype(np.float32), (0, 0), 1.5) * 3 - 250
    view = RigCamera(camera=camera("a", (1, 0, 0.5)))
    follower = Follower(view, 1 / 30)
    path = [np.array([60 + 1.37 * n, 70 + 9 * np.sin(0.1 * n)]) for n in range(45)]
    for x, y in path:
        picture = texture[:240, :320].copy()
        shift = np.array([[1, 0, x], [0, 1, y]])
        moved = cv2.warpAffine(thing, shift, (320, 240), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        inside = cv2.warpAffine(np.ones_like(thing), shift, (320, 240)) > 0.999
        picture[inside] = moved[inside]
        follower.see(np.repeat(np.clip(picture, 0, 255).astype(np.uint8)[..., None], 3, -1))
    tracks = follower.tracks()
    assert len(tracks) > 20
    assert 1.37 * 30 * 0.8 < tracks.speed_px_s < 70
    misses = []
    for begin, end in zip(tracks.start[:-1], tracks.start[1:], strict=True):
        in_camera = tracks.ray_w[begin:end] @ view.camera.T_cam_world[:3, :3].T
        pixels = in_camera[:, :2] / in_camera[:, 2:] * view.camera.K[[0, 1], [0, 1]] + view.camera.K[:2, 2]
        off = pixels - np.array(path)[tracks.frame[begin:end]]
        misses.append(off.std(0).max())
    assert np.median(misses) < 0.1


def test_without_frames_that_move_there_are_no_tracks() -> None:
    follower = Follower(RigCamera(camera=camera("a", (1, 0, 0.5))), 1 / 30)
    picture = RNG.integers(0, 255, (240, 320, 3)).astype(np.uint8)
    for _ in range(10):
        follower.see(picture)
    tracks = follower.tracks()
    assert (len(tracks), tracks.speed_px_s, tracks.ray_w.shape) == (0, 0.0, (0, 3))
