"""Camera paths."""

from __future__ import annotations

import numpy as np
import pytest

from recon4d.geometry import look_at, project
from recon4d.show._paths import Arc, focus
from recon4d.types import Camera

TARGET = np.array([0.4, -0.2, 0.1])


def _camera(azimuth_deg: float, elevation_deg: float = 35, radius: float = 1.2, name: str = "a") -> Camera:
    azimuth, elevation = np.radians([azimuth_deg, elevation_deg])
    offset = np.array([np.cos(azimuth) * np.cos(elevation), np.sin(azimuth) * np.cos(elevation), np.sin(elevation)])
    K = np.array([[70.0, 0, 31], [0, 70, 25], [0, 0, 1]])
    return Camera(name=name, width=64, height=48, K=K, T_cam_world=look_at(TARGET + radius * offset, TARGET))


def test_focus_is_where_the_axes_meet() -> None:
    np.testing.assert_allclose(focus([_camera(0), _camera(70), _camera(130)], None), TARGET, atol=1e-3)


def test_focus_of_one_camera_is_one_metre_ahead() -> None:
    camera = _camera(10)
    np.testing.assert_allclose(focus([camera], None), camera.center_w + camera.forward_w, atol=1e-9)


def test_focus_on_a_bench_is_where_the_axes_meet_it() -> None:
    bench = np.array([0.0, 0, 1, -0.1])
    np.testing.assert_allclose(focus([_camera(0), _camera(90)], bench), TARGET, atol=1e-9)
    upwards = _camera(0, elevation_deg=-30)  # Below the bench: meets it from behind.
    np.testing.assert_allclose(focus([upwards, _camera(90)], bench), TARGET, atol=1e-9)
    np.testing.assert_allclose(focus([upwards], bench), upwards.center_w + upwards.forward_w, atol=1e-9)


def test_the_arc_passes_all_cameras_and_avoids_the_widest_gap() -> None:
    cameras = [_camera(170), _camera(-100, 50), _camera(100, 20, 1.5), _camera(-150)]
    arc = Arc(cameras, None)
    way = [arc.camera(share) for share in np.linspace(0, 1, 400)]
    centers = np.stack([camera.center_w for camera in way])
    for camera in cameras:
        assert np.linalg.norm(centers - camera.center_w, axis=1).min() < 0.02
    azimuths = np.degrees(np.arctan2(centers[:, 1] - TARGET[1], centers[:, 0] - TARGET[0])) % 360
    assert azimuths.min() > 99
    assert azimuths.max() < 261
    assert np.linalg.norm(np.diff(centers, axis=0), axis=1).max() < 0.05


def test_the_arc_looks_at_the_focus_with_the_rig_s_field_of_view() -> None:
    arc = Arc([_camera(0), _camera(80)], None)
    for share in (0.0, 0.3, 1.0):
        camera = arc.camera(share)
        pixel, depth = project(TARGET, camera.K, camera.T_cam_world)
        np.testing.assert_allclose(pixel, [32, 24], atol=0.2)
        assert depth > 0
        assert camera.K[0, 0] == 70


@pytest.mark.parametrize("cameras", [[_camera(0)], [_camera(0), _camera(0)]])
def test_a_rig_without_extent_gets_a_path_too(cameras: list[Camera]) -> None:
    arc = Arc(cameras, None)
    assert np.isfinite(arc.camera(0.5).T_cam_world).all()
