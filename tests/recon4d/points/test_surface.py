"""Discs on surfaces: analytic planes and an edge between two."""

import numpy as np
import pytest

from recon4d.geometry import look_at
from recon4d.points._surface import facing
from recon4d.types import Camera

K = np.array([[60.0, 0, 32], [0, 60.0, 24], [0, 0, 1]])


def _plane_depth(camera: Camera, normal: np.ndarray, offset: float) -> np.ndarray:
    """[h, w] where the rays meet normal . x = offset."""
    v, u = np.mgrid[: camera.height, : camera.width]
    rays = np.stack([(u + 0.5 - K[0, 2]) / K[0, 0], (v + 0.5 - K[1, 2]) / K[1, 1], np.ones(u.shape)], -1)
    rays = rays @ camera.T_cam_world[:3, :3]
    return (offset - camera.center_w @ normal) / (rays @ normal)


@pytest.mark.parametrize("degrees", [0.0, 30.0, 55.0])
def test_a_plane_gets_its_normal_and_its_stretch(degrees: float) -> None:
    angle = np.deg2rad(degrees)
    center = np.array([0.0, -np.sin(angle), np.cos(angle)])
    camera = Camera(name="c", width=64, height=48, K=K, T_cam_world=look_at(center, np.zeros(3)))
    depth = _plane_depth(camera, np.array([0.0, 0, 1]), 0.0)
    row, column = np.array([24]), np.array([32])
    found = facing(camera, depth, row, column)
    assert found.flat.all()
    assert found.axes[0, :, 2] == pytest.approx([0, 0, 1], abs=0.01)
    assert np.linalg.det(found.axes[0]) == pytest.approx(1)
    # A grazed plane's footprint grows with 1 / cos along the line of sight, which here runs along y.
    assert found.stretch[0] == pytest.approx(1 / np.cos(angle), rel=0.03)
    if degrees:
        assert abs(found.axes[0, :, 0] @ [0, 1, 0]) == pytest.approx(1, abs=0.01)


def test_stretch_ends_somewhere() -> None:
    camera = Camera(name="c", width=64, height=48, K=K, T_cam_world=look_at(np.array([0, -1, 0.15]), np.zeros(3)))
    depth = _plane_depth(camera, np.array([0.0, 0, 1]), 0.0).clip(0.1, 3.0)
    found = facing(camera, depth, np.array([30]), np.array([32]))
    assert found.flat.all()
    assert found.stretch[0] == pytest.approx(2.0)


def test_edges_are_not_flat() -> None:
    camera = Camera(name="c", width=64, height=48, K=K, T_cam_world=look_at(np.array([0.0, 0, 2]), np.zeros(3)))
    depth = np.where(np.arange(64)[None] < 32, 2.0, 1.5) * np.ones((48, 1))
    row, column = np.full(64, 20), np.arange(64)
    found = facing(camera, depth, row, column)
    assert not found.flat[30:34].any()
    assert found.flat[4:29].all()
    assert found.flat[36:60].all()
    assert (found.stretch[~found.flat] == 1).all()
    assert found.axes[~found.flat] == pytest.approx(np.repeat(np.eye(3)[None], (~found.flat).sum(), 0))
